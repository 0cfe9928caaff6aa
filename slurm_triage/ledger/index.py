"""A disposable index beside each sealed segment: job id, failure or good run -> where its records are.

One file per segment, ``<segment>.idx``, written once, by rename, never changed: no lock, no journal, safe on any file
system. A look-up reads the fixed head of each index (job ids rise with time, so nearly all segments are ruled out
there) and bisects the few that may hold the id. An index that is missing, damaged or made for other bytes is ignored,
its segment is searched instead, and the index is made again by whoever may write there.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from google_crc32c import value as crc32c

from slurm_triage.ledger.frame import MARK, Damage, Frame, frames, parse_at
from slurm_triage.ledger.segment import Segment, segments

_MAGIC = b"STIDX\x00\x00\x02"
_HEAD = struct.Struct("<8s32sQIIQQIIdd")
_CRC = struct.Struct("<I")
_ENTRY = struct.Struct("<QII")
_NAME_BIT = 1 << 63


class Head(NamedTuple):
    """``content``: the SHA-256 that the segment's seal names. ``covered``: bytes of the segment that were indexed.
    ``low``, ``high``: range of the numeric job ids. ``names``: how many entries are for keys that are no numbers.
    ``first_end``, ``last_end``: when jobs ended, epoch seconds."""

    magic: bytes
    content: bytes
    covered: int
    entry_count: int
    entries_crc: int
    low: int
    high: int
    names: int
    damaged: int
    first_end: float
    last_end: float


def index_path(segment: Path) -> Path:
    return segment.with_suffix(".idx")


class Key(NamedTuple):
    """What to look for. ``number``: its 63 bits in an index. ``needle``: bytes of every line that has it."""

    number: int
    needle: bytes


def job_key(job_id: str) -> Key:
    """A job's own id, its array's, or its heterogeneous job's."""
    return Key(_number(job_id), b'_id":%b' % orjson.dumps(job_id))


def failure_key(fingerprint: str) -> Key:
    """Failures with this fingerprint."""
    return Key(_named("fingerprint", fingerprint), b'"fingerprint":%b' % orjson.dumps(fingerprint))


def good_run_key(name: str) -> Key:
    """Completed jobs of this name."""
    return Key(_named("good", name), b'"name":%b' % orjson.dumps(name))


def good_model_key(user: str | None, model: str) -> Key:
    """Completed jobs of this user that trained this model."""
    return Key(_named("model", f"{user}/{model}"), b'"model":%b' % orjson.dumps(model))


def _number(job_id: str) -> int:
    """The id itself, or a checksum of a name with the top bit set."""
    return int(job_id) if job_id.isascii() and job_id.isdecimal() and len(job_id) < 19 else _named("id", job_id)


def _named(kind: str, name: str) -> int:
    raw = f"{kind} {name}".encode("utf-8", "replace")
    return _NAME_BIT | (int(crc32c(raw)) << 31 ^ zlib.crc32(raw))


def _numbers(values: Mapping[str, Any]) -> set[int]:
    """All that a record can be found by."""
    found = {_number(i) for i in (values.get("job_id"), values.get("array_job_id"), values.get("het_job_id")) if i}
    if values.get("fingerprint"):
        found.add(failure_key(values["fingerprint"]).number)
    if values.get("status") == "completed":
        if values.get("name"):
            found.add(good_run_key(values["name"]).number)
        if values.get("model"):
            found.add(good_model_key(values.get("user"), values["model"]).number)
    return found


def build(segment: Segment) -> bytes:
    """The index of a sealed segment. Raises OSError."""
    import hashlib  # look-ups need none of it

    data = segment.path.read_bytes()[: segment.limit]
    entries: list[tuple[int, int, int]] = []
    damaged = 0
    first_end, last_end = float("inf"), float("-inf")
    for item in frames(data):
        if isinstance(item, Damage):
            damaged += 1
            continue
        if item.kind != b"rec":
            continue
        values = orjson.loads(item.payload)
        entries.extend((number, item.start, item.end - item.start) for number in _numbers(values))
        ended = values.get("end", values.get("generated_at", 0.0))
        first_end, last_end = min(first_end, ended), max(last_end, ended)
    entries.sort()
    body = b"".join(_ENTRY.pack(*entry) for entry in entries)
    numbers = [key for key, _, _ in entries if not key & _NAME_BIT]
    head = _HEAD.pack(
        _MAGIC,
        hashlib.sha256(data).digest(),
        len(data),
        len(entries),
        crc32c(body),
        min(numbers, default=0),
        max(numbers, default=0),
        len(entries) - len(numbers),
        damaged,
        first_end,
        last_end,
    )
    return head + _CRC.pack(crc32c(head)) + body


