"""Whether a run slowed down: since when, by how much, and in which of the seed's patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slurm_triage.model.facts import AttemptFacts
from slurm_triage.model.progress import Pattern, Progress, Throughput
from slurm_triage.progress.changepoint import best_ramp, best_step
from slurm_triage.progress.order_statistics import median, quantile, robust_sd
from slurm_triage.progress.phases import MIN_STEPS, Phase, slow_phases
from slurm_triage.progress.plan import RunPlan, read_plan
from slurm_triage.progress.rates import Course, Rates, course_of, read_rates, windows
from slurm_triage.progress.reference import reference_series
from slurm_triage.progress.slowdown_hints import slowdown_hints, spike_hint
from slurm_triage.progress.spikes import spike_period

#: A creeping slowdown must fit a straight rise better than a jump, beyond chance.
_RAMP_ERROR_SHARE = 0.95
#: Blocks that the two are fitted to, and lines per block that let a median swallow a spike.
_RAMP_BLOCKS = 60
_MIN_BLOCK_LINES = 3
#: Lines whose median stands for either end of a creeping slowdown (the seed's "last 10").
_END_LINES = 10
#: "Step time increases by a constant delta on every step" (a constant drop): the scatter relative to the step time does
#: not grow. Beyond this factor every step is hit differently, which the seed calls a one-time drop. Scatter below one
#: per cent is as good as none.
_SAME_SCATTER = 2.0
_LEAST_SCATTER = 0.01
#: The seed's 10 % must also hold for the phase as a whole. Step times read off clocks of whole seconds jump from 9 to
#: 10 s, which is no drop; hence strictly more.
_LEAST_CHANGE = -0.1 - 1e-9
#: A background save starts with its step and may press on the steps after it.
_SAVE_START_STEPS = 4


def throughput(attempt: AttemptFacts, progress: Progress, fact_kind: Mapping[str, str] | None = None) -> Throughput:
    """Early against recent throughput of one rank, and the verdict.

    Degraded means: more than 10 % slower than the same run was before, over at least 25 steps of evidence, at the end
    of the run or for 10 steps and more within it. Warm-up, saves (kP+1), profiled steps and single spikes do not count.
    ``early`` and ``recent`` are medians in the unit that the log prints ("steps/s" where it prints none); ``change`` is
    relative, negative when slower, whatever the unit's direction. Of a degraded run ``early`` is the throughput before
    the first drop and ``change`` that of the slowest phase, even if the run recovered; ``from_step`` and ``to_step``
    enclose all slow phases.
    """
    series = reference_series(attempt)
    if series is None:
        return Throughput()
    plan = read_plan(attempt, series)
    rates = read_rates(series, progress.start, plan)
    course = course_of(rates)
    phases = slow_phases(course)
    if phases and not _follow_saves(phases, course, plan):
        hints = slowdown_hints(attempt, series, progress.start, plan, fact_kind or {}, _spans(phases, course))
        slower = _degraded(rates, course, phases, hints)
        if slower.change is not None and slower.change < _LEAST_CHANGE:
            return slower
        phases = []
    early, recent = windows(rates)
    period = plan.checkpoint_period if phases else spike_period(rates)
    return Throughput(
        early=None if early is None else rates.rate(early),
        recent=None if recent is None else rates.rate(recent),
        change=None if early is None or recent is None else early / recent - 1,
        pattern=None if period is None else "periodic",
        unit=rates.unit if rates.steps else None,
        hints=() if period is None else (spike_hint(period, attempt, plan),),
    )


def _degraded(rates: Rates, course: Course, phases: Sequence[Phase], hints: tuple[str, ...]) -> Throughput:
    cost = course.cost
    pattern, begin = _pattern(cost, phases)
    # A slope may begin with the run; then its first lines are the nearest to healthy there is.
    before = median(cost[:begin] if begin >= _END_LINES else cost[: min(_END_LINES, phases[0].begin)])
    levels = [median(cost[p.begin : p.end]) for p in phases]
    slowest = median(cost[-min(_END_LINES, len(cost) - begin) :]) if pattern == "gradual" else max(levels)
    _, recent = windows(rates)
    if pattern == "phased":
        hints = (_phase_hint(phases, course, before, levels), *hints)
    return Throughput(
        early=rates.rate(before),
        recent=None if recent is None else rates.rate(recent),
        change=before / slowest - 1,
        degraded=True,
        pattern=pattern,
        from_step=course.steps[begin],
        to_step=course.last_steps[phases[-1].end - 1],
        unit=rates.unit,
        hints=hints,
        slowest=rates.rate(slowest),
    )


def _pattern(cost: Sequence[float], phases: Sequence[Phase]) -> tuple[Pattern, int]:
    """(the seed's pattern, position of the first slow value)."""
    begin = phases[0].begin
    if len(phases) > 1 or phases[0].end < len(cost):
        return "phased", begin
    size = max(_MIN_BLOCK_LINES if len(cost) >= MIN_STEPS else 1, len(cost) // _RAMP_BLOCKS)
    blocks = [median(cost[i : i + size]) for i in range(0, len(cost), size)]
    ramp_at, ramp_error, slope = best_ramp(blocks)
    _, step_error = best_step(blocks)
    if slope > 0 and ramp_error < _RAMP_ERROR_SHARE * step_error:
        return "gradual", min(begin, ramp_at * size)
    uniform = _scatter(cost[begin:]) <= _SAME_SCATTER * max(_scatter(cost[:begin]), _LEAST_SCATTER)
    return ("constant" if uniform else "one-time"), begin


def _scatter(values: Sequence[float]) -> float:
    """Scatter relative to the median."""
    ascending = sorted(values)
    return robust_sd(ascending) / quantile(ascending, 0.5)


def _spans(phases: Sequence[Phase], course: Course) -> list[tuple[int, int]]:
    """First and last step of each phase."""
    return [(course.steps[p.begin], course.last_steps[p.end - 1]) for p in phases]


def _follow_saves(phases: Sequence[Phase], course: Course, plan: RunPlan) -> bool:
    """Whether every slow phase begins right after a save and ends before the next: the background write, expected."""
    period = plan.checkpoint_period
    if not plan.checkpointing or period is None or phases[-1].end == len(course.cost):
        return False
    return all(
        first >= period and first % period <= _SAVE_START_STEPS and last - first < period / 2
        for first, last in _spans(phases, course)
    )


def _phase_hint(phases: Sequence[Phase], course: Course, before: float, levels: Sequence[float]) -> str:
    parts = [
        f"{first}-{last} ({(before / level - 1) * 100:.0f} %)"
        for (first, last), level in zip(_spans(phases, course), levels, strict=True)
    ]
    tail = ", recovered since" if phases[-1].end < len(course.cost) else ""
    return "slow in steps " + ", ".join(parts) + tail
