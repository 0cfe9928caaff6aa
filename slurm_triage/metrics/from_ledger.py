"""What the ledger says about a window of time, cluster by cluster. The number of series is bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from slurm_triage.errors import LedgerError
from slurm_triage.ledger.frame import Frame, frames
from slurm_triage.ledger.query import Filter, select
from slurm_triage.ledger.read import ReadCounts, load
from slurm_triage.ledger.record import LedgerRecord
from slurm_triage.ledger.recurrence import OUTBREAK_S, outbreaks
from slurm_triage.ledger.segment import QUARANTINE, Segment, segments, writer_dirs
from slurm_triage.metrics.exposition import Sample

#: Classes and rules come from packs, sites' own included; whatever is beyond the most frequent of them is ``other``.
#: The built-in classes are about 55.
MAX_CLASSES = 80
MAX_RULES = 50
#: A site has a handful of clusters; a directory with more writers is no ledger of ours.
MAX_CLUSTERS = 32

NONE, OTHER = "none", "other"


def ledger_samples(
    roots: Sequence[Path], since: float, clusters: Sequence[str] = (), *, now: float = 0.0
) -> list[Sample]:
    """All metrics of the ledgers. An attempt belongs to the window if it ended, or is still there, after ``since``
    (seconds since the epoch). A ledger that cannot be read gives ``ledger_readable`` 0 and nothing else."""
    try:
        directories: dict[str, list[Path]] = {}
        for root in roots:
            for directory in writer_dirs(root):
                if not clusters or directory.name in clusters:
                    directories.setdefault(directory.name, []).append(directory)
        found = [
            sample
            for cluster, paths in sorted(directories.items())[:MAX_CLUSTERS]
            for sample in (*_window(roots, cluster, since, now), *_store(cluster, paths))
        ]
    except (LedgerError, OSError):
        return [Sample("ledger_readable", 0, {})]
    return [Sample("ledger_readable", 1 if roots else 0, {}), *found]


def _window(roots: Sequence[Path], cluster: str, since: float, now: float) -> Iterator[Sample]:
    counts = ReadCounts()
    jobs: Counter[tuple[str, str, str]] = Counter()
    seconds: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    rules: Counter[str] = Counter()
    provisional = 0
    latest: list[LedgerRecord] = []
    for record in select(roots, Filter(since=since), (cluster,), counts):
        cls = record.cls or NONE
        jobs[(record.status, cls, record.domain or NONE)] += 1
        # Whole seconds are exact enough, and Counter sums integers.
        seconds[cls] += round((record.gpu_hours or 0.0) * 3600)
        lost[cls] += round((record.gpu_hours_lost or 0.0) * 3600)
        provisional += record.provisional
        if record.rule is not None:
            rules[record.rule] += 1
        if (record.ended or 0.0) >= now - OUTBREAK_S:
            latest.append(record)
    by_class: Counter[str] = Counter()
    for (_, cls, _), count in jobs.items():
        by_class[cls] += count
    kept = {cls for cls, _ in by_class.most_common(MAX_CLASSES)}
    bounded: Counter[tuple[str, str, str]] = Counter()
    for (status, cls, domain), count in jobs.items():
        bounded[(status, cls, domain) if cls in kept else (status, OTHER, OTHER)] += count
    for (status, cls, domain), count in sorted(bounded.items()):
        labels = {"cluster": cluster, "status": status, "class": cls, "domain": domain}
        yield Sample("jobs", count, labels)
    for name, values in (("gpu_seconds", seconds), ("gpu_seconds_lost", lost)):
        yield from _labelled(name, cluster, "class", _bounded(values, kept))
    often = {rule for rule, _ in rules.most_common(MAX_RULES)}
    yield from _labelled("rule_jobs", cluster, "rule", _bounded(rules, often))
    hit: Counter[str] = Counter()
    for outbreak in outbreaks(latest):
        hit[outbreak.cls or NONE] += len(outbreak.jobs)
    yield from _labelled("outbreak_jobs", cluster, "class", _bounded(hit, kept))
    yield Sample("provisional_jobs", provisional, {"cluster": cluster})
    yield Sample("ledger_damaged_places", counts.damaged, {"cluster": cluster})


def _bounded(values: Mapping[str, int], kept: set[str]) -> Counter[str]:
    bounded: Counter[str] = Counter()
    for name, value in values.items():
        bounded[name if name in kept else OTHER] += value
    return bounded


def _labelled(name: str, cluster: str, label: str, values: Mapping[str, int]) -> Iterator[Sample]:
    for key, value in sorted(values.items()):
        yield Sample(name, value, {"cluster": cluster, label: key})


def _store(cluster: str, directories: Sequence[Path]) -> Iterator[Sample]:
    parts = [segment for directory in directories for segment in segments(directory)]
    labels = {"cluster": cluster}
    yield Sample("ledger_segments", len(parts), labels)
    yield Sample("ledger_size_bytes", sum(segment.size_bytes for segment in parts), labels)
    notes = [path.name for directory in directories for path in (directory / QUARANTINE).glob("*.note")]
    yield Sample("ledger_quarantined_places", sum(not name.startswith("lost-") for name in notes), labels)
    yield Sample("ledger_lost_records", sum(map(_lost, notes)), labels)
    newest = max((_newest(segments(directory)) for directory in directories), default=0)
    if newest:
        yield Sample("last_report_timestamp_seconds", newest / 1000, labels)


def _lost(note: str) -> int:
    """Records that a note ``lost-<first>-<last>.note`` (ledger/verify.py) tells of."""
    first, _, last = note.removesuffix(".note").removeprefix("lost-").partition("-")
    return int(last) - int(first) + 1 if note.startswith("lost-") and first.isdigit() and last.isdigit() else 0


def _newest(parts: Sequence[Segment]) -> int:
    """Milliseconds since the epoch of the newest report; 0 if there is none. Reports are appended as they are made, so
    the last segment that holds one decides."""
    for segment in reversed(parts):
        revisions = [f.rev for f in frames(load(segment, ReadCounts())) if isinstance(f, Frame) and f.kind == b"rec"]
        if revisions:
            return max(revisions)
    return 0
