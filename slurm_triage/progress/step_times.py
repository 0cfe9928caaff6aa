"""Seconds per step: what one line stands for, the steady value, the sum, the cost of a checkpoint."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from slurm_triage.model.facts import Step, StepSeries
from slurm_triage.progress.plan import WARM_UP_STEPS, RunPlan
from slurm_triage.progress.reference import logging_interval

#: With fewer steps than a warm-up, the first three still cannot be used: step 0 holds the compilation, step 1 is
#: absurdly fast with asynchronous dispatch (0.319 s seen), step 2 pays for it (5.658 s seen).
_UNUSABLE_STEPS = 3
#: Profiler boundary steps have a line of their own, so a complete series may lack a few.
_COMPLETE_SHARE = 0.95


def ordered(series: StepSeries) -> list[Step]:
    """Steps in ascending order."""
    return sorted(series.steps, key=lambda s: s.step)


def step_seconds(steps: list[Step]) -> list[tuple[int, float]]:
    """(step, seconds per step); where the line prints none, the clocks of neighbouring lines give it."""
    times = [(s.step, s.seconds) for s in steps if s.seconds is not None and s.seconds >= 0]
    if times:
        return times
    return [
        (b.step, (b.time - a.time) / (b.step - a.step))
        for a, b in pairwise(steps)
        if a.time is not None and b.time is not None and b.time >= a.time and b.step > a.step
    ]


def steady_step_time(times: list[tuple[int, float]], first_step: int, plan: RunPlan) -> float | None:
    """Median seconds of the steps after warm-up (relative to this run's first), without saves and profiling."""
    for skip in (WARM_UP_STEPS, _UNUSABLE_STEPS):
        settled = [seconds for step, seconds in times if step >= first_step + skip]
        calm = [s for step, s in times if step >= first_step + skip and not plan.is_disturbed(step)]
        if settled:
            return median(calm or settled)
    return None


def checkpoint_cost(
    times: list[tuple[int, float]], first_step: int, steady_s: float | None, plan: RunPlan
) -> float | None:
    """Seconds that the dearest save of this run added to the step that waited for it (kP+1).

    The dearest, because it is compared with timeouts. The initial save and the one restored from do not count: their
    step kP+1 holds the compilation.
    """
    period = plan.checkpoint_period
    if period is None or steady_s is None or not plan.checkpointing:
        return None
    after_saves = [s for step, s in times if step % period == 1 % period and step - 1 >= max(first_step, 1)]
    return max(0.0, max(after_saves) - steady_s) if after_saves else None


def sum_of_steps(series: StepSeries, steps: list[Step]) -> tuple[float | None, bool]:
    """(sum of the seconds of all steps of one rank, whether it covers the whole run).

    Summed, never "average times count", which hides the cost of checkpoints and with it a 60-minute hang. A line that
    appears every n steps stands for n of them. Steps that the reader had to drop are in ``dropped_s``.
    """
    seconds = [s.seconds for s in steps if s.seconds is not None and s.seconds >= 0]
    if not seconds:
        return None, False
    total = sum(seconds) + series.dropped_s
    span = steps[-1].step - steps[0].step + 1
    share = (len(seconds) + series.dropped_steps) / span
    if share >= _COMPLETE_SHARE:
        return total, share <= 1 / _COMPLETE_SHARE
    interval = None if series.dropped_steps else logging_interval([s.step for s in steps])
    if interval is not None and interval > 1:
        return total * interval, True
    return total, False
