"""A loss that is no number any more, seen in the step lines themselves, whatever the framework."""

from __future__ import annotations

import math

from slurm_triage.model.diagnosis import Finding
from slurm_triage.model.facts import AttemptFacts, Match, Place, StepSeries

#: Mixed-precision training may show a single overflow and recover; this many steps in a row to the end do not.
_MIN_STEPS = 3


def bad_loss(attempt: AttemptFacts) -> Finding | None:
    """nan-loss when the last steps of a series all show nan or inf; None when training recovered or shows no loss."""
    for series in attempt.series:
        first = _first_bad(series)
        if first is not None:
            step = series.steps[first]
            text = f"loss: {step.loss}"
            place = Place(series.file, step.seq, text)
            match = Match(
                "loss-value", series.rank, None, len(series.steps) - first, place, place, step.seq, step.seq, step.step
            )
            title = f"the loss is {step.loss} from step {step.step} on"
            return Finding("nan-loss", "root", "loss-value", title, series.rank, step=step.step, match=match)
    return None


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
