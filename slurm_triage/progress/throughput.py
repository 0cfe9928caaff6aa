"""Whether a run slowed down: since when, by how much, and in which of the seed's patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from slurm_triage.model.facts import AttemptFacts, StepSeries
from slurm_triage.model.progress import Pattern, Progress, Throughput
from slurm_triage.progress.changepoint import best_ramp, best_step
from slurm_triage.progress.phases import MIN_STEPS, Phase, slow_phases
from slurm_triage.progress.plan import RunPlan, read_plan
from slurm_triage.progress.rates import Rates, read_rates, windows
from slurm_triage.progress.reference import reference_series
from slurm_triage.progress.spikes import spike_period

#: A creeping slowdown must fit a straight rise this much better than a jump.
_RAMP_ERROR_SHARE = 0.95
#: Blocks of the line that is fitted.
_RAMP_BLOCKS = 60
#: "Step time increases by a constant delta on every step" (a constant drop): the scatter relative to the step time does
#: not grow. Beyond this factor every step is hit differently, which the seed calls a one-time drop. Scatter below one
#: per cent is as good as none.
_SAME_SCATTER = 2.0
_LEAST_SCATTER = 0.01


def throughput(attempt: AttemptFacts, progress: Progress, fact_kind: Mapping[str, str] | None = None) -> Throughput:
    """Early against recent throughput of one rank, and the verdict.

    Degraded means: more than 10 % slower than an earlier lasting phase of the same run, over at least 25 steps of
    evidence, at the end of the run or for 10 steps and more within it. Warm-up, saves (kP+1), profiled steps and single
    spikes do not count. ``early`` and ``recent`` are medians in the unit that the log prints ("steps/s" where it prints
    none); ``change`` is relative, negative when slower, whatever the unit's direction. Of a degraded run ``early`` is the
    throughput before the first drop and ``change`` that of the slowest phase, even if the run recovered.

    The method (block medians, exact least-squares partition, robust test) is this project's own. Measured against
    ruptures 1.1.10 on the same 2-core machine: see docs; importing ruptures alone takes longer than a whole triage may.
    """
    series = reference_series(attempt)
    if series is None:
        return Throughput()
    plan = read_plan(attempt, series)
    rates = read_rates(series, progress.start, plan)
    early, recent = windows(rates)
    phases = slow_phases(rates)
    period = None if phases and not _follow_saves(phases, rates, plan) else spike_period(rates)
    if phases and _follow_saves(phases, rates, plan):
        period, phases = plan.checkpoint_period, []
    if phases:
        return _degraded(attempt, series, progress, plan, rates, phases, fact_kind or {})
    return Throughput(
        early=None if early is None else rates.rate(early),
        recent=None if recent is None else rates.rate(recent),
        change=None if early is None or recent is None else early / recent - 1,
        pattern=None if period is None else "periodic",
        unit=rates.unit if rates.steps else None,
        hints=() if period is None else (_spike_hint(period, attempt, plan),),
    )


def _degraded(
    attempt: AttemptFacts,
    series: StepSeries,
    progress: Progress,
    plan: RunPlan,
    rates: Rates,
    phases: Sequence[Phase],
    fact_kind: Mapping[str, str],
) -> Throughput:
    costs = [rates.cost[i] for i in rates.usable]
    pattern, begin = _pattern(costs, phases)
    healthy = costs[:begin] or costs[: phases[0].begin]
    before = median(healthy)
    slowest = max(median(costs[p.begin : p.end]) for p in phases)
    if pattern == "gradual":
        slowest = median(costs[-min(10, max(1, len(costs) - begin)) :])
    recent = windows(rates)[1]
    from_step = rates.steps[rates.usable[begin]]
    to_step = rates.steps[rates.usable[phases[-1].end - 1]]
    return Throughput(
        early=rates.rate(before),
        recent=None if recent is None else rates.rate(recent),
        change=before / slowest - 1,
        degraded=True,
        pattern=pattern,
        from_step=from_step,
        to_step=to_step,
        unit=rates.unit,
        hints=_hints(attempt, series, progress, plan, rates, phases, pattern, before, fact_kind),
        slowest=rates.rate(slowest),
    )


def _pattern(costs: Sequence[float], phases: Sequence[Phase]) -> tuple[Pattern, int]:
    """(the seed's pattern, position of the first slow step)."""
    begin, end = phases[0].begin, phases[-1].end
    if len(phases) > 1 or end < len(costs):
        return "phased", begin
    size = max(3 if len(costs) >= MIN_STEPS else 1, len(costs) // _RAMP_BLOCKS)
    blocks = [median(costs[i : i + size]) for i in range(0, len(costs), size)]
    ramp_at, ramp_error, slope = best_ramp(blocks)
    _, step_error = best_step(blocks)
    if slope > 0 and ramp_error < _RAMP_ERROR_SHARE * step_error:
        return "gradual", min(begin, ramp_at * size)
    uniform = _scatter(costs[begin:]) <= _SAME_SCATTER * max(_scatter(costs[:begin]), _LEAST_SCATTER)
    return ("constant" if uniform else "one-time"), begin


def _scatter(values: Sequence[float]) -> float:
    """Distance between the quartiles, relative to the median."""
    ascending = sorted(values)
    n = len(ascending)
    return (ascending[n * 3 // 4] - ascending[n // 4]) / ascending[n // 2]


def _follow_saves(phases: Sequence[Phase], rates: Rates, plan: RunPlan) -> bool:
    """Whether every slow phase begins right after a save and ends before the next: the background write, expected."""
    period = plan.checkpoint_period
    if not plan.checkpointing or period is None or phases[-1].end == len(rates.usable):
        return False
    spans = [(rates.steps[rates.usable[p.begin]], rates.steps[rates.usable[p.end - 1]]) for p in phases]
    return all(a >= period and a % period <= 4 and b - a < period / 2 for a, b in spans)


def _spike_hint(period: int, attempt: AttemptFacts, plan: RunPlan) -> str:
    known = {"checkpoint saves": plan.checkpoint_period if plan.checkpointing else None}
    for name, key in (("evaluation", "eval_interval"), ("logging", "log_period")):
        text = attempt.config.get(key, "")
        known[name] = int(text) if text.isdigit() else None
    cause = next((name for name, value in known.items() if value and abs(value - period) <= 1), None)
    return f"slow steps every {period} steps" + (
        f", as often as {cause}: expected" if cause else ", no lasting slowdown"
    )


def _hints(
    attempt: AttemptFacts,
    series: StepSeries,
    progress: Progress,
    plan: RunPlan,
    rates: Rates,
    phases: Sequence[Phase],
    pattern: Pattern,
    before: float,
    fact_kind: Mapping[str, str],
) -> tuple[str, ...]:
    """Causes that the log itself points to (the seed, TGS step 3), and the phases where there are several."""
    spans = [(rates.steps[rates.usable[p.begin]], rates.steps[rates.usable[p.end - 1]]) for p in phases]
    hints = []
    if pattern == "phased":
        parts = [
            f"{a}-{b} ({_percent(before, median([rates.cost[i] for i in rates.usable[p.begin : p.end]]))})"
            for (a, b), p in zip(spans, phases, strict=True)
        ]
        tail = "" if phases[-1].end == len(rates.usable) else ", recovered since"
        hints.append("slow in steps " + ", ".join(parts) + tail)
    if progress.start == "restored":
        hints.append(
            "restored from a checkpoint: such runs can leak communicator threads; compare with a fresh run of the same "
            "configuration"
        )
    hints += _recompilations(attempt, series, fact_kind)
    profiled = set(plan.profiled) | {
        int(m.captures["step"])
        for m in attempt.facts
        if fact_kind.get(m.rule) == "profiler" and m.captures.get("step", "").isdigit()
    }
    if any(a - 1 <= step <= b for a, b in spans for step in profiled):
        hints.append("the profiler was on during the slow steps")
    return tuple(hints)


def _percent(before: float, after: float) -> str:
    return f"{(before / after - 1) * 100:.0f} %"


def _recompilations(attempt: AttemptFacts, series: StepSeries, fact_kind: Mapping[str, str]) -> list[str]:
    """Compilations after the run was under way; the first steps compile what they need for the first time."""
    settled = series.steps[min(len(series.steps) - 1, 2)].seq
    late = [m for m in attempt.facts if fact_kind.get(m.rule) == "compile" and m.seq > settled and m.step is not None]
    if not late:
        return []
    modules = sorted({m.captures["module"] for m in late if "module" in m.captures})
    named = f" ({', '.join(modules[:3])})" if modules else ""
    return [f"XLA compiled again after step {late[0].step}{named}: look for changing shapes"]
