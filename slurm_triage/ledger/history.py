"""What other jobs of the ledger say about one: the same failure before, an outbreak, the last good run, bad nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from slurm_triage.ledger import index
from slurm_triage.ledger.last_good import last_good
from slurm_triage.ledger.nodes import Census, advice
from slurm_triage.ledger.query import Filter, by_job, lookup, select
from slurm_triage.ledger.read import ReadCounts, Snapshot, records, snapshot
from slurm_triage.ledger.record import LedgerRecord
from slurm_triage.ledger.recurrence import OUTBREAK_JOBS, OUTBREAK_S, WINDOW_S, jobs_in, outbreaks, recurrence
from slurm_triage.model.history import NO_HISTORY, Advice, History, Outbreak

#: How far back one look goes. Statistics on nodes need months (a node fails about once a week on 48 nodes).
LOOK_BACK_S = 90 * 86400.0
#: Healthy jobs of this long around an outbreak tell what is shared anyway.
OUTBREAK_CONTEXT_S = 86400.0
#: Node statistics for one look read at most the newest so many bytes: 70 000 records, a second or two.
_STATISTICS_BYTES = 64 << 20
#: Of a failure that is seen all the time the newest ones tell enough.
_MOST = 1000

SwitchOf = Callable[[str], str | None]
#: Switches are asked for only when there is an outbreak to explain.
Switches = Callable[[], SwitchOf]


def no_switches() -> SwitchOf:
    return lambda _: None


def history_of(
    record: LedgerRecord,
    same: Sequence[LedgerRecord],
    good: Sequence[LedgerRecord],
    outbreak: Callable[[], Outbreak | None],
    on_nodes: Mapping[str, Advice],
) -> History:
    """``same``: records with this one's fingerprint. ``good``: candidates for the last good run."""
    if record.status == "completed" and not record.degraded:
        return NO_HISTORY
    return History(
        recurrence=recurrence(record, same),
        outbreak=outbreak(),
        last_good=last_good(record, good),
        advice=tuple(on_nodes[node] for node in record.node_names if node in on_nodes),
    )


def _outbreak(
    record: LedgerRecord, same: Sequence[LedgerRecord], near: Callable[[], Sequence[LedgerRecord]], switches: Switches
) -> Outbreak | None:
    """``near``: all records of the cluster around this one's end, healthy ones too; asked only for an outbreak."""
    around = record.ended
    if record.fingerprint is None or around is None:
        return None
    close = [r for r in same if r.cluster == record.cluster and abs((r.ended or 0.0) - around) <= OUTBREAK_S]
    if jobs_in([*close, record]) < OUTBREAK_JOBS:
        return None
    others = {r.key: r for r in (*near(), *close, record)}
    return next(iter(outbreaks(list(others.values()), switches(), only=record.fingerprint)), None)


def look_back(
    record: LedgerRecord,
    roots: Sequence[Path],
    on_nodes: Mapping[str, Advice] | None = None,
    switches: Switches = no_switches,
) -> History:
    """What the ledgers at ``roots`` say about a record, which they may hold. Fast enough for every look at a job: the
    index leads to what is needed. ``on_nodes``: see ``nodes_to_avoid``. Raises LedgerError."""
    ended = record.ended or 0.0
    clusters = (record.cluster,) if record.cluster else ()
    same: list[LedgerRecord] = []
    good: list[LedgerRecord] = []
    if record.fingerprint is not None:
        key = index.failure_key(record.fingerprint)
        found = lookup(roots, key, clusters, since=ended - WINDOW_S, until=ended + OUTBREAK_S, limit=_MOST)
        same = [r for r in found if r.fingerprint == record.fingerprint and _still_so(r, roots)]
    keys = [index.good_run_key(record.name)] if record.name else []
    keys += [index.good_model_key(record.user, record.model)] if record.model else []
    for key in keys:
        good += lookup(roots, key, clusters, since=ended - LOOK_BACK_S, until=ended, limit=_MOST)

    def near() -> list[LedgerRecord]:
        window = Filter(since=ended - OUTBREAK_CONTEXT_S, until=ended + OUTBREAK_CONTEXT_S)
        return list(select(roots, window, clusters))

    return history_of(record, same, good, lambda: _outbreak(record, same, near, switches), on_nodes or {})


def _still_so(record: LedgerRecord, roots: Sequence[Path]) -> bool:
    """A provisional report is followed by a better one, which may name another failure; a final one stays."""
    if not record.provisional:
        return True
    attempts = by_job(roots, record.job_id, (record.cluster,) if record.cluster else ())
    return any(r.key == record.key and r.revision == record.revision for r in attempts)


def nodes_to_avoid(roots: Sequence[Path], cluster: str | None, now: float) -> dict[str, Advice]:
    """Node -> advice in force, from the newest part of the ledger. Raises LedgerError."""
    parts = snapshot(roots, (cluster,) if cluster else ()).parts
    kept = 0
    size_bytes = 0
    for segment in reversed(parts):
        size_bytes += segment.limit
        if size_bytes > _STATISTICS_BYTES and kept:
            break
        kept += 1
    census = Census()
    for record in records(Snapshot(parts[len(parts) - kept :], ReadCounts())):
        if (record.ended or 0.0) >= now - LOOK_BACK_S:
            census.add(record)
    return advice(census.stats(now))
