"""A loss that is no number any more, seen in the step lines themselves, whatever the framework."""

from __future__ import annotations

import math

from slurm_triage.model.diagnosis import Finding
from slurm_triage.model.facts import AttemptFacts, Match, Place, Step, StepSeries

#: Mixed-precision training may show a single overflow and recover; this many steps in a row to the end do not.
_MIN_STEPS = 3
_MAX_PREFIX_BYTES = 400


def bad_loss(attempt: AttemptFacts) -> Finding | None:
    """nan-loss when the last steps of a series all show nan or inf; None when training recovered or shows no loss."""
    for series in attempt.series:
        first = _first_bad(series)
        if first is not None:
            step = series.steps[first]
            place = _shown_at(attempt, series, step) or Place(series.file, step.seq, f"loss: {step.loss}")
            match = Match(
                "loss-value", series.rank, None, len(series.steps) - first, place, place, step.seq, step.seq, step.step
            )
            title = f"the loss is {step.loss} from step {step.step} on"
            return Finding("nan-loss", "root", "loss-value", title, series.rank, step=step.step, match=match)
    return None


def _shown_at(attempt: AttemptFacts, series: StepSeries, step: Step) -> Place | None:
    """The step's line, where a rule kept it: the step's place is that of its numbers, a little behind the line's."""
    lines = [m for m in attempt.matches if m.rank == series.rank and m.first.file == series.file]
    near = [m for m in lines if 0 <= step.seq - m.seq <= _MAX_PREFIX_BYTES and str(step.loss) in m.first.text]
    return near[0].first if near else None


def _first_bad(series: StepSeries) -> int | None:
    """Index of the first step of the bad tail; None if the tail is fine or too short."""
    if series.sparse:
        return None
    start = len(series.steps)
    while start and _is_bad(series.steps[start - 1].loss):
        start -= 1
    return start if len(series.steps) - start >= _MIN_STEPS else None


def _is_bad(loss: float | None) -> bool:
    return loss is not None and (math.isnan(loss) or math.isinf(loss))
