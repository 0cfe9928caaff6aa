"""The lines before and behind a match by the same speaker, whatever other ranks printed in between."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slurm_triage.logs.line import MAX_BODY_BYTES, LabelFormat, Line, parse

#: Bytes after a match in which the rest of a message is looked for.
_MAX_BLOCK_BYTES = 192 << 10
#: Lines before it among which the frame of a traceback is: of the same speaker (Python 3.13 shows statements of several
#: lines), and of all ranks.
_MAX_OWN_LINES, _MAX_LINES = 16, 512
_MAX_FRAME_BYTES = 64 << 10
_FRAME = re.compile(r'[ |+]*File "[^"]{1,400}", line \d+')
_INDENT = ("    ", "\t", "  |     ")


def following(
    data: bytearray, position: int, end: int, first: Line, labels: LabelFormat, max_lines: int
) -> Iterator[str]:
    """Bodies of the lines of the same rank after ``position`` (the end of the line ``first``), other ranks' lines left
    out. Behind one label several workers may speak, each line with its own rank inside."""
    stop = min(end, position + _MAX_BLOCK_BYTES)
    position += 1
    given = 0
    while position < stop and given < max_lines:
        newline = data.find(b"\n", position, stop)
        line_end = newline if newline >= 0 else stop
        raw = bytes(data[position : min(line_end, position + MAX_BODY_BYTES)])
        if labels.width is None or labels.split(raw)[0] == first.rank:
            line = parse(raw, labels)
            if first.inner_rank is None or line.inner_rank == first.inner_rank:
                yield line.body
                given += 1
        position = line_end + 1


def shows_source(data: bytearray, position: int, line: Line, labels: LabelFormat) -> bool:
    """Whether the line at ``position`` is program text that a traceback shows below a frame. It quotes a message with
    its conditions and braces, whether or not it was ever said."""
    if not line.body.startswith(_INDENT) or _FRAME.match(line.body):
        return False
    start = max(0, position - _MAX_FRAME_BYTES)
    own = 0
    for _ in range(_MAX_LINES):
        if position <= start or own == _MAX_OWN_LINES:
            break
        begin = data.rfind(b"\n", start, position - 1) + 1
        raw = bytes(data[begin : min(position - 1, begin + MAX_BODY_BYTES)])
        position = begin
        if labels.width is not None and labels.split(raw)[0] != line.rank:
            continue
        before = parse(raw, labels)
        if line.inner_rank is not None and before.inner_rank != line.inner_rank:
            continue
        own += 1
        if not before.body.startswith(_INDENT):
            return _FRAME.match(before.body) is not None
    return False
