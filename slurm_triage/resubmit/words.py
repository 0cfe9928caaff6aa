"""Shell words as bash writes them with ``%q``: backslashes, quotes and ``$'...'``."""

from __future__ import annotations

import re

_ANSI_C = re.compile(
    rb"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8}))"
)
_SIMPLE = {
    b"a": b"\a",
    b"b": b"\b",
    b"e": b"\x1b",
    b"E": b"\x1b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
}


def split(line: str) -> list[str]:
    """Words of one simple command without expansions. Raises ValueError for an unfinished quote."""
    words: list[str] = []
    word: list[str] | None = None
    i = 0
    while i < len(line):
        char = line[i]
        if char in " \t\n":
            if word is not None:
                words.append("".join(word))
                word = None
            i += 1
            continue
        word = word if word is not None else []
        if char == "\\":
            if i + 1 >= len(line):
                raise ValueError("the line ends in a backslash")
            word.append(line[i + 1])
            i += 2
        elif char == "'":
            end = _closing(line, i + 1, "'")
            word.append(line[i + 1 : end])
            i = end + 1
        elif char == '"':
            text, i = _double_quoted(line, i + 1)
            word.append(text)
        elif line.startswith("$'", i):
            text, i = _ansi_c_quoted(line, i + 2)
            word.append(text)
        else:
            word.append(char)
            i += 1
    if word is not None:
        words.append("".join(word))
    return words


def _closing(line: str, start: int, quote: str) -> int:
    end = line.find(quote, start)
    if end < 0:
        raise ValueError(f"no closing {quote}")
    return end


def _double_quoted(line: str, i: int) -> tuple[str, int]:
    text: list[str] = []
    while i < len(line):
        if line[i] == '"':
            return "".join(text), i + 1
        if line[i] == "\\" and line[i + 1 : i + 2] in {'"', "\\", "$", "`"}:
            text.append(line[i + 1])
            i += 2
        else:
            text.append(line[i])
            i += 1
    raise ValueError('no closing "')


def _ansi_c_quoted(line: str, i: int) -> tuple[str, int]:
    start = i
    while i < len(line):
        if line[i] == "\\":
            i += 2
        elif line[i] == "'":
            return _ansi_c_text(line[start:i]), i + 1
        else:
            i += 1
    raise ValueError("no closing '")


def _ansi_c_text(text: str) -> str:
    """Octal and hexadecimal escapes are bytes: bash writes a character that it cannot print as several of them."""
    return _ANSI_C.sub(_unescaped, text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def _unescaped(match: re.Match[bytes]) -> bytes:
    simple, octal, hexadecimal, short, long = match.groups()
    if simple is not None:
        return _SIMPLE.get(simple, simple)
    if octal is not None:
        return bytes([int(octal, 8) & 0xFF])
    if hexadecimal is not None:
        return bytes([int(hexadecimal, 16)])
    return chr(min(int(short or long, 16), 0x10FFFF)).encode("utf-8", "surrogatepass")
