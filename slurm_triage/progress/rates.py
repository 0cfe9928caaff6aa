"""Step lines as a sequence of comparable costs, without those that say nothing about speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import median

from slurm_triage.model.facts import StepSeries
from slurm_triage.model.progress import Start
from slurm_triage.progress.plan import WARM_UP_STEPS, RunPlan
from slurm_triage.progress.reference import logging_interval
from slurm_triage.progress.step_times import ordered, step_seconds

#: The seed compares "steps 5-15" of the run with its "last 10".
_EARLY_UNTIL = 15
_WINDOW = 10
_MIN_EARLY = 3


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


def read_rates(series: StepSeries, start: Start, plan: RunPlan) -> Rates:
    """Costs of one rank's steps, from the printed rate, else from the seconds."""
    rated = [(s.step, s.rate) for s in ordered(series) if s.rate is not None and 0 < s.rate < inf]
    if 2 * len(rated) >= len(series.steps):
        pairs = rated if not series.higher_is_better else [(step, 1.0 / rate) for step, rate in rated]
        inverted, unit = not series.higher_is_better, series.unit
    else:
        pairs = [(step, seconds) for step, seconds in step_seconds(ordered(series)) if 0 < seconds < inf]
        inverted, unit = False, "steps/s"
    steps, cost = [p[0] for p in pairs], [p[1] for p in pairs]
    interval = logging_interval(steps)
    usable = _usable(steps, cost, interval, start, plan) if steps else []
    return Rates(steps, cost, usable, interval, inverted, unit)


def _usable(
    steps: Sequence[int], cost: Sequence[float], interval: int | None, start: Start, plan: RunPlan
) -> Sequence[int]:
    """Indices behind the warm-up, which is relative to the run's first step, not to step 0.

    An excerpt (uneven lines, beginning unknown) shows a run that was under way. A line that averages over many steps is
    left out only if it shows the compilation by being slow.
    """
    first = 0 if interval is None and start == "unknown" else steps[0]
    if interval is not None and interval >= WARM_UP_STEPS:
        begin = 1 if len(cost) > 1 and cost[0] > 1.1 * cost[1] else 0
    else:
        begin = next((i for i, step in enumerate(steps) if step >= first + WARM_UP_STEPS), len(steps))
    return [i for i in range(begin, len(steps)) if not plan.is_disturbed(steps[i])]


def windows(rates: Rates) -> tuple[float | None, float | None]:
    """(early, recent) cost: medians of the seed's two windows, kept apart in short runs."""
    usable = rates.usable
    if len(usable) < 2:
        return (rates.cost[usable[0]] if usable else None), None
    half = min(_WINDOW, len(usable) // 2)
    recent = usable[-half:]
    until = rates.steps[0] + _EARLY_UNTIL
    early = [i for i in usable[: len(usable) - half] if rates.steps[i] <= until]
    if len(early) < _MIN_EARLY:
        early = list(usable[:half])
    return median([rates.cost[i] for i in early]), median([rates.cost[i] for i in recent])
