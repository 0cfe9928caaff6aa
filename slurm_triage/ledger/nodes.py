"""Node statistics: which nodes fail more often than chance explains, and what to do about them.

The question is asked once per node, so the answers are corrected for the number of nodes (Benjamini-Hochberg). Without
that an innocent node is named in every second table of a large cluster; slurmpast measured 36-78 %.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from slurm_triage.ledger.blame import DIRECT
from slurm_triage.ledger.chance import benjamini_hochberg, combined_tail
from slurm_triage.ledger.record import LedgerRecord
from slurm_triage.model.history import Advice

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
class _Seen:
    """``faults``, ``deaths``: independent events of this node. ``possible``: deaths of any node in jobs that this one
    took part in, with the chance that it hits this node."""

    jobs: int = 0
    exposure_s: float = 0.0
    failures: list[Failure] = field(default_factory=list)
    faults: set[_Event] = field(default_factory=set)
    deaths: set[_Event] = field(default_factory=set)
    possible: dict[_Event, float] = field(default_factory=dict)
    last_clean: float | None = None

    @property
    def event_count(self) -> int:
        return len(self.faults) + len(self.deaths)

    def may_die(self, event: _Event, chance: float) -> None:
        self.possible[event] = 1.0 - (1.0 - self.possible.get(event, 0.0)) * (1.0 - chance)

    def ran_cleanly(self, at: float | None) -> None:
        if at is not None:
            self.last_clean = at if self.last_clean is None else max(self.last_clean, at)

    def merge(self, other: _Seen) -> None:
        self.jobs += other.jobs
        self.exposure_s += other.exposure_s
        self.failures += other.failures
        self.faults |= other.faults
        self.deaths |= other.deaths
        for event, chance in other.possible.items():
            self.may_die(event, chance)
        self.ran_cleanly(other.last_clean)


class Census:
    """What happened on each node in a stretch of history. Records come in any order, stretches can be merged."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._users: set[str | None] = set()

    def add(self, record: LedgerRecord) -> None:
        at = record.ended or 0.0
        self._users.add(record.user)
        names = {*record.node_names, *record.culprits}
        # A job that keeps failing in one way on one set of nodes is one event.
        event: _Event = (record.user, record.name, record.fingerprint, record.nodes)
        deaths = sum(kind not in DIRECT for _, kind in record.node_evidence)
        clean = record.status == "completed" and (record.elapsed_s or 0.0) >= CLEAN_RUN_S
        for node in names:
            entry = self._seen.setdefault(node, _Seen())
            entry.jobs += 1
            entry.exposure_s += _START_S + (record.elapsed_s or 0.0)
            if deaths:
                entry.may_die(event, min(1.0, deaths / len(names)))
            entry.ran_cleanly(at if clean else None)
        for node, kind in record.node_evidence:
            entry = self._seen[node]
            entry.failures.append(Failure(record.display_id, record.cls, kind, at, record.user))
            (entry.faults if kind in DIRECT else entry.deaths).add(event)

    def merge(self, other: Census) -> None:
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
