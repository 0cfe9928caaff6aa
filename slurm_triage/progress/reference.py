"""Which rank's steps stand for the job, and how often that rank writes a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import sub

from slurm_triage.model.facts import AttemptFacts, StepSeries
from slurm_triage.model.files import NO_FILES, JobFiles

#: Share of equal distances between lines that makes a logging interval (profiler lines and lost lines leave gaps).
_REGULAR_SHARE = 0.8


def reference_series(attempt: AttemptFacts, files: JobFiles = NO_FILES) -> StepSeries | None:
    """The series with the most steps; among equals the furthest, then a Ray worker's own file, then the lowest rank.

    One rank only: every rank prints every step, so summing all of them counts the time several times. A Ray worker's
    file holds all its steps while the job's log may lack the tail (the seed, workflow 3), so it wins by its length.
    """
    candidates = [s for s in attempt.series if s.steps]
    return max(candidates, key=lambda s: _preference(s, files), default=None)


def _preference(series: StepSeries, files: JobFiles) -> tuple[bool, int, int, bool, int, int]:
    return (
        not series.sparse,
        len(series.steps),
        series.steps[-1].step,
        is_ray_worker(series, files),
        -(-1 if series.rank is None else series.rank),
        -series.file,
    )


def is_ray_worker(series: StepSeries, files: JobFiles) -> bool:
    return series.file < len(files.logs) and files.logs[series.file].role == "ray-worker"


def path_of(series: StepSeries, files: JobFiles) -> str | None:
    return files.logs[series.file].path if series.file < len(files.logs) else None


def logging_interval(steps: Sequence[int]) -> int | None:
    """Steps per line when the lines are evenly spaced, else None (an excerpt, or too little to tell).

    ``steps`` ascending.
    """
    distances = Counter(map(sub, steps[1:], steps))
    if not distances:
        return None
    distance, count = max(distances.items(), key=lambda item: (item[1], -item[0]))
    return distance if count >= _REGULAR_SHARE * (len(steps) - 1) else None
