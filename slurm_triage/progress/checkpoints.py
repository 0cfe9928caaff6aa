"""Where the run could be picked up again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slurm_triage.model.facts import Match
from slurm_triage.model.files import CheckpointDir
from slurm_triage.progress.plan import RunPlan

#: The line of step N is written when N+1 or N+2 is on its way, so a run may have saved this far past its last line.
LOG_LAG_STEPS = 2


@dataclass(frozen=True, slots=True)
class LastCheckpoint:
    """``step`` is None when this run left no checkpoint (``known``) or when nothing can be said (not ``known``)."""

    step: int | None
    confirmed: bool | None
    known: bool


def last_checkpoint(
    plan: RunPlan,
    directories: tuple[CheckpointDir, ...],
    started: Iterable[Match],
    saved: Iterable[Match],
    restored_from: int | None,
    last_step: int | None,
) -> LastCheckpoint:
    """The newest checkpoint that this run itself made; the one of step 0 is a starting state, not a milestone.

    Proof is a directory with its final name or a line that says the save is complete ("Started an asynchronous
    checkpoint save" proves nothing). Where any proof of that kind could be had, arithmetic is not asked: it overstates
    when the run failed during the save of step kP. Without any, the last multiple of the period is given, unconfirmed.
    """
    if last_step is None:
        return LastCheckpoint(None, None, known=False)
    floor = max(0, restored_from or 0)
    reach = range(floor + 1, last_step + LOG_LAG_STEPS + 1)
    unfinished = {d.step for d in directories if not d.committed} - {d.step for d in directories if d.committed}
    saved_steps = steps_of(saved)
    proven = {d.step for d in directories if d.committed} | (saved_steps - unfinished)
    mine = [s for s in proven if s in reach]
    if mine:
        return LastCheckpoint(max(mine), confirmed=True, known=True)
    if directories or saved_steps or plan.checkpointing is False:
        return LastCheckpoint(None, None, known=True)
    begun = [s for s in steps_of(started) if s in reach]
    period = plan.checkpoint_period
    if plan.checkpointing and period is not None:
        multiple = last_step // period * period
        begun += [multiple] if multiple in reach else []
        return LastCheckpoint(max(begun, default=None), False if begun else None, known=True)
    return LastCheckpoint(max(begun, default=None), False if begun else None, known=bool(begun))


def steps_of(matches: Iterable[Match], name: str = "step") -> set[int]:
    """The step numbers that these lines name."""
    texts = (m.captures.get(name, "") for m in matches)
    return {int(t) for t in texts if t.isdigit()}
