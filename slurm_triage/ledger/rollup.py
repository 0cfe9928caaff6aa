"""Retention: old segments go, their sums stay."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from slurm_triage.errors import LedgerError
from slurm_triage.ledger import index
from slurm_triage.ledger.files import Files, put
from slurm_triage.ledger.frame import Frame, encode, frames
from slurm_triage.ledger.read import ReadCounts, Snapshot, superseded
from slurm_triage.ledger.record import LedgerRecord, from_dict
from slurm_triage.ledger.segment import in_quarantine, read_line, seal_path, segments


@dataclass(slots=True)
class Tally:
    """Sums over attempts. ``classes``: class -> [attempts, GPU hours lost]. ``nodes``: node -> [attempts it took part
    in, attempts in which it was the one that failed]."""

    attempts: int = 0
    gpu_hours: float = 0.0
    gpu_hours_lost: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    classes: dict[str, list[float]] = field(default_factory=dict)
    nodes: dict[str, list[int]] = field(default_factory=dict)

    def add(self, record: LedgerRecord) -> None:
        self.attempts += 1
        self.gpu_hours += record.gpu_hours or 0.0
        self.gpu_hours_lost += record.gpu_hours_lost or 0.0
        self.statuses[record.status] += 1
        if record.cls is not None:
            sums = self.classes.setdefault(record.cls, [0, 0.0])
            sums[0] += 1
            sums[1] += record.gpu_hours_lost or 0.0
        for node in record.node_names:
            self.nodes.setdefault(node, [0, 0])[0] += 1
        for node in record.culprits:
            self.nodes.setdefault(node, [0, 0])[1] += 1

    def merge(self, other: Tally) -> None:
        self.attempts += other.attempts
        self.gpu_hours += other.gpu_hours
        self.gpu_hours_lost += other.gpu_hours_lost
        self.statuses.update(other.statuses)
        for cls, (count, lost) in other.classes.items():
            sums = self.classes.setdefault(cls, [0, 0.0])
            sums[0] += count
            sums[1] += lost
        for node, (jobs, failures) in other.nodes.items():
            both = self.nodes.setdefault(node, [0, 0])
            both[0] += jobs
            both[1] += failures


@dataclass(frozen=True, slots=True)
class Rollup:
    """What is left of a segment that retention removed. ``months`` maps ``yyyymm`` to the sums of jobs that ended in
    it."""

    segment: str
    first_seq: int
    last_seq: int
    months: Mapping[str, Tally]


def month_of(record: LedgerRecord) -> str:
    return time.strftime("%Y%m", time.gmtime(record.ended or 0.0))


def tally_by_month(found: Iterable[LedgerRecord]) -> dict[str, Tally]:
    months: dict[str, Tally] = {}
    for record in found:
        months.setdefault(month_of(record), Tally()).add(record)
    return months


def rollup_path(segment: Path) -> Path:
    return segment.with_suffix(".rollup")


def rollups(directory: Path) -> list[Rollup]:
    """All roll-ups of a writer, oldest first, without those that repair has given up. Raises LedgerError if another is
    damaged: its sums exist nowhere else."""
    found = []
    for path in rollup_files(directory):
        rollup = read_rollup(path)
        if rollup is not None:
            found.append(rollup)
        elif not is_given_up(path):
            raise LedgerError(
                f"the roll-up {path} is damaged; restore it from a backup, or go on without: slurm-triage ledger repair"
            )
    return found


def rollup_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.rollup"), key=lambda p: p.stem.partition("-")[2])


def is_given_up(path: Path) -> bool:
    """Repair has put these very bytes into quarantine."""
    return in_quarantine(path.parent, path.name, 0, path.read_bytes())


def read_rollup(path: Path) -> Rollup | None:
    """None if it is damaged."""
    frame = read_line(path.read_bytes(), b"roll")
    if frame is None:
        return None
    value = orjson.loads(frame.payload)
    months = {month: _tally(sums) for month, sums in value["months"].items()}
    return Rollup(value["segment"], value["first_seq"], value["last_seq"], months)


def _tally(sums: Mapping[str, Any]) -> Tally:
    return Tally(**{**sums, "statuses": Counter(sums["statuses"])})


def retire(directory: Path, before: float, files: Files | None = None) -> list[str]:
    """Replaces every sealed segment whose jobs all ended before that time (epoch seconds) by its roll-up. Only the
    oldest segments go, without a gap. Returns their names. Raises LedgerError; then nothing is lost.

    A crash in between leaves roll-up and segment; the next call removes the segment. Readers then count its jobs
    from the segment only, because a roll-up counts only once its segment is gone.
    """
    layer = files or Files()
    mode = directory.stat().st_mode & 0o666
    removed: list[str] = []
    try:
        parts = segments(directory)
        _remove_leftovers(layer, directory, {segment.name for segment in parts})
        old = superseded(Snapshot(parts, ReadCounts()))
        for part, segment in enumerate(parts):
            if segment.seal is None or segment is parts[-1]:
                break
            rows = [
                from_dict(orjson.loads(item.payload))
                for item in frames(segment.path.read_bytes(), segment.limit)
                if isinstance(item, Frame) and item.kind == b"rec" and (part, item.start) not in old
            ]
            if any((row.ended or 0.0) >= before for row in rows):
                break
            value = Rollup(segment.name, segment.seal.first_seq, segment.seal.last_seq, tally_by_month(rows))
            target = rollup_path(segment.path)
            put(layer, target, encode("roll", value.last_seq, segment.name, 0, orjson.dumps(value)), mode)
            for path in (segment.path, seal_path(segment.path), index.index_path(segment.path)):
                if path.exists():
                    layer.unlink(path)
            layer.sync_dir(directory)
            removed.append(segment.name)
    except OSError as error:
        raise LedgerError(f"cannot retire segments of {directory} ({error.strerror}); nothing is lost") from error
    return removed


def _remove_leftovers(files: Files, directory: Path, present: set[str]) -> None:
    """Seals and indexes of segments that an interrupted call had already removed."""
    for old in rollups(directory):
        segment = directory / old.segment
        for path in (seal_path(segment), index.index_path(segment)):
            if old.segment not in present and path.exists():
                files.unlink(path)
