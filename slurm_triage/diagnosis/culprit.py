"""Which rank did it, when the line that tells the cause was written by somebody else."""

from __future__ import annotations

from collections.abc import Sequence

from slurm_triage.diagnosis.cause import ONLY_CONSEQUENCES
from slurm_triage.diagnosis.classes import STOPS, SYMPTOMS, WITNESSES
from slurm_triage.diagnosis.cluster_map import rank_of
from slurm_triage.diagnosis.collectives import odd_label, sub_cause
from slurm_triage.diagnosis.heartbeat import accused_ranks, alive_ranks
from slurm_triage.model.diagnosis import Finding
from slurm_triage.model.facts import AttemptFacts

#: Rules whose finding belongs to nobody in particular.
_UNKNOWN = "unknown-death"


def culprit_rank(cause: Finding, found: Sequence[Finding], attempt: AttemptFacts, nodes: Sequence[str]) -> int | None:
    """The rank that printed the cause, unless the line speaks of somebody else: of a named node, of all ranks (a stop),
    of a task that a detector accuses, or of a lost peer, who is then the one rank that never complained."""
    if cause.cls in STOPS:
        # slurmstepd's lines carry the label of rank 0 although they concern the whole step.
        return None
    named = cause.match.captures.get("node") if cause.match is not None else cause.node
    by_name = rank_of(named, attempt, nodes) if cause.cls in WITNESSES and named else None
    if by_name is not None:
        return by_name
    detector = cause.cls in SYMPTOMS or cause.cls == _UNKNOWN
    if not detector and (cause.rank is not None or cause.cls not in WITNESSES):
        return cause.rank if cause.rank is not None else _named_in_words(cause, found)
    seen = _seen_by_witness(cause, found) if cause.cls in WITNESSES else None
    if seen is not None:
        return seen
    if sub_cause(cause) is not None:
        # Whoever reports the time-out only waited.
        return odd_label(cause)
    accused = set(accused_ranks(cause, attempt))
    if not accused:
        for finding in found:
            if finding.cls == "heartbeat-timeout":
                # A task that could still complain is no more guilty of a hang than the others.
                accused |= set(accused_ranks(finding, attempt)) - set(alive_ranks(finding, found, attempt))
    if len(accused) == 1:
        return accused.pop()
    if len(accused) > 1:
        return None
    # Who only reports a lost peer or a lost coordinator is a victim; the rank that printed nothing is the one.
    messenger = cause.cls == _UNKNOWN or cause.why == ONLY_CONSEQUENCES
    if cause.rank is None or messenger:
        silent = _never_complained(found, attempt)
        if silent is not None:
            return silent
    return None if messenger else cause.rank


def _named_in_words(cause: Finding, found: Sequence[Finding]) -> int | None:
    """The one rank that lines about this failure speak of, in a log without labels: mpirun's last words."""
    same = (f.match.captures.get("rank", "") for f in (cause, *found) if f.cls == cause.cls and f.match is not None)
    ranks = {int(rank) for rank in same if rank.isdigit()}
    ranks |= {f.rank for f in found if f.cls == cause.cls and f.rank is not None}
    return ranks.pop() if len(ranks) == 1 else None


def _seen_by_witness(cause: Finding, found: Sequence[Finding]) -> int | None:
    """The kernel and the scheduler name no rank: the only one that shows the same failure, or the only one killed."""
    same = {f.rank for f in found if f.cls == cause.cls and f.rank is not None}
    killed = {f.rank for f in found if f.cls == "signal-kill" and f.rank is not None and "SIGKILL" in f.title}
    for ranks in (same, killed if cause.cls == "oom-host" else set[int | None]()):
        if len(ranks) == 1:
            return ranks.pop()
    return None


def _never_complained(found: Sequence[Finding], attempt: AttemptFacts) -> int | None:
    """The only rank without a message about a lost peer, if all others have one."""
    ranks = {t.rank for t in attempt.tails if t.rank is not None} | {
        s.rank for s in attempt.series if s.rank is not None
    }
    complained = {f.rank for f in found if f.role in {"consequence", "root"} and f.rank is not None}
    silent = ranks - complained
    return silent.pop() if len(silent) == 1 and complained else None
