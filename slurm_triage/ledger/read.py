"""Reading a ledger while it is being written: every record exactly once, damage counted, nothing locked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from slurm_triage.errors import LedgerError
from slurm_triage.ledger.frame import Damage, Frame, frames
from slurm_triage.ledger.record import LedgerRecord, from_dict
from slurm_triage.ledger.segment import QUARANTINE, Segment, read_line, segments, writer_dirs


@dataclass(slots=True)
class ReadCounts:
    """What a reading met. A line still being written at the end of an unsealed segment is not damage. What ``repair``
    has put into quarantine is counted apart: it has been told, and nobody can do more about it."""

    lines: int = 0
    superseded: int = 0
    damaged: int = 0
    quarantined: int = 0
    missing_files: int = 0
    first_damage: str | None = None

    def note(self, segment: Segment, damage: Damage) -> None:
        seal = segment.seal
        if (seal is None and damage.torn) or (
            seal is not None and seal.torn_from is not None and damage.start >= seal.torn_from
        ):
            return
        if _is_in_quarantine(segment, damage):
            self.quarantined += 1
            return
        self.damaged += 1
        self.first_damage = self.first_damage or f"{segment.path}, byte {damage.start}"


def _is_in_quarantine(segment: Segment, damage: Damage) -> bool:
    """By the place and the length of what repair put there; ``verify`` compares the bytes, too."""
    note = segment.path.parent / QUARANTINE / f"{segment.name}@{damage.start}.note"
    try:
        frame = read_line(note.read_bytes(), b"note")
    except OSError:
        return False
    return frame is not None and bool(orjson.loads(frame.payload)["bytes"] == damage.end - damage.start)


class Snapshot(NamedTuple):
    """The segments of some writers as they were at one moment; a reading does not see what is appended later."""

    parts: tuple[Segment, ...]
    counts: ReadCounts


def snapshot(
    roots: Sequence[Path],
    clusters: Sequence[str] = (),
    wanted: Callable[[Segment], bool] = lambda _: True,
) -> Snapshot:
    """All segments of the given ledgers, writer by writer, oldest first. ``clusters`` limits it to writers of those
    names; ``wanted`` may leave out segments. Raises LedgerError."""
    found: list[Segment] = []
    for root in roots:
        for directory in writer_dirs(root):
            if clusters and directory.name not in clusters:
                continue
            try:
                found.extend(segment for segment in segments(directory) if wanted(segment))
            except OSError as error:
                raise LedgerError(f"cannot read {directory} ({error.strerror}); check its mode") from error
    return Snapshot(tuple(found), ReadCounts())


def load(segment: Segment, counts: ReadCounts) -> bytes:
    """The bytes of a segment that belong to the ledger; b"" (and counted) if retention removed it meanwhile."""
    try:
        with segment.path.open("rb") as file:
            return file.read(segment.limit)
    except FileNotFoundError:
        counts.missing_files += 1
        return b""
    except OSError as error:
        raise LedgerError(f"cannot read {segment.path} ({error.strerror}); check its mode and the disk") from error


def superseded(snap: Snapshot) -> set[tuple[int, int]]:
    """Places (part, offset) of records that a later revision of the same attempt replaces.

    The highest revision counts; of equal ones the last written.
    """
    newest: dict[bytes, tuple[int, int, int]] = {}
    old: set[tuple[int, int]] = set()
    for part, segment in enumerate(snap.parts):
        for item in frames(load(segment, ReadCounts())):
            if not isinstance(item, Frame) or item.kind != b"rec":
                continue
            other = newest.get(item.key)
            if other is None:
                newest[item.key] = (item.rev, part, item.start)
            elif item.rev >= other[0]:
                old.add(other[1:])
                newest[item.key] = (item.rev, part, item.start)
            else:
                old.add((part, item.start))
    return old


def records(snap: Snapshot) -> Iterator[LedgerRecord]:
    """Every attempt once, in the order written. What was met is counted in ``snap.counts``."""
    return map(from_dict, objects(snap))


def objects(
    snap: Snapshot,
    needle: bytes | None = None,
    where: Callable[[dict[str, Any]], bool] = lambda _: True,
) -> Iterator[dict[str, Any]]:
    """The same as JSON objects, for those who need little of each. ``needle`` skips lines without these bytes before
    they are parsed; ``where`` sees the rest."""
    counts = snap.counts
    old = superseded(snap)
    for part, segment in enumerate(snap.parts):
        for item in frames(load(segment, counts)):
            if isinstance(item, Damage):
                counts.note(segment, item)
                continue
            if item.kind != b"rec":
                continue
            counts.lines += 1
            if (part, item.start) in old:
                counts.superseded += 1
                continue
            if needle is not None and needle not in item.payload:
                continue
            values = orjson.loads(item.payload)
            if where(values):
                yield values


def newest_of(found: Sequence[tuple[Frame, int]]) -> list[Frame]:
    """Of some frames (with a number that orders their segments) the newest of each key, in the order written."""
    best: dict[bytes, tuple[int, int, int, Frame]] = {}
    for frame, part in found:
        rank = (frame.rev, part, frame.start)
        if frame.key not in best or rank > best[frame.key][:3]:
            best[frame.key] = (*rank, frame)
    return [entry[3] for entry in sorted(best.values(), key=lambda entry: entry[1:3])]
