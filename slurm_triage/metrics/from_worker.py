"""What the worker's children have done: reports, bytes read, seconds spent, matches of each rule."""

from __future__ import annotations

from pathlib import Path

from slurm_triage.metrics.exposition import Sample
from slurm_triage.service.tallies import read


def worker_samples(state: Path) -> list[Sample]:
    """Nothing if no worker has counted yet, or its state directory may not be read. The rules in force bound the number
    of series: a few hundred."""
    found = read(state)
    if found is None:
        return []
    reports, size_bytes, seconds, hits = found
    return [
        Sample("reports_total", reports, {}),
        Sample("scanned_bytes_total", size_bytes, {}),
        Sample("scan_seconds_total", seconds, {}),
        *(Sample("rule_hits_total", count, {"rule": rule}) for rule, count in sorted(hits.items())),
    ]
