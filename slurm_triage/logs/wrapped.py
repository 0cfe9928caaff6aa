"""Lines that ``srun -l`` cut: after 1024 bytes of a task's line it starts a new physical line with the same label.

Measured on Slurm 22.05: a piece has exactly 1024 payload bytes, its continuation follows as the next line of that rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from slurm_triage.logs.line import LabelFormat
from slurm_triage.rules.database import Search

PIECE_BYTES = 1024
_MAX_PIECES = 64


def has_long_line(data: bytearray, end: int, labels: LabelFormat) -> bool:
    """Whether it is worth while to look for cut lines."""
    return labels.width is not None and bool(_long_line().ends(data, 0, end))


@cache
def _long_line() -> Search:
    return Search(b"[^\\n]{%d}" % PIECE_BYTES, once=True)


def cut_lines(data: bytearray, end: int, labels: LabelFormat) -> Iterator[tuple[int, bytes]]:
    """(start offset, re-joined line with its label) of every cut line that begins in ``data[:end]``.

    Jumps from newline to newline 1024 bytes apart, so that short lines cost next to nothing.
    """
    if labels.width is None:
        return
    prefix = labels.width + 2
    full = prefix + PIECE_BYTES
    position, joined_to = 0, 0
    while position + PIECE_BYTES < end:
        newline = data.rfind(b"\n", position, position + PIECE_BYTES)
        if newline >= 0:
            position = newline + 1
            continue
        line_end = data.find(b"\n", position + PIECE_BYTES, end)
        if line_end < 0:
            return
        if line_end - position == full and position >= joined_to:
            joined, joined_to = _join(data, position, line_end, end, labels)
            if joined is not None:
                yield position, joined
        position = line_end + 1


def _join(data: bytearray, start: int, line_end: int, end: int, labels: LabelFormat) -> tuple[bytes | None, int]:
    label = bytes(data[start : start + labels.width + 2]) if labels.width is not None else b""
    if labels.split(label)[0] is None:
        return None, line_end
    pieces = [bytes(data[start:line_end])]
    position = line_end
    while len(pieces) < _MAX_PIECES:
        # The next line of this rank, within the lookahead.
        found = data.find(b"\n" + label, position, min(end, position + (64 << 10)))
        if found < 0:
            break
        piece_start = found + 1 + len(label)
        piece_end = data.find(b"\n", piece_start, end)
        if piece_end < 0:
            piece_end = end
        pieces.append(bytes(data[piece_start:piece_end]))
        position = piece_end
        if piece_end - piece_start != PIECE_BYTES:
            break
    return (b"".join(pieces), position) if len(pieces) > 1 else (None, line_end)
