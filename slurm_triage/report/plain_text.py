"""Untrusted text made safe to show: one line, nothing invisible, nothing that moves a terminal's cursor."""

from __future__ import annotations

import re
import unicodedata

#: Longest piece of log text that any view shows. Longer lines say nothing more to a person and fill a page.
MAX_CHARS = 300

ELLIPSIS = "…"

#: CSI (colours, cursor), OSC and other string sequences (titles, links, clipboard), charset and two-byte escapes.
#: A string sequence must end within 400 characters: model texts are never longer, and an open one must not eat a page.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]{0,400}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{1,16}[0-~]"
    r"|\x1b[0-Z\\-~]"
)
_NOT_PRINTABLE_ASCII = re.compile(r"[^\x20-\x7e]")
_SURROGATE = re.compile("[\ud800-\udfff]")

#: Letters and marks that Unicode calls visible but that draw nothing: fillers, variation selectors, the blank braille
#: cell. They hide text as well as a zero-width space does.
_BLANK = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))
)
_SPACES = frozenset("\t\n\r\x0b\x0c\x85\u2028\u2029")
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_REPLACEMENT = "\ufffd"


def valid_unicode(text: str) -> str:
    """``text`` with lone surrogates (bytes of a file name that were not UTF-8) replaced by U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub(_REPLACEMENT, text)


def plain(text: str) -> str:
    """One line of visible characters.

    Escape sequences are dropped; line ends and tabs become a blank; other control characters become their pictures
    (NUL: ␀); bidirectional overrides, zero-width and unassigned characters become U+FFFD, so that what is shown is
    what is there. Applying it twice changes nothing.
    """
    if text.isascii() and text.isprintable():
        return text
    return _NOT_PRINTABLE_ASCII.sub(_visible, _ESCAPES.sub("", text))


def _visible(match: re.Match[str]) -> str:
    char = match[0]
    if char in _SPACES:
        return " "
    if char < "\x20":
        return chr(0x2400 + ord(char))
    if char == "\x7f":
        return "␡"
    category = unicodedata.category(char)
    if category == "Zs":
        return " "
    return _REPLACEMENT if category in _HIDDEN_CATEGORIES or char in _BLANK else char


def cut(text: str, limit: int = MAX_CHARS) -> str:
    """``text``, at most ``limit`` characters, the last of them an ellipsis where something was cut off."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + ELLIPSIS


def shown(text: str, limit: int = MAX_CHARS) -> str:
    """What a view shows of an untrusted text: plain, stripped, cut."""
    # Cut before cleaning bounds the work on hostile input; the factor leaves room for escape sequences.
    return cut(plain(text[: 8 * limit]).strip(), limit)


def columns(text: str) -> int:
    """Terminal columns of a plain text: East Asian wide characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(_char_columns(char) for char in text)


def _char_columns(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def fit(text: str, width: int) -> str:
    """``text`` cut to ``width`` columns."""
    if columns(text) <= width:
        return text
    kept, used = [], 0
    for char in text:
        used += _char_columns(char)
        if used > width - 1:
            break
        kept.append(char)
    return "".join(kept).rstrip() + ELLIPSIS if width > 0 else ""
