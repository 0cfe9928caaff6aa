"""One line of a ledger file: a JSON object that carries its own sequence number, length and CRC32C.

    {"crc":"9f1c2b3a","seq":1042,"len":612,"key":"alpha/7877/s1760000000","rev":1760003600123,"rec":{...}}

The checksum covers every byte after its own closing quote up to and including the last brace, exactly as written:
``line[17:-1]`` of the line without its newline is ``line[17:]``. ``len`` is the length in bytes of the value that
follows the kind (``rec``), so the end of a line is known even when its newline is damaged. The opening bytes
``{"crc":"`` cannot occur inside a JSON string (its quotes are escaped), so they mark where reading can resume.
Kinds: rec (a record), seg (the head of a segment), seal, fence, mark (high-water mark), roll (roll-up).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from google_crc32c import value as crc32c

MARK = b'{"crc":"'
_COVERED_FROM = 17
_HEAD = re.compile(
    rb'\{"crc":"([0-9a-f]{8})","seq":(\d{1,18}),"len":(\d{1,8}),"key":"([^"\\\n]{0,1024})","rev":(\d{1,18}),"([a-z]{3,5})":'
)
_UNSAFE = re.compile(r"[^A-Za-z0-9._@:+-]")


class Frame(NamedTuple):
    """A line whose checksum is right, from offset ``start`` up to its newline at ``end``."""

    start: int
    end: int
    seq: int
    key: bytes
    rev: int
    kind: bytes
    payload: bytes


class Damage(NamedTuple):
    """Bytes that are no valid line. ``torn`` when they reach the end of the data without a newline."""

    start: int
    end: int
    torn: bool


def safe(text: str) -> str:
    """``text`` as one part of a key: anything but letters, digits and ``._@:+-`` becomes ``%XX`` (UTF-8)."""
    if not _UNSAFE.search(text):
        return text
    return _UNSAFE.sub(lambda m: "".join(f"%{b:02X}" for b in m[0].encode("utf-8", "surrogatepass")), text)


def encode(kind: str, seq: int, key: str, rev: int, payload: bytes) -> bytes:
    """The whole line with its newline. ``key`` is made of ``safe`` parts, ``payload`` is JSON without newlines."""
    covered = b',"seq":%d,"len":%d,"key":"%b","rev":%d,"%b":%b}' % (
        seq,
        len(payload),
        key.encode("ascii"),
        rev,
        kind.encode("ascii"),
        payload,
    )
    return b'{"crc":"%08x"%b\n' % (crc32c(covered), covered)


def parse_at(data: bytes, at: int, limit: int) -> Frame | None:
    """The valid line that starts at ``at`` and ends, newline or not, at or before ``limit``; else None."""
    head = _HEAD.match(data, at, limit)
    if head is None:
        return None
    crc, seq, length, key, rev, kind = head.groups()
    payload_at = head.end()
    brace = payload_at + int(length)
    if brace >= limit or data[brace] != 0x7D or b"%08x" % crc32c(data[at + _COVERED_FROM : brace + 1]) != crc:
        return None
    return Frame(at, brace + 1, int(seq), key, int(rev), kind, data[payload_at:brace])


def frames(data: bytes, limit: int | None = None, start: int = 0) -> Iterator[Frame | Damage]:
    """All lines and all damage in ``data[start:limit]``, in order, covering every byte.

    A damaged line hurts only itself: reading resumes at the next opening mark. A damaged newline is reported as
    damage of one byte while the line before it counts.
    """
    end = len(data) if limit is None else min(limit, len(data))
    at = start
    while at < end:
        frame = parse_at(data, at, end)
        if frame is None:
            resume = data.find(MARK, at + 1, end)
            stop = end if resume < 0 else resume
            yield Damage(at, stop, torn=resume < 0 and data[end - 1] != 0x0A)
            at = stop
            continue
        yield frame
        if frame.end == end:
            # The brace is the last byte there is: the line is whole, its newline never arrived.
            yield Damage(end, end, torn=True)
        elif data[frame.end] != 0x0A:
            yield Damage(frame.end, frame.end + 1, torn=False)
        at = frame.end + 1
