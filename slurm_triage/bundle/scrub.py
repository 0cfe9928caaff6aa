"""Log text without secrets, line by line, as close to the original as possible: labels, order and lines stay.

What a launcher has cut is put together first (a token may go over the cut), and so are private keys over many lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from slurm_triage.logs.line import LabelFormat, strip_prefixes
from slurm_triage.logs.wrapped import PIECE_BYTES
from slurm_triage.report.redact import REDACTED, redact_text

Rename = Callable[[str], str]

_ESCAPE = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()*+][A-Za-z0-9]|\x1b\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)?|\x1b.|[\x0f\0]"
)
_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY")
#: What stands inside a key: base64 and a header or two, perhaps quoted.
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=]{1,128}|(?:Proc-Type|DEK-Info|Comment|Version|Hash|Charset): .*|")
_AROUND_KEY = " \t\"',+"
#: Other lines in a row after which a key without an end is over. Ranks without labels may stand between its lines.
_MAX_OTHER_LINES = 16
#: Other lines that may stand between two pieces of a cut line, and pieces of one line.
_MAX_BETWEEN, _MAX_PIECES = 4096, 64


class Scrubber:
    """Takes the secrets out of one log. ``rename`` replaces private names in what is left."""

    def __init__(self, labels: LabelFormat, rename: Rename | None = None) -> None:
        self._labels = labels
        self._rename = rename
        self._inside_key: dict[int | None, int] = {}

    def scrub(self, data: bytes, context: bytes = b"") -> bytes:
        """``data`` (whole lines) without secrets; ``context`` are the lines before it."""
        first = context.count(b"\n")
        lines = (context + data).split(b"\n")
        out: list[bytes | None] = [None] * len(lines)
        taken: set[int] = set()
        self._inside_key.clear()
        for number, raw in enumerate(lines):
            if number in taken:
                continue
            pieces = self._pieces(lines, number)
            whole = raw + b"".join(self._labels.split(lines[n])[1] for n in pieces[1:])
            clean = self._line(whole)
            if clean == whole:
                # Untouched lines stay where they are, cut or not.
                for n in pieces:
                    out[n] = lines[n]
            else:
                out[number] = clean if len(pieces) == 1 else self._cut(clean)
            taken.update(pieces[1:])
        return b"\n".join(line for line in out[first:] if line is not None)

    def _pieces(self, lines: list[bytes], number: int) -> list[int]:
        """Numbers of the physical lines that are one line of a rank (see logs/wrapped.py)."""
        pieces = [number]
        rank, rest = self._labels.split(lines[number])
        if rank is None:
            return pieces
        while len(rest) == PIECE_BYTES and len(pieces) < _MAX_PIECES:
            after = pieces[-1] + 1
            near = ((n, *self._labels.split(lines[n])) for n in range(after, min(len(lines), after + _MAX_BETWEEN)))
            following = next(((n, text) for n, other, text in near if other == rank), None)
            if following is None:
                break
            pieces.append(following[0])
            rest = following[1]
        return pieces

    def _cut(self, line: bytes) -> bytes:
        """Cut again where ``srun -l`` would have."""
        rest = self._labels.split(line)[1]
        label = line[: len(line) - len(rest)]
        if len(rest) % PIECE_BYTES == 0:
            # A last piece of full length would be taken for one that goes on.
            rest += b" "
        return b"\n".join(label + rest[at : at + PIECE_BYTES] for at in range(0, len(rest), PIECE_BYTES))

    def _line(self, raw: bytes) -> bytes:
        rank, rest = self._labels.split(raw)
        text = rest.decode("utf-8", "surrogateescape")
        clean = self._text(text, rank)
        if clean is text:
            return raw
        return raw[: len(raw) - len(rest)] + clean.encode("utf-8", "surrogateescape")

    def _text(self, text: str, rank: int | None) -> str:
        end = "\r" if text.endswith("\r") else ""
        body = text[: len(text) - len(end)]
        clean = self._without_key(body, rank)
        if clean is None:
            clean = self._clean(body)
        return text if clean == body else clean + end

    def _clean(self, text: str) -> str:
        """Terminal codes beside or inside a token must not hide it, and are kept where they do not."""
        rename = self._rename or _same
        clean = rename(redact_text(text))
        if "\x1b" in text or "\x0f" in text or "\0" in text:
            bare = rename(redact_text(_ESCAPE.sub("", text)))
            if bare != _ESCAPE.sub("", clean):
                return bare
        return clean

    def _without_key(self, text: str, rank: int | None) -> str | None:
        """What to print instead of a line of a private key; None if the line is none."""
        if _KEY_BEGIN.search(text) and not _KEY_END.search(text):
            self._inside_key[rank] = _MAX_OTHER_LINES
            return self._clean(text[: text.index("-----BEGIN")]) + REDACTED
        left = self._inside_key.get(rank, 0)
        if not left:
            return None
        if _KEY_END.search(text):
            self._inside_key[rank] = 0
            return REDACTED
        body = strip_prefixes(_ESCAPE.sub("", text))[0].removesuffix("\\n").strip(_AROUND_KEY).removesuffix("\\n")
        if _KEY_BODY.fullmatch(body):
            self._inside_key[rank] = _MAX_OTHER_LINES
            return REDACTED
        self._inside_key[rank] = left - 1
        return None


def _same(text: str) -> str:
    return text
