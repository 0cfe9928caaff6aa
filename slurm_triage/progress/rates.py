"""Step lines as a sequence of comparable costs, without those that say nothing about speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from slurm_triage.model.facts import StepSeries
from slurm_triage.model.progress import Start
from slurm_triage.progress.order_statistics import median, quantile
from slurm_triage.progress.plan import WARM_UP_STEPS, RunPlan
from slurm_triage.progress.reference import logging_interval
from slurm_triage.progress.step_times import ordered, step_times

#: The seed compares "steps 5-15" of the run with its "last 10".
_EARLY_UNTIL = 15
_WINDOW = 10
_MIN_EARLY = 3
#: Lines with a rate that are enough to judge a run by.
_ENOUGH_RATED = 25
#: Longer runs are judged by the medians of neighbouring lines, so that 100 000 steps cost no more than a few thousand.
_MAX_LINES = 6000


@dataclass(frozen=True, slots=True)
class Rates:
    """``cost`` is time per unit of work (lower is better), one per step in ``steps``, ascending.

    ``usable`` indexes the values without warm-up, saves and profiling. ``inverted`` says that the line itself prints a
    cost (ms per iteration). ``interval`` is the number of steps per line, None if uneven.
    """

    steps: Sequence[int]
    cost: Sequence[float]
    usable: Sequence[int]
    interval: int | None
    inverted: bool
    unit: str

    def rate(self, cost: float) -> float:
        """The cost in the unit that the line prints."""
        return cost if self.inverted else 1.0 / cost


@dataclass(frozen=True, slots=True)
class Course:
    """The usable lines of a run, thinned to a few thousand. ``last_steps`` are the last steps behind each value."""

    steps: Sequence[int]
    last_steps: Sequence[int]
    cost: Sequence[float]
    every_step: bool


def read_rates(series: StepSeries, start: Start, plan: RunPlan) -> Rates:
    """Costs of one rank's steps, from the printed rate, else from the seconds.

    Where enough lines print a rate, those without one are left out: MaxText prints none while it ramps the batch size
    up, and there the seconds grow with the work.
    """
    lines = ordered(series)
    rated = [s for s in lines if s.rate is not None and 0 < s.rate < inf]
    inverted, unit = False, "steps/s"
    if len(rated) >= min(_ENOUGH_RATED, len(lines) / 2):
        inverted, unit = not series.higher_is_better, series.unit
        steps: Sequence[int] = [s.step for s in rated]
        cost: Sequence[float] = [s.rate if inverted else 1.0 / s.rate for s in rated if s.rate is not None]
    else:
        times = step_times(lines)
        steps, cost = times.steps, times.seconds
        if cost and not (min(cost) > 0 and max(cost) < inf):
            kept = [i for i, seconds in enumerate(cost) if 0 < seconds < inf]
            steps, cost = [steps[i] for i in kept], [cost[i] for i in kept]
    interval = logging_interval(steps)
    begin = _warm_up_lines(steps, cost, interval, start) if steps else 0
    return Rates(steps, cost, plan.undisturbed(steps, begin), interval, inverted, unit)


def _warm_up_lines(steps: Sequence[int], cost: Sequence[float], interval: int | None, start: Start) -> int:
    """Lines of the warm-up, which is relative to the run's first step, not to step 0.

    An excerpt (uneven lines, beginning unknown) shows a run that was under way. A line that averages over many steps is
    left out only if it shows the compilation by being slow.
    """
    if interval is not None and interval >= WARM_UP_STEPS:
        return 1 if len(cost) > 1 and cost[0] > 1.1 * cost[1] else 0
    first = 0 if interval is None and start == "unknown" else steps[0]
    return next((i for i, step in enumerate(steps) if step >= first + WARM_UP_STEPS), len(steps))


def windows(rates: Rates) -> tuple[float | None, float | None]:
    """(early, recent) cost: medians of the seed's two windows, kept apart in short runs."""
    usable = rates.usable
    if len(usable) < 2:
        return (rates.cost[usable[0]] if usable else None), None
    half = min(_WINDOW, len(usable) // 2)
    until = rates.steps[0] + _EARLY_UNTIL
    early = [i for i in usable[: min(_EARLY_UNTIL, len(usable) - half)] if rates.steps[i] <= until]
    if len(early) < _MIN_EARLY:
        early = list(usable[:half])
    return median([rates.cost[i] for i in early]), median([rates.cost[i] for i in usable[-half:]])


def course_of(rates: Rates) -> Course:
    """The usable lines alone; of a long run, the medians of neighbours."""
    steps, cost = [rates.steps[i] for i in rates.usable], [rates.cost[i] for i in rates.usable]
    every_step = rates.interval == 1
    group = -(-len(cost) // _MAX_LINES)
    if group <= 1:
        return Course(steps, steps, cost, every_step)
    ends = [*range(group, len(cost), group), len(cost)]
    medians = [quantile(sorted(cost[max(0, end - group) : end]), 0.5) for end in ends]
    return Course(steps[::group], [steps[end - 1] for end in ends], medians, every_step)
