"""Everything the ledger knows that bears on one job: the same failure before, an outbreak, the last good run, nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_triage.ledger.last_good import LastGood, last_good
from slurm_triage.ledger.nodes import Advice, advice, node_stats
from slurm_triage.ledger.query import Filter, select
from slurm_triage.ledger.record import LedgerRecord
from slurm_triage.ledger.recurrence import OUTBREAK_S, Outbreak, Recurrence, outbreaks, recurrence

#: How far back one look goes. Statistics on nodes need months (a node fails about once a week on 48 nodes).
LOOK_BACK_S = 90 * 86400.0
#: Healthy jobs of this long around an outbreak tell what is shared anyway.
_OUTBREAK_CONTEXT_S = 86400.0


@dataclass(frozen=True, slots=True)
class History:
    """``advice``: for nodes of this job only. ``setup_s``: set-up times of good runs under the same name, for judging
    whether a gap is a hang."""

    recurrence: Recurrence | None
    outbreak: Outbreak | None
    last_good: LastGood | None
    advice: tuple[Advice, ...]
    setup_s: tuple[float, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """For a report's notes."""
        found = [self.recurrence.sentence] if self.recurrence is not None else []
        if self.outbreak is not None:
            found.append(self.outbreak.sentence)
        if self.last_good is not None and self.last_good.differences:
            changes = "; ".join(d.sentence for d in self.last_good.differences)
            found.append(f"Changed since job {self.last_good.job_id}, which worked: {changes}.")
        found.extend(f"Keep away from {a.node}: {a.why}." for a in self.advice)
        return tuple(found)


def look_back(
    record: LedgerRecord,
    roots: Sequence[Path],
    now: float,
    switch_of: Callable[[str], str | None] = lambda _: None,
) -> History:
    """Reads the last 90 days of the job's cluster once (20 s of CPU a million records; a look-up by a person, not
    something to do for each of 10 000 tasks). Raises LedgerError."""
    rows = [r for r in select(roots, Filter(since=now - LOOK_BACK_S)) if r.cluster == record.cluster]
    around = record.ended or now
    near = [r for r in rows if abs((r.ended or 0.0) - around) <= _OUTBREAK_CONTEXT_S]
    close = [o for o in outbreaks(near, switch_of) if o.first - OUTBREAK_S <= around <= o.last + OUTBREAK_S]
    on_nodes = advice(node_stats(rows, now))
    good = [r for r in rows if r.status == "completed" and r.name == record.name and r.setup_s is not None]
    return History(
        recurrence=recurrence(record, rows),
        outbreak=next((o for o in close if o.fingerprint == record.fingerprint), None),
        last_good=last_good(record, rows),
        advice=tuple(on_nodes[node] for node in record.node_names if node in on_nodes),
        setup_s=tuple(r.setup_s for r in good if r.setup_s is not None),
    )
