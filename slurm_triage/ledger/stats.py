"""Sums over a whole ledger, roll-ups of removed segments included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slurm_triage.ledger.read import ReadCounts, records, snapshot
from slurm_triage.ledger.rollup import Tally, rollup_files, rollups, tally_by_month
from slurm_triage.ledger.segment import writer_dirs


@dataclass(frozen=True, slots=True)
class Stats:
    """``months``: ``yyyymm`` -> sums of attempts that ended in it, newest revision of each attempt."""

    months: dict[str, Tally]
    segment_count: int
    size_bytes: int
    retired_segments: int
    lost_rollups: int
    """Sums that were damaged and that repair has given up; what they counted is in no sum here."""
    counts: ReadCounts = field(default_factory=ReadCounts)

    @property
    def total(self) -> Tally:
        total = Tally()
        for tally in self.months.values():
            total.merge(tally)
        return total


def stats(roots: Sequence[Path], clusters: Sequence[str] = ()) -> Stats:
    """Raises LedgerError."""
    snap = snapshot(roots, clusters)
    months = tally_by_month(records(snap))
    present = {(segment.path.parent, segment.name) for segment in snap.parts}
    retired = lost = 0
    for root in roots:
        for directory in writer_dirs(root):
            if clusters and directory.name not in clusters:
                continue
            good = rollups(directory)
            lost += len(rollup_files(directory)) - len(good)
            for old in good:
                if (directory, old.segment) in present:
                    continue
                retired += 1
                for month, tally in old.months.items():
                    months.setdefault(month, Tally()).merge(tally)
    size = sum(segment.size_bytes for segment in snap.parts)
    return Stats(dict(sorted(months.items())), len(snap.parts), size, retired, lost, snap.counts)
