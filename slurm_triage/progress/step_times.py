"""Seconds per step: what one line stands for, the steady value, the sum, the cost of a checkpoint."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

from slurm_triage.model.facts import Step, StepSeries
from slurm_triage.progress.order_statistics import median, sample
from slurm_triage.progress.plan import WARM_UP_STEPS, RunPlan
from slurm_triage.progress.reference import logging_interval

#: With fewer steps than a warm-up, the first three still cannot be used: step 0 holds the compilation, step 1 is
#: absurdly fast with asynchronous dispatch (0.319 s seen), step 2 pays for it (5.658 s seen).
_UNUSABLE_STEPS = 3
#: Profiler boundary steps have a line of their own, so a complete series may lack a few.
_COMPLETE_SHARE = 0.95

_step_number = attrgetter("step")


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Two columns: step numbers, ascending, and the seconds of each."""

    steps: Sequence[int] = ()
    seconds: Sequence[float] = ()

    def after(self, step: int) -> Sequence[float]:
        """Seconds of the steps beyond ``step``."""
        return self.seconds[bisect_left(self.steps, step + 1) :]


def ordered(series: StepSeries) -> Sequence[Step]:
    """Steps in ascending order."""
    numbers = list(map(_step_number, series.steps))
    return series.steps if numbers == sorted(numbers) else sorted(series.steps, key=_step_number)


def step_times(steps: Sequence[Step]) -> StepTimes:
    """Seconds per step; where the line prints none, the clocks of neighbouring lines give it."""
    timed = [s for s in steps if s.seconds is not None and s.seconds >= 0]
    if timed:
        return StepTimes([s.step for s in timed], [s.seconds or 0.0 for s in timed])
    rows = [
        (b.step, (b.time - a.time) / (b.step - a.step))
        for a, b in pairwise(steps)
        if a.time is not None and b.time is not None and b.time >= a.time and b.step > a.step
    ]
    return StepTimes([r[0] for r in rows], [r[1] for r in rows])


def steady_step_time(times: StepTimes, first_step: int, plan: RunPlan) -> float | None:
    """Median seconds of the steps after warm-up (relative to this run's first), without saves and profiling."""
    for skip in (WARM_UP_STEPS, _UNUSABLE_STEPS):
        begin = bisect_left(times.steps, first_step + skip)
        if begin < len(times.steps):
            calm = [times.seconds[i] for i in plan.undisturbed(times.steps, begin)]
            return median(sample(calm or times.seconds[begin:]))
    return None


def checkpoint_cost(times: StepTimes, first_step: int, steady_s: float | None, plan: RunPlan) -> float | None:
    """Seconds that the dearest save of this run added to the step that waited for it (kP+1).

    The dearest, because it is compared with timeouts. The initial save and the one restored from do not count: their
    step kP+1 holds the compilation.
    """
    period = plan.checkpoint_period
    if period is None or steady_s is None or not plan.checkpointing:
        return None
    # Every step of a run that saves after each one (P=1) waits for a save.
    own = max(first_step, 1) + 1
    after_saves = [
        s for step, s in zip(times.steps, times.seconds, strict=True) if step % period == 1 % period and step >= own
    ]
    return max(0.0, max(after_saves) - steady_s) if after_saves else None


def sum_of_steps(series: StepSeries, times: StepTimes) -> tuple[float | None, bool]:
    """(sum of the seconds of all steps of one rank, whether it covers the whole run).

    Summed, never "average times count", which hides the cost of checkpoints and with it a 60-minute hang. A line that
    appears every n steps stands for n of them. Steps that the reader had to drop are in ``dropped_s``.
    """
    if not times.steps or all(s.seconds is None for s in series.steps):
        return None, False
    total = sum(times.seconds) + series.dropped_s
    share = (len(times.steps) + series.dropped_steps) / (times.steps[-1] - times.steps[0] + 1)
    if share >= _COMPLETE_SHARE:
        return total, share <= 1 / _COMPLETE_SHARE
    interval = None if series.dropped_steps else logging_interval(times.steps)
    if interval is not None and interval > 1:
        return total * interval, True
    return total, False
