"""Node statistics: which nodes fail more often than chance explains, and what to do about them.

The question is asked once per node, so the answers are corrected for the number of nodes (Benjamini-Hochberg). Without
that an innocent node is named in every second table of a large cluster; slurmpast measured 36-78 %.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slurm_triage.ledger.blame import DIRECT
from slurm_triage.ledger.chance import benjamini_hochberg, combined_tail
from slurm_triage.ledger.record import LedgerRecord, from_dict
from slurm_triage.model.history import Advice
from slurm_triage.model.nodelist import expand

#: Share of wrongly named nodes that is accepted among the named ones.
FALSE_DISCOVERY_RATE = 0.05
#: Advice about a node ends this long after its last failure: by then it has usually been repaired, rebooted or swapped.
ADVICE_S = 7 * 86400.0
#: A completed run of at least this length says that the node works. The seed allows 15-30 min for set-up and
#: compilation; a job that did not get beyond that proves nothing.
CLEAN_RUN_S = 1800.0
#: Faults of hardware come with time in use; those that strike at once come with every start. Each job weighs its node
#: hours plus this much.
_START_S = 600.0
#: Sums are kept of at most so many sets of nodes (15 MB) before each node gets its part.
_MOST_SETS = 65_536


@dataclass(frozen=True, slots=True)
class Failure:
    """One time that a node was itself the one that failed."""

    job_id: str
    cls: str | None
    evidence: str
    at: float
    user: str | None


@dataclass(frozen=True, slots=True)
class NodeStats:
    """``events``: independent failures; a job that keeps failing on the same set of nodes counts once, because its
    program may be what singles out one of them. ``rate``: events per job; ``cluster_rate``: the same over all other
    nodes. ``p_value``: chance of at least as many events if all nodes were alike. ``q_value``: the same corrected."""

    node: str
    jobs: int
    failures: tuple[Failure, ...]
    events: int
    rate: float
    cluster_rate: float
    p_value: float
    q_value: float
    named: bool
    last_failure: float | None
    last_clean_run: float | None
    advice: Advice | None

    @property
    def by_class(self) -> Counter[str]:
        return Counter(failure.cls or "unknown" for failure in self.failures)


_Event = tuple[str | None, ...]


@dataclass(slots=True)
class _Ran:
    """Jobs of one node, or of one set of nodes."""

    jobs: int = 0
    exposure_s: float = 0.0
    last_clean: float | None = None

    def add(self, status: str, elapsed_s: float, at: float) -> None:
        self.jobs += 1
        self.exposure_s += _START_S + elapsed_s
        if status == "completed" and elapsed_s >= CLEAN_RUN_S and (self.last_clean is None or at > self.last_clean):
            self.last_clean = at

    def take(self, other: _Ran) -> None:
        self.jobs += other.jobs
        self.exposure_s += other.exposure_s
        if other.last_clean is not None and (self.last_clean is None or other.last_clean > self.last_clean):
            self.last_clean = other.last_clean


@dataclass(slots=True)
class _Seen(_Ran):
    """``faults``, ``deaths``: independent events of this node. ``possible``: deaths of any node in jobs that this one
    took part in, with the chance that it hits this node."""

    failures: list[Failure] = field(default_factory=list)
    faults: set[_Event] = field(default_factory=set)
    deaths: set[_Event] = field(default_factory=set)
    possible: dict[_Event, float] = field(default_factory=dict)

    @property
    def event_count(self) -> int:
        return len(self.faults) + len(self.deaths)

    def may_die(self, event: _Event, chance: float) -> None:
        self.possible[event] = 1.0 - (1.0 - self.possible.get(event, 0.0)) * (1.0 - chance)

    def merge(self, other: _Seen) -> None:
        self.take(other)
        self.failures += other.failures
        self.faults |= other.faults
        self.deaths |= other.deaths
        for event, chance in other.possible.items():
            self.may_die(event, chance)


class Census:
    """What happened on each node in a stretch of history. Records come in any order, stretches can be merged."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._users: set[str | None] = set()
        self._by_set: dict[str, _Ran] = {}

    def add(self, record: LedgerRecord) -> None:
        self._users.add(record.user)
        for node in {*record.node_names, *record.culprits}:
            self._of(node).add(record.status, record.elapsed_s or 0.0, record.ended or 0.0)
        self._blame(record)

    def add_object(self, values: Mapping[str, Any]) -> None:
        """The same of a record as JSON object. Of a million, most tell only that some nodes worked: neither is a record
        made of each, nor each node of each looked at."""
        self._users.add(values.get("user"))
        nodes = values.get("nodes", "")
        if values.get("node_evidence"):
            record = from_dict(values)
            self._blame(record)
            strangers = (node for node in record.culprits if node not in record.node_names)
            nodes = ",".join(filter(None, (nodes, *strangers)))
        if nodes not in self._by_set:
            if len(self._by_set) >= _MOST_SETS:
                self._spread()
            self._by_set[nodes] = _Ran()
        at = values.get("end", values.get("generated_at", 0.0))
        self._by_set[nodes].add(values["status"], values.get("elapsed_s", 0.0), at)

    def _of(self, node: str) -> _Seen:
        found = self._seen.get(node)
        if found is None:
            found = self._seen[node] = _Seen()
        return found

    def _blame(self, record: LedgerRecord) -> None:
        if not record.node_evidence:
            return
        # A job that keeps failing in one way on one set of nodes is one event. Of deaths the name does not count: with
        # a new name for each try, a program that always crashes in the same rank would speak against one node.
        fault: _Event = (record.user, record.name, record.fingerprint, record.nodes)
        event: _Event = (record.user, record.cls, record.nodes)
        deaths = sum(kind not in DIRECT for _, kind in record.node_evidence)
        if deaths:
            names = {*record.node_names, *record.culprits}
            for node in names:
                self._of(node).may_die(event, min(1.0, deaths / len(names)))
        for node, kind in record.node_evidence:
            entry = self._of(node)
            entry.failures.append(Failure(record.display_id, record.cls, kind, record.ended or 0.0, record.user))
            if kind in DIRECT:
                entry.faults.add(fault)
            else:
                entry.deaths.add(event)

    def _spread(self) -> None:
        for nodes, ran in self._by_set.items():
            for node in set(expand(nodes)):
                self._of(node).take(ran)
        self._by_set.clear()

    def merge(self, other: Census) -> None:
        other._spread()
        self._users |= other._users
        for node, seen in other._seen.items():
            self._seen.setdefault(node, _Seen()).merge(seen)

    def _believed(self, seen: _Seen) -> bool:
        """What only the logs of one user say about a node, all others of the cluster cannot be asked to act on: he can
        write there what he likes."""
        witnesses = {failure.user for failure in seen.failures}
        return len(witnesses) > 1 or len(self._users) < 2 or any(f.evidence in DIRECT for f in seen.failures)

    def stats(self, now: float) -> list[NodeStats]:
        """One row per node, worst first.

        What would be expected of a node if all were alike? Faults of nodes (``blame.DIRECT``) fall on it with its share
        of the cluster's node hours. Of processes that died first, each falls on any node of its job alike; so a job on
        one node says nothing, and a user whose program crashes often harms no node, wherever it runs. Both are
        conditional on what happened, with nothing to estimate, so the p-value is exact.
        """
        self._spread()
        seen = self._seen
        total_jobs = sum(s.jobs for s in seen.values())
        total_events = sum(s.event_count for s in seen.values())
        faults = sum(len(s.faults) for s in seen.values())
        exposure_s = sum(s.exposure_s for s in seen.values())
        p_values = {
            node: combined_tail(s.event_count, faults, s.exposure_s / exposure_s, list(s.possible.values()))
            for node, s in seen.items()
        }
        q_values = benjamini_hochberg(p_values)
        rows = []
        for node, s in seen.items():
            others = total_jobs - s.jobs
            named = q_values[node] <= FALSE_DISCOVERY_RATE and self._believed(s)
            rows.append(
                NodeStats(
                    node=node,
                    jobs=s.jobs,
                    failures=tuple(sorted(s.failures, key=lambda f: f.at)),
                    events=s.event_count,
                    rate=s.event_count / s.jobs,
                    cluster_rate=(total_events - s.event_count) / others if others else 0.0,
                    p_value=p_values[node],
                    q_value=q_values[node],
                    named=named,
                    last_failure=max((f.at for f in s.failures), default=None),
                    last_clean_run=s.last_clean,
                    advice=_advice(node, s, named, q_values[node], now),
                )
            )
        return sorted(rows, key=lambda r: (r.p_value, -r.events, -len(r.failures), r.node))


