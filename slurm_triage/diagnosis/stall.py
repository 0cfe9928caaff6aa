"""Did training stand still before the end? A silent stall is an event, though no line shows it.

Sources: the seed ("the reliable indicator is whether the last completed step is recent", wall-time gap beyond the
15-30 minutes of set-up) and the measured limits of a live verdict: a checkpoint may take minutes, so silence counts
only beyond ten step times, twice the longest step, and ten minutes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from slurm_triage.diagnosis.classes import SYMPTOMS
from slurm_triage.model.diagnosis import Finding
from slurm_triage.model.facts import AttemptFacts
from slurm_triage.model.progress import Progress
from slurm_triage.progress.silence_limit import silence_limit_s

#: Set-up and compilation that the seed allows for when only the sum of step times and the wall time are known.
SETUP_ALLOWANCE_S = 1800.0
#: Before the first step everything may still be compiling; half an hour is the seed's upper figure.
MIN_INIT_SILENCE_S = 1800.0


@dataclass(frozen=True, slots=True)
class Stall:
    """``measured``: from clocks; otherwise from wall time minus the sum of step times."""

    silence_s: float
    limit_s: float
    phase: str
    after: str | None
    measured: bool


def find_stall(
    attempt: AttemptFacts, progress: Progress, fact_kind: Mapping[str, str], *, extra_limit_s: float = 0.0
) -> Stall | None:
    """A stall between the last completed step (or the start of training) and the end of the attempt.

    ``extra_limit_s``: silence that something else explains (the heartbeat timeout after a peer's death).
    """
    phase, after = phase_of(attempt, progress, fact_kind)
    limit = (silence_limit_s(progress) if progress.last_step is not None else MIN_INIT_SILENCE_S) + extra_limit_s
    if progress.last_step is None and phase == "restore":
        silent_s, measured = _silent_restore(attempt, progress, fact_kind)
        return Stall(silent_s, limit, phase, after, measured) if silent_s > limit else None
    if progress.silence_s is not None:
        measured = progress.silence_basis == "clock"
        return Stall(progress.silence_s, limit, phase, after, measured) if progress.silence_s > limit else None
    if progress.unaccounted_s is not None and progress.last_step is not None:
        gap = progress.unaccounted_s - SETUP_ALLOWANCE_S
        return Stall(gap, limit, phase, after, False) if gap > limit else None
    if progress.last_step is None and progress.wall_s is not None and after in _IN_THE_LOOP:
        # No clock tells when the loop was entered: the whole wall time, less what start-up is allowed to take.
        gap = progress.wall_s - SETUP_ALLOWANCE_S
        return Stall(gap, limit, phase, after, False) if gap > limit else None
    return None


def _silent_restore(attempt: AttemptFacts, progress: Progress, fact_kind: Mapping[str, str]) -> tuple[float, bool]:
    """(seconds for which nobody had said anything when it ended, whether clocks show it) of a run that has restored, or
    is about to, and completed no step. Without clocks only if the restore is the last that was said."""
    said = [tail.said_at for tail in attempt.tails if tail.said_at is not None]
    longest = attempt.end_time if progress.wall_s is None else progress.wall_s
    if said and attempt.end_time is not None and longest is not None:
        silent_s = attempt.end_time - max(said)
        return (silent_s, True) if silent_s <= longest else (0.0, True)
    restored = max(fact.last_seq for fact in attempt.facts if fact_kind.get(fact.rule) in _RESTORES)
    tails = [tail for tail in attempt.tails if tail.rank is not None] or attempt.tails
    if progress.wall_s is None or any(tail.seq > restored for tail in tails):
        return 0.0, False
    return progress.wall_s - SETUP_ALLOWANCE_S, False


def announced(findings: Sequence[Finding], stall: Stall, progress: Progress, prompt: Set[str]) -> bool:
    """Whether a detector spoke before the silence, so that the silence is what it reports (seed: "NCCL network error
    -> all-reduce hang"), and not at its end, as watchdogs do. By the clock where both have one; else only errors that
    are printed at once (``prompt``: their rules) count."""
    roots = [f for f in findings if f.role == "root" and f.cls in SYMPTOMS and f.match is not None]
    first = min(roots, key=lambda f: f.match.seq if f.match is not None else 0, default=None)
    if first is None or first.match is None:
        return False
    if first.match.time is not None and progress.last_step_time is not None:
        return first.match.time - progress.last_step_time <= stall.limit_s
    return first.rule in prompt


def phase_of(attempt: AttemptFacts, progress: Progress, fact_kind: Mapping[str, str]) -> tuple[str, str | None]:
    """(phase of the silence, what the log spoke of last)."""
    last_step_seq = max((s.steps[-1].seq for s in attempt.series if s.steps), default=-1)
    after = None
    for fact in attempt.facts:
        kind = fact_kind.get(fact.rule)
        if fact.seq > last_step_seq and kind in _ACTIVITIES:
            after = _ACTIVITIES[kind]
    if progress.last_step is not None:
        return (
            "checkpoint" if after == "a checkpoint save" else "eval" if after == "evaluation" else "training"
        ), after
    return ("restore" if after == "a checkpoint restore" else "init"), after


_ACTIVITIES = {
    "checkpoint_started": "a checkpoint save",
    "restore": "a checkpoint restore",
    "restore_started": "a checkpoint restore",
    "eval": "evaluation",
    "compile": "compilation",
    "barrier": "a barrier of all hosts",
    "barrier_passed": "the start of the training loop",
    "memstats": "the first step's compilation",
}
_RESTORES = frozenset(kind for kind, activity in _ACTIVITIES.items() if activity == "a checkpoint restore")
#: Seed: "zero completed step lines, but all tasks reached the BARRIER and then went silent" is a hang in the first
#: collective.
_IN_THE_LOOP = frozenset(_ACTIVITIES[kind] for kind in ("barrier", "barrier_passed", "memstats"))