def refresh(directory: Path, budget_s: float = float("inf")) -> int:
    """Makes the missing, stale and damaged indexes of one writer's sealed segments, newest first, for about that long.
    Returns how many were made; 0 where this user may not write or the disk is full (an index is only a cache)."""
    made, deadline = 0, time.monotonic() + budget_s
    if not os.access(directory, os.W_OK):
        return 0
    for segment in reversed(segments(directory)):
        if (
            segment.seal is None
            or segment.seal.sha256 is None
            or (read_head(segment) is not None and _entries(segment) is not None)
        ):
            continue
        if time.monotonic() > deadline:
            break
        temporary = index_path(segment.path).with_suffix(f".idx.{os.getpid()}.tmp")
        try:
            _write_new(temporary, build(segment), segment.path.stat().st_mode & 0o666)
            temporary.rename(index_path(segment.path))
        except OSError:
            temporary.unlink(missing_ok=True)
            return made
        made += 1
    return made


def _write_new(path: Path, data: bytes, mode: int) -> None:
    """Never through a link that somebody put there: root may look into a user's ledger."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(fd, "wb") as file:
        os.fchmod(fd, mode)
        file.write(data)


def read_head(segment: Segment) -> Head | None:
    """The head of a segment's index if it is whole and was made for the bytes that the seal names."""
    if segment.seal is None or segment.seal.sha256 is None:
        return None
    try:
        with index_path(segment.path).open("rb", buffering=0) as file:
            raw = file.read(_HEAD.size + _CRC.size)
    except OSError:
        return None
    if len(raw) < _HEAD.size + _CRC.size or _CRC.unpack(raw[_HEAD.size :])[0] != crc32c(raw[: _HEAD.size]):
        return None
    head = Head(*_HEAD.unpack(raw[: _HEAD.size]))
    fits = head.magic == _MAGIC and head.covered == segment.limit and head.content.hex() == segment.seal.sha256
    return head if fits else None


def _entries(segment: Segment) -> bytes | None:
    try:
        raw = index_path(segment.path).read_bytes()
    except OSError:
        return None
    head = Head(*_HEAD.unpack(raw[: _HEAD.size]))
    body = raw[_HEAD.size + _CRC.size :]
    return body if len(body) == head.entry_count * _ENTRY.size and crc32c(body) == head.entries_crc else None


def lines(segment: Segment, key: Key, content: Callable[[], bytes]) -> Iterator[Frame]:
    """The lines of a segment that may have ``key``, latest first, read one by one. Where the index cannot be used, or
    names a line that is damaged now, the segment's ``content`` is searched."""
    end = segment.limit
    places = _places(segment, key.number)
    if places is not None and not places:
        return
    if places is not None:
        with contextlib.suppress(FileNotFoundError), segment.path.open("rb") as file:
            for start, length in reversed(places):
                frame = parse_at(os.pread(file.fileno(), length + 1, start), 0, length + 1)
                if frame is None:
                    break
                yield frame._replace(start=start, end=start + length)
                end = start
            else:
                return
    yield from _search(content(), key.needle, end)


def _places(segment: Segment, key: int) -> list[tuple[int, int]] | None:
    """Offset and length of the lines that the index names, in the order written; None if it cannot be used."""
    head = read_head(segment)
    if head is None:
        return None
    if not (head.names if key & _NAME_BIT else head.low <= key <= head.high):
        return []
    body = _entries(segment)
    if body is None:
        return None
    all_entries = range(head.entry_count)
    first = bisect_left(all_entries, key, key=lambda i: _ENTRY.unpack_from(body, i * _ENTRY.size)[0])
    behind = bisect_right(all_entries, key, key=lambda i: _ENTRY.unpack_from(body, i * _ENTRY.size)[0])
    return [_ENTRY.unpack_from(body, i * _ENTRY.size)[1:] for i in range(first, behind)]


def _search(data: bytes, needle: bytes, end: int) -> Iterator[Frame]:
    """The lines before ``end`` that hold ``needle``, latest first."""
    hit = data.rfind(needle, 0, end)
    while hit >= 0:
        start = data.rfind(MARK, 0, hit)
        if start < 0:
            return
        frame = parse_at(data, start, len(data))
        if frame is not None and frame.kind == b"rec" and hit < frame.end:
            yield frame
        hit = data.rfind(needle, 0, start)
