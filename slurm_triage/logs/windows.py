"""A file as a series of overlapping windows of whole lines, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

#: Bytes read at a time. 8 MiB keeps the scan in the last-level cache's reach and peak memory far below 150 MB.
WINDOW_BYTES = 8 << 20
#: Bytes kept ahead of the line being looked at, so that messages of many lines can be put together.
LOOKAHEAD_BYTES = 256 << 10


class Readable(Protocol):
    def readinto(self, buffer: memoryview, /) -> int: ...


@dataclass(slots=True)
class Window:
    """``data[:end]`` is valid. Lines that begin before ``emit_to`` belong to this window, later ones to the next.

    ``base`` is the file offset of ``data[0]``, which is always the first byte of a line (or of a cut of a line that is
    longer than the window). ``data`` is reused: nothing may keep a view of it.
    """

    data: bytearray
    end: int
    emit_to: int
    base: int
    eof: bool


def windows(
    source: Readable, size_bytes: int = WINDOW_BYTES, lookahead_bytes: int = LOOKAHEAD_BYTES
) -> Iterator[Window]:
    """Windows over ``source`` until it is exhausted. An empty source gives no window."""
    data = bytearray(size_bytes + lookahead_bytes)
    base = filled = 0
    while True:
        with memoryview(data) as view:
            eof = False
            while filled < len(data):
                got = source.readinto(view[filled:])
                if not got:
                    eof = True
                    break
                filled += got
        if not filled:
            return
        if eof:
            yield Window(data, filled, filled, base, True)
            return
        cut = data.rfind(b"\n", 0, filled - lookahead_bytes) + 1
        # A line longer than a whole window is cut: no message that matters is that long.
        emit_to = cut or filled - lookahead_bytes
        yield Window(data, filled, emit_to, base, False)
        data[: filled - emit_to] = data[emit_to:filled]
        base += emit_to
        filled -= emit_to
