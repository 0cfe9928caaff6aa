"""What other jobs of the ledger say about one: the same failure before, an outbreak, the last good run, bad nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from slurm_triage.ledger import index
from slurm_triage.ledger.frame import safe
from slurm_triage.ledger.last_good import last_good
from slurm_triage.ledger.nodes import Census, advice
from slurm_triage.ledger.query import by_job, latest_first, latest_others
from slurm_triage.ledger.read import ReadCounts, Snapshot, objects, snapshot
from slurm_triage.ledger.record import LedgerRecord, from_dict
from slurm_triage.ledger.recurrence import (
    MOST_TRIALS,
    OUTBREAK_JOBS,
    OUTBREAK_S,
    WINDOW_S,
    is_akin,
    jobs_in,
    outbreaks,
    recurrence,
    trial,
)
from slurm_triage.model.history import NO_HISTORY, Advice, History, Outbreak

#: How far back one look goes. Statistics on nodes need months (a node fails about once a week on 48 nodes).
LOOK_BACK_S = 90 * 86400.0
#: Healthy jobs of this long around an outbreak tell what is shared anyway.
OUTBREAK_CONTEXT_S = 86400.0
#: Node statistics for one look read at most the newest so many bytes: 70 000 records, a second or two.
_STATISTICS_BYTES = 64 << 20
#: One look reads at most so many records with the same fingerprint: a third of a second, when all of them are of one
#: array.
_MOST_READ = 20_000
#: An outbreak is known well enough from so many of the jobs that it hit, and from so many others of the day.
_MOST_HIT, _MOST_OTHERS = 1000, 1000
#: Candidates for the last good run: the last one written need not be the last one that ended.
_MOST_GOOD = 20
#: Looking up whether a provisional verdict still stands takes milliseconds; the others are not believed.
_MOST_CHECKED = 50

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
    record: LedgerRecord, same: Sequence[LedgerRecord], others: Callable[[], Iterable[LedgerRecord]], switches: Switches
) -> Outbreak | None:
    """``others``: records of the cluster around this one's end, healthy ones too; asked only for an outbreak."""
    around = record.ended
    if record.fingerprint is None or around is None:
        return None
    close = [r for r in same if r.cluster == record.cluster and abs((r.ended or 0.0) - around) <= OUTBREAK_S]
    if jobs_in([*close, record]) < OUTBREAK_JOBS:
        return None
    known = {r.key: r for r in (*others(), *close, record)}
    found = outbreaks(known.values(), switches(), only=record.fingerprint)
    return replace(found[0], at_least=len(close) >= _MOST_HIT) if found else None


def look_back(
    record: LedgerRecord,
    roots: Sequence[Path],
    on_nodes: Mapping[str, Advice] | None = None,
    switches: Switches = no_switches,
) -> History:
    """What the ledgers at ``roots`` say about a record, which they may hold. Fast enough for every look at a job: the
    index leads to what is needed. ``on_nodes``: see ``nodes_to_avoid``. Raises LedgerError."""
    ended = record.ended or 0.0
    clusters = _clusters(record)
    same = _same_failure(record, roots)
    good: list[LedgerRecord] = []
    keys = [index.good_run_key(record.name)] if record.name else []
    keys += [index.good_model_key(record.user, record.model)] if record.model else []
    for key in keys:
        runs = latest_first(roots, key, clusters, ended - LOOK_BACK_S, ended)
        fit = (values for values in runs if values["status"] == "completed" and not values.get("degraded"))
        good += map(from_dict, islice(fit, _MOST_GOOD))

    def others() -> Iterator[LedgerRecord]:
        key = index.failure_key(record.fingerprint or "")
        found = latest_others(roots, key, clusters, ended - OUTBREAK_CONTEXT_S, ended + OUTBREAK_S)
        return map(from_dict, islice(found, _MOST_OTHERS))

    return history_of(record, same, good, lambda: _outbreak(record, same, others, switches), on_nodes or {})


def _clusters(record: LedgerRecord) -> tuple[str, ...]:
    return (safe(record.cluster),) if record.cluster else ()


def _same_failure(record: LedgerRecord, roots: Sequence[Path]) -> list[LedgerRecord]:
    """Of what has this one's fingerprint: the last record of each earlier trial of its user or name, and what ended
    within the same hour."""
    if record.fingerprint is None:
        return []
    ended = record.ended or 0.0
    found = latest_first(
        roots, index.failure_key(record.fingerprint), _clusters(record), ended - WINDOW_S, ended + OUTBREAK_S
    )
    trials: dict[tuple[str, ...], LedgerRecord] = {}
    hit: dict[str, LedgerRecord] = {}
    checked = 0
    for values in islice(found, _MOST_READ):
        group = values.get("array_job_id") or values.get("het_job_id")
        tried = (group,) if group else (values["job_id"], values["attempt"])
        own = is_akin(record, values.get("user"), values.get("name"))
        wanted = own and len(trials) < MOST_TRIALS and tried not in trials and tried != trial(record)
        near = abs(values.get("end", values.get("generated_at", 0.0)) - ended) <= OUTBREAK_S
        if values.get("fingerprint") != record.fingerprint or not (wanted or (near and len(hit) < _MOST_HIT)):
            continue
        other = from_dict(values)
        if other.key in hit:
            continue
        if other.provisional:
            checked += 1
            if checked > _MOST_CHECKED or not _still_so(other, roots):
                continue
        if wanted and (other.ended or 0.0) <= ended:
            trials[tried] = other
        if near:
            hit.setdefault(other.key, other)
        if len(trials) >= MOST_TRIALS and (len(hit) >= _MOST_HIT or not near):
            break
    return [*trials.values(), *hit.values()]


def _still_so(record: LedgerRecord, roots: Sequence[Path]) -> bool:
    """A provisional report is followed by a better one, which may name another failure."""
    attempts = by_job(roots, record.job_id, _clusters(record))
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
    for values in objects(Snapshot(parts[len(parts) - kept :], ReadCounts())):
        if values.get("end", values.get("generated_at", 0.0)) >= now - LOOK_BACK_S:
            census.add_object(values)
    return advice(census.stats(now))
