"""Causes of a slowdown that the log itself points to (the seed: "check for known log-level causes")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slurm_triage.model.facts import AttemptFacts, StepSeries
from slurm_triage.model.progress import Start
from slurm_triage.progress.checkpoints import steps_of
from slurm_triage.progress.plan import RunPlan

#: The first steps compile what they need for the first time.
_COMPILING_STEPS = 3
_MAX_MODULES = 3


def slowdown_hints(
    attempt: AttemptFacts,
    series: StepSeries,
    start: Start,
    plan: RunPlan,
    fact_kind: Mapping[str, str],
    spans: Sequence[tuple[int, int]],
) -> tuple[str, ...]:
    """One sentence per suspicion. ``spans`` are the first and last steps of the slow phases."""
    hints = []
    if start == "restored":
        hints.append(
            "restored from a checkpoint: such runs can leak communicator threads; compare with a fresh run of the same "
            "configuration"
        )
    hints += _recompilations(attempt, series, fact_kind)
    profiled = set(plan.profiled) | steps_of(m for m in attempt.facts if fact_kind.get(m.rule) == "profiler")
    if any(first - 1 <= step <= last for first, last in spans for step in profiled):
        hints.append("the profiler was on during the slow steps")
    return tuple(hints)


def _recompilations(attempt: AttemptFacts, series: StepSeries, fact_kind: Mapping[str, str]) -> list[str]:
    if len(series.steps) <= _COMPILING_STEPS:
        return []
    settled = series.steps[_COMPILING_STEPS].seq
    late = [m for m in attempt.facts if fact_kind.get(m.rule) == "compile" and m.seq > settled and m.step is not None]
    if not late:
        return []
    modules = sorted({m.captures["module"] for m in late if "module" in m.captures})
    named = f" ({', '.join(modules[:_MAX_MODULES])})" if modules else ""
    return [f"XLA compiled again after step {late[0].step}{named}: look for changing shapes"]


def spike_hint(period: int, attempt: AttemptFacts, plan: RunPlan) -> str:
    """What regular single slow steps are."""
    causes = {"evaluation": attempt.config.get("eval_interval"), "logging": attempt.config.get("log_period")}
    if plan.checkpointing and plan.checkpoint_period is not None and abs(plan.checkpoint_period - period) <= 1:
        return f"slow steps every {period} steps, as often as checkpoints are saved: expected"
    for name, text in causes.items():
        if text is not None and text.isdigit() and abs(int(text) - period) <= 1:
            return f"slow steps every {period} steps, as often as {name}: expected"
    return f"slow steps every {period} steps, no lasting slowdown"
