"""What the run was told to do: how many steps, how often to save, which steps are slow on purpose."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slurm_triage.model.facts import AttemptFacts, StepSeries

#: Steps at the start of a run that say nothing about its speed (the seed: "skip warmup steps 0-4 relative to the
#: first step").
WARM_UP_STEPS = 5
#: With a save every few steps nearly every step carries one, and leaving them all out would leave nothing.
_MIN_EXCLUDABLE_PERIOD = 5

_MAX_CHARS, _MAX_SETTING = 20, 10**15

_ARGUMENT = re.compile(r"-{0,2}(\w+)=(.*)", re.DOTALL)
_OFF = frozenset({"", "none", "profilertype.none", "false"})


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Settings of one run; unknown is None. ``profiled`` are the steps that the profiler slows down."""

    total_steps: int | None = None
    checkpointing: bool | None = None
    checkpoint_period: int | None = None
    asynchronous: bool = True
    profiled: range = range(0)

    def undisturbed(self, steps: Sequence[int], begin: int) -> list[int]:
        """Indices from ``begin`` on of the steps that are not slow (or fast) for a known, harmless reason.

        Left out are profiled steps and those whose time includes a save: kP+1, and kP+2 where saves run in the
        background. The save begins after the time of step kP was taken; in a restored run with P=8 step 17 took 21.0 s
        between neighbours of 3.0 s, and in background mode step kP+2 is absurdly fast (0.01 s), the debt of kP+1.
        """
        period = self.checkpoint_period
        indices: Iterable[int] = range(begin, len(steps))
        if period is not None and period >= _MIN_EXCLUDABLE_PERIOD and self.checkpointing:
            last = 2 if self.asynchronous else 1
            indices = [i for i in indices if not 1 <= steps[i] % period <= last or steps[i] < period]
        if self.profiled:
            indices = [i for i in indices if steps[i] not in self.profiled]
        return list(indices)


def read_plan(attempt: AttemptFacts, series: StepSeries | None) -> RunPlan:
    """Settings from the configuration dump, else the launch arguments.

    What the program prints wins: the arguments often lack ``steps`` (every model file has one of its own), and the
    seed's default period of 200 is the value of one model's file while MaxText's own default is 10000. Without dump and
    argument the period therefore stays unknown: a guess would either invent a checkpoint or write off one that exists.
    """
    arguments = _arguments(attempt.launch_args)
    checkpointing = _flag(attempt.config.get("enable_checkpointing", arguments.get("enable_checkpointing")))
    period = _number(attempt.config.get("checkpoint_period", arguments.get("checkpoint_period")))
    asynchronous = _flag(attempt.config.get("async_checkpointing", arguments.get("async_checkpointing")))
    return RunPlan(
        total_steps=_total_steps(attempt.config, arguments, series),
        checkpointing=checkpointing,
        checkpoint_period=period if period is not None and period > 0 else None,
        asynchronous=asynchronous is not False,
        profiled=_profiled(attempt.config, series),
    )


def _arguments(launch_args: tuple[str, ...]) -> dict[str, str]:
    """``key=value`` arguments by their whole key (``profiler_steps`` is not ``steps``); the last one wins."""
    found: dict[str, str] = {}
    for argument in launch_args:
        match = _ARGUMENT.fullmatch(argument.strip())
        if match is not None:
            found[match[1]] = match[2]
    return found


def _total_steps(config: Mapping[str, str], arguments: Mapping[str, str], series: StepSeries | None) -> int | None:
    """T: the run does steps 0 to T-1. ``steps=-1`` means as many as the learning rate schedule has."""
    for source in (config, arguments):
        steps = _number(source.get("steps"))
        if steps is None:
            continue
        if steps > 0:
            return steps
        schedule = _number(source.get("learning_rate_schedule_steps"))
        return schedule if schedule is not None and schedule > 0 else None
    printed = series.printed_total if series is not None else None
    return printed if printed is not None and printed > 0 else None


def _profiled(config: Mapping[str, str], series: StepSeries | None) -> range:
    """The profiled steps of this run, with the one in which the profile is written."""
    if series is None or series.first_step is None or config.get("profiler", "").strip().lower() in _OFF:
        return range(0)
    skip = _number(config.get("skip_first_n_steps_for_profiler"))
    count = _number(config.get("profiler_steps"))
    if skip is None or count is None or count <= 0:
        return range(0)
    begin = series.first_step + skip
    return range(begin, begin + count + 2)


def _flag(text: str | None) -> bool | None:
    word = (text or "").strip().strip("\"'").lower()
    if word in {"true", "1", "yes"}:
        return True
    if word in {"false", "0", "no"}:
        return False
    return None


def _number(text: str | None) -> int | None:
    """None as well for what no setting can mean: the text comes from a log, and the number is reckoned with."""
    try:
        number = int((text or "").strip().strip("\"'")[:_MAX_CHARS])
    except ValueError:
        return None
    return number if abs(number) <= _MAX_SETTING else None
