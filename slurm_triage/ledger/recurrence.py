"""Has this failure been seen before, and does it hit many jobs at once?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from operator import itemgetter

from slurm_triage.ledger.chance import hypergeometric_tail
from slurm_triage.ledger.record import LedgerRecord
from slurm_triage.model.history import Outbreak, Recurrence, Shared

WINDOW_S = 14 * 86400.0
#: Earlier trials that are counted. Who has failed in one way fifty times learns nothing from the exact number.
MOST_TRIALS = 50
OUTBREAK_S = 3600.0
#: Fewer different jobs than this are a coincidence or one user trying again.
OUTBREAK_JOBS = 5
#: What happened to a job rather than what broke in it: two programs of one user have only that in common, and so have
#: the jobs of two users that both are called "wrap".
_CIRCUMSTANCES = frozenset({"time-limit", "preempted", "requeued", "unknown-death"})
#: On a busy cluster many jobs of an hour end so. It is news only if something that can break is behind it.
_ROUTINE = frozenset({"time-limit", "preempted", "requeued"})
_CAN_BREAK = frozenset({"node", "switch", "file system"})
#: What nearly all of the jobs share is told only if so many sharing it by chance is this unlikely.
_UNLIKELY = 0.01
_NEARLY_ALL = 0.8


def recurrence(record: LedgerRecord, history: Iterable[LedgerRecord], window_s: float = WINDOW_S) -> Recurrence | None:
    """Earlier jobs with the same fingerprint by the same user or under the same job name, within ``window_s`` before
    this one ended; the last ``MOST_TRIALS`` of them, None if there is none. Other tasks of the same array, and of one
    earlier array, count as one: they are one thing that was tried. Attempts of a requeued job were tried one by one.
    """
    now = record.ended or 0.0
    own = trial(record)
    earlier = [
        (ended, other)
        for other in history
        if record.fingerprint is not None
        and other.fingerprint == record.fingerprint
        and now - window_s <= (ended := other.ended or 0.0) <= now
        and is_akin(record, other.user, other.name)
        and other.cluster == record.cluster
        and trial(other) != own
    ]
    earlier.sort(key=itemgetter(0), reverse=True)
    trials: dict[tuple[str, ...], LedgerRecord] = {}
    for _, other in earlier:
        trials.setdefault(trial(other), other)
    if not trials:
        return None
    before = tuple(islice(trials.values(), MOST_TRIALS))
    own_nodes = set(record.node_names)
    common = own_nodes.intersection(*(other.node_names for other in before))
    culprits = set(record.culprits).intersection(node for other in before for node in other.culprits)
    return Recurrence(
        nth=len(before) + 1,
        at_least=len(before) == MOST_TRIALS,
        span_s=now - (before[-1].ended or 0.0),
        previous=tuple(other.display_id for other in before),
        same_nodes=tuple(sorted(common)),
        all_nodes=own_nodes.union(*(other.node_names for other in before)) == common,
        same_culprit=tuple(sorted(culprits)),
    )


def is_akin(record: LedgerRecord, user: str | None, name: str | None) -> bool:
    """Is a job of this user and name one that this record's failure can have come from before?"""
    if record.cls in _CIRCUMSTANCES:
        return name == record.name and user == record.user
    return name == record.name or user == record.user


def trial(record: LedgerRecord) -> tuple[str, ...]:
    """What was tried: an array as a whole, or one run of a job."""
    group = record.array_job_id or record.het_job_id
    return (group,) if group else (record.job_id, record.attempt)


def outbreaks(
    history: Collection[LedgerRecord],
    switch_of: Callable[[str], str | None] = lambda _: None,
    min_jobs: int = OUTBREAK_JOBS,
    only: str | None = None,
) -> list[Outbreak]:
    """Failures that hit at least ``min_jobs`` different jobs within one hour, latest first.

    Tasks of one job array are one job here, and so are attempts of one job: one user's mistake is no outbreak.
    ``history`` holds healthy jobs of the same days too: they tell what is shared anyway. ``switch_of`` names the leaf
    switch of a node, where topology is known. ``only``: the one fingerprint that is asked for.
    """
    found = []
    for hit in bursts(history, min_jobs, only):
        affected = list({_job(r): r for r in hit}.values())
        last = affected[-1]
        same_cluster = [r for r in history if r.cluster == last.cluster]
        shared = _shared(affected, same_cluster, switch_of)
        if last.cls in _ROUTINE and not any(one.what in _CAN_BREAK for one in shared):
            continue
        found.append(
            Outbreak(
                fingerprint=last.fingerprint or "",
                cls=last.cls,
                jobs=tuple(r.display_id for r in affected),
                users=len({r.user for r in affected}),
                first=hit[0].ended or 0.0,
                last=hit[-1].ended or 0.0,
                shared=shared,
            )
        )
    return sorted(found, key=lambda outbreak: outbreak.last, reverse=True)


def bursts(
    history: Iterable[LedgerRecord], min_jobs: int = OUTBREAK_JOBS, only: str | None = None
) -> list[list[LedgerRecord]]:
    """Of each failure that hit so many jobs of a cluster within one hour, the records of that hour."""
    by_print: dict[tuple[str | None, str], list[LedgerRecord]] = {}
    for record in sorted(history, key=lambda r: r.ended or 0.0):
        if record.fingerprint is not None and record.status != "completed" and only in (None, record.fingerprint):
            by_print.setdefault((record.cluster, record.fingerprint), []).append(record)
    hits = map(_densest_hour, by_print.values())
    return [hit for hit in hits if jobs_in(hit) >= min_jobs]


def jobs_in(records: Iterable[LedgerRecord]) -> int:
    """Different jobs; an array is one."""
    return len({_job(r) for r in records})


def _job(record: LedgerRecord) -> tuple[str | None, str]:
    return record.cluster, record.array_job_id or record.het_job_id or record.job_id


def _densest_hour(records: list[LedgerRecord]) -> list[LedgerRecord]:
    """The window of one hour that holds the most different jobs, the latest of several. ``records`` are sorted by
    end."""
    inside: Counter[tuple[str | None, str]] = Counter()
    best_jobs, best, low = 0, (0, 0), 0
    for high, record in enumerate(records):
        inside[_job(record)] += 1
        while (record.ended or 0.0) - (records[low].ended or 0.0) > OUTBREAK_S:
            gone = _job(records[low])
            inside[gone] -= 1
            if not inside[gone]:
                del inside[gone]
            low += 1
        if len(inside) >= best_jobs:
            best_jobs, best = len(inside), (low, high + 1)
    return records[slice(*best)]


def _shared(
    affected: list[LedgerRecord], history: Collection[LedgerRecord], switch_of: Callable[[str], str | None]
) -> tuple[Shared, ...]:
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
        common = {value for value, count in counts.items() if count >= _NEARLY_ALL * len(affected)}
        elsewhere = Counter(value for r in others for value in common.intersection(values(r))) if common else {}
        for value in sorted(common):
            # With few other jobs to compare with, sharing stays unremarkable, however many share it.
            having = counts[value] + elsewhere.get(value, 0)
            total = len(affected) + len(others)
            if hypergeometric_tail(counts[value], len(affected), having, total) < _UNLIKELY:
                shared.append(Shared(what, value, counts[value]))
    return tuple(shared)


def _mount(path: str | None) -> str | None:
    """The first two parts of a path stand for its file system (``/shared/outputs``)."""
    parts = (path or "").split("/")
    return "/".join(parts[:3]) if len(parts) > 2 else None