def node_stats(history: Iterable[LedgerRecord], now: float) -> list[NodeStats]:
    """One row per node that took part in a job of ``history``, worst first."""
    census = Census()
    for record in history:
        census.add(record)
    return census.stats(now)


def _advice(node: str, seen: _Seen, named: bool, q_value: float, now: float) -> Advice | None:
    """The advice in force, if any: none once it expired, none after a clean run."""
    direct = [f for f in seen.failures if f.evidence in DIRECT]
    grounds = seen.failures if named else direct
    if not grounds:
        return None
    last = max(grounds, key=lambda f: f.at)
    withdrawn = seen.last_clean is not None and seen.last_clean > last.at
    if withdrawn or last.at + ADVICE_S <= now:
        return None
    count = f"{_many(len(seen.failures), 'failure')} in {_many(seen.jobs, 'job')}"
    if named:
        return Advice(node, f"{count}, more than chance explains (q = {q_value:.2g})", last.at + ADVICE_S, "statistics")
    why = f"{last.cls or 'failure'} in job {last.job_id}; {count}"
    return Advice(node, why, last.at + ADVICE_S, "direct")


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def advice(rows: Iterable[NodeStats]) -> dict[str, Advice]:
    """Node -> advice in force."""
    return {row.node: row.advice for row in rows if row.advice is not None}
