"""Has this failure been seen before, and does it hit many jobs at once?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from slurm_triage.ledger.nodes import binomial_tail
from slurm_triage.ledger.record import LedgerRecord
from slurm_triage.model.duration import human
from slurm_triage.model.nodelist import fold

WINDOW_S = 14 * 86400.0
OUTBREAK_S = 3600.0
#: Fewer different jobs than this are a coincidence or one user trying again.
OUTBREAK_JOBS = 5
#: What nearly all of the jobs share is told only if so many sharing it by chance is this unlikely.
_UNLIKELY = 0.01
_NEARLY_ALL = 0.8


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The same failure, ``nth`` time (this one included) within ``span_s`` seconds. ``previous``: job ids, latest
    first. ``same_nodes``: nodes of this job that also took part in every earlier one. ``same_culprit``: nodes that
    were the failing one now and before."""

    nth: int
    span_s: float
    previous: tuple[str, ...]
    same_nodes: tuple[str, ...]
    same_culprit: tuple[str, ...]

    @property
    def sentence(self) -> str:
        text = f"Same failure as job {self.previous[0]}, {ordinal(self.nth)} time in {human(self.span_s)}"
        if self.same_culprit:
            return f"{text}, again on {fold(self.same_culprit)}."
        if self.same_nodes:
            return f"{text}, each time with {fold(self.same_nodes)} among the nodes."
        return f"{text}, on different nodes."


@dataclass(frozen=True, slots=True)
class Outbreak:
    """One failure in many jobs within an hour. ``shared``: (what, value, jobs that have it) for what they have in
    common more than chance explains, e.g. ("node", "chi2803", 6)."""

    fingerprint: str
    cls: str | None
    jobs: tuple[str, ...]
    users: int
    first: float
    last: float
    shared: tuple[tuple[str, str, int], ...]

    @property
    def sentence(self) -> str:
        took = human(self.last - self.first)
        text = f"{self.cls or 'The same failure'} hit {len(self.jobs)} jobs of {self.users} users within {took}"
        common = ", ".join(f"{what} {value} ({count})" for what, value, count in self.shared)
        return f"{text}; in common: {common}." if common else f"{text}; they have nothing in common that others lack."


def ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def recurrence(record: LedgerRecord, history: Iterable[LedgerRecord], window_s: float = WINDOW_S) -> Recurrence | None:
    """Earlier attempts with the same fingerprint by the same user or under the same job name, within ``window_s``
    before this one ended. None if there is none."""
    now = record.ended or 0.0
    earlier = sorted(
        (
            other
            for other in history
            if record.fingerprint is not None
            and other.fingerprint == record.fingerprint
            and other.key != record.key
            and other.cluster == record.cluster
            and (other.user == record.user or other.name == record.name)
            and now - window_s <= (other.ended or 0.0) <= now
        ),
        key=lambda other: other.ended or 0.0,
        reverse=True,
    )
    if not earlier:
        return None
    common = set(record.node_names).intersection(*(other.node_names for other in earlier))
    culprits = set(record.culprits).intersection(node for other in earlier for node in other.culprits)
    return Recurrence(
        nth=len(earlier) + 1,
        span_s=now - (earlier[-1].ended or 0.0),
        previous=tuple(other.display_id for other in earlier),
        same_nodes=tuple(sorted(common)),
        same_culprit=tuple(sorted(culprits)),
    )


def outbreaks(
    history: Sequence[LedgerRecord],
    switch_of: Callable[[str], str | None] = lambda _: None,
    min_jobs: int = OUTBREAK_JOBS,
) -> list[Outbreak]:
    """Failures that hit at least ``min_jobs`` different jobs within one hour, latest first.

    Tasks of one job array are one job here, and so are attempts of one job: one user's mistake is no outbreak.
    ``history`` holds healthy jobs of the same days too: they tell what is shared anyway. ``switch_of`` names the leaf
    switch of a node, where topology is known.
    """
    by_print: dict[str, list[LedgerRecord]] = {}
    for record in sorted(history, key=lambda r: r.ended or 0.0):
        if record.fingerprint is not None and record.status != "completed":
            by_print.setdefault(record.fingerprint, []).append(record)
    found = []
    for fingerprint, records in by_print.items():
        hit = _densest_hour(records)
        jobs = {_job(r): r for r in hit}
        if len(jobs) < min_jobs:
            continue
        affected = list(jobs.values())
        found.append(
            Outbreak(
                fingerprint=fingerprint,
                cls=affected[-1].cls,
                jobs=tuple(r.display_id for r in affected),
                users=len({r.user for r in affected}),
                first=affected[0].ended or 0.0,
                last=affected[-1].ended or 0.0,
                shared=_shared(affected, history, switch_of),
            )
        )
    return sorted(found, key=lambda outbreak: outbreak.last, reverse=True)


def _job(record: LedgerRecord) -> tuple[str | None, str]:
    return record.cluster, record.array_job_id or record.het_job_id or record.job_id


def _densest_hour(records: list[LedgerRecord]) -> list[LedgerRecord]:
    """The window of one hour that holds the most different jobs. ``records`` are sorted by end."""
    best: list[LedgerRecord] = []
    best_jobs, low = 0, 0
    for high in range(len(records)):
        while (records[high].ended or 0.0) - (records[low].ended or 0.0) > OUTBREAK_S:
            low += 1
        jobs = len({_job(r) for r in records[low : high + 1]})
        if jobs >= best_jobs:
            best, best_jobs = records[low : high + 1], jobs
    return best


def _shared(
    affected: list[LedgerRecord], history: Sequence[LedgerRecord], switch_of: Callable[[str], str | None]
) -> tuple[tuple[str, str, int], ...]:
    """What nearly all affected jobs have, and other jobs mostly have not."""
    keys = {r.key for r in affected}
    others = [r for r in history if r.key not in keys]
    shared = []
    traits: tuple[tuple[str, Callable[[LedgerRecord], Iterable[str | None]]], ...] = (
        ("node", lambda r: r.node_names),
        ("switch", lambda r: {switch_of(node) for node in r.node_names}),
        ("partition", lambda r: (r.partition,)),
        ("user", lambda r: (r.user,)),
        ("account", lambda r: (r.account,)),
        ("image", lambda r: (r.image,)),
        ("model", lambda r: (r.model,)),
        ("file system", lambda r: (_mount(r.job_dir),)),
    )
    for what, values in traits:
        counts: dict[str, int] = {}
        for record in affected:
            for value in set(values(record)):
                if value:
                    counts[value] = counts.get(value, 0) + 1
        for value, count in counts.items():
            if count < _NEARLY_ALL * len(affected):
                continue
            # Laplace's rule of succession: with few other jobs to compare with, sharing stays unremarkable.
            elsewhere = sum(value in values(r) for r in others)
            usual = (elsewhere + 1) / (len(others) + 2)
            if binomial_tail(count, len(affected), usual) < _UNLIKELY:
                shared.append((what, value, count))
    return tuple(shared)


def _mount(path: str | None) -> str | None:
    """The first two parts of a path stand for its file system (``/shared/outputs``)."""
    parts = (path or "").split("/")
    return "/".join(parts[:3]) if len(parts) > 2 else None
