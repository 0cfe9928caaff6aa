"""Facts of an attempt, written as shortly as a test can read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from slurm_triage.model.facts import AttemptFacts, Match, Place, Step, StepSeries, Summary
from slurm_triage.model.files import CheckpointDir, JobFiles, LogFile
from slurm_triage.model.progress import Throughput
from slurm_triage.progress.project import project
from slurm_triage.progress.throughput import throughput

#: Kinds of fact by rule id, as the rule packs would say.
KINDS = {
    kind: kind
    for kind in ("restore", "fresh_start", "checkpoint_started", "checkpoint_saved", "compile", "profiler", "eval")
}

CORPUS = Path(__file__).parents[1] / "corpus"


def series(
    seconds: Sequence[float | None] | Mapping[int, float | None],
    *,
    first: int = 0,
    rank: int | None = 0,
    file: int = 0,
    rates: Mapping[int, float] | None = None,
    losses: Mapping[int, float] | None = None,
    times: Mapping[int, float] | None = None,
    unit: str = "tokens/s/device",
    higher_is_better: bool = True,
    printed_total: int | None = None,
    dialect: str = "maxtext",
) -> StepSeries:
    """Steps of one rank: seconds of consecutive steps from ``first`` on, or seconds by step."""
    by_step = seconds if isinstance(seconds, Mapping) else dict(enumerate(seconds, first))
    steps = tuple(
        Step(step, value, (rates or {}).get(step), (losses or {}).get(step), (times or {}).get(step), seq=10 * step)
        for step, value in by_step.items()
    )
    return StepSeries(rank, file, dialect, unit, steps, printed_total=printed_total, higher_is_better=higher_is_better)


def clocked(seconds: Sequence[float], begin: float, *, first: int = 0, rank: int | None = 0) -> StepSeries:
    """Steps whose lines carry a clock; the first one begins at ``begin``."""
    now, times = begin, {}
    for step, value in enumerate(seconds, first):
        now += value
        times[step] = now
    return series(seconds, first=first, rank=rank, times=times)


def attempt(
    *all_series: StepSeries,
    config: Mapping[str, object] | None = None,
    args: Sequence[str] = (),
    facts: Iterable[Match] = (),
    wall_s: float | None = None,
    success: bool = False,
    index: int = 0,
    start_time: float | None = None,
    end_time: float | None = None,
    **more: object,
) -> AttemptFacts:
    summaries = (Summary(success, 0 if success else 1, None, wall_s, None, 0),) if wall_s is not None else ()
    return AttemptFacts(
        index=index,
        series=all_series,
        config={k: str(v) for k, v in (config or {}).items()},
        launch_args=tuple(args),
        facts=tuple(facts),
        summaries=summaries,
        start_time=start_time,
        end_time=end_time,
        **more,  # type: ignore[arg-type]
    )


def fact(kind: str, step: int | None = None, *, seq: int = 0, seen_after: int | None = None, **captures: str) -> Match:
    """A fact whose rule is named like its kind; ``seen_after`` is the last step logged before it."""
    place = Place(0, seq, f"{kind} {step}")
    named = {**captures} if step is None else {"step": str(step), **captures}
    return Match(kind, 0, None, 1, place, place, seq, seq, step=seen_after, captures=named)


def files(*roles: str, checkpoints: Iterable[tuple[int, bool]] = ()) -> JobFiles:
    """Log files by role (``primary``, ``ray-worker``), named after it, and checkpoint directories (step, committed)."""
    logs = tuple(LogFile(f"{role}-{i}", role) for i, role in enumerate(roles))  # type: ignore[arg-type]
    return JobFiles(logs=logs, checkpoints=tuple(CheckpointDir(s, done, f"ckpt/{s}") for s, done in checkpoints))


def judge(
    seconds: Sequence[float | None] | Mapping[int, float | None],
    *,
    first: int = 0,
    config: Mapping[str, object] | None = None,
    facts: Iterable[Match] = (),
) -> Throughput:
    """Throughput of a run with these step times."""
    run = attempt(series(seconds, first=first), config=config, facts=facts)
    return throughput(run, project(run, fact_kind=KINDS), KINDS)


_STEP = re.compile(
    rb"completed step:\s*(\d+),\s*seconds:\s*([\d.]+)(?:(?:(?!completed step).)*?Tokens/s/device:\s*([\d.]+))?"
)
_MXNET = re.compile(rb"Batch \[(\d+)\]\s+Speed: ([\d.]+)")
_LABEL = re.compile(rb" *(\d+): ")


def read_series(log: Path) -> list[StepSeries]:
    """Step lines of a real log, per rank, found without the engine's own reader."""
    ranks: dict[int | None, dict[int, tuple[float, float | None]]] = {}
    for line in log.read_bytes().splitlines():
        label = _LABEL.match(line)
        rank = int(label[1]) if label else None
        for match in _STEP.finditer(line):
            rate = float(match[3]) if match[3] else None
            ranks.setdefault(rank, {})[int(match[1])] = (float(match[2]), rate)
    return [
        series(
            {step: seconds for step, (seconds, _) in steps.items()},
            rank=rank,
            rates={step: rate for step, (_, rate) in steps.items() if rate},
        )
        for rank, steps in ranks.items()
    ]


def read_mxnet(log: Path) -> StepSeries:
    """``Batch [20] Speed: 2015.42 samples/sec`` lines; the batch number starts again with every epoch."""
    rates, step, previous = {}, 0, 0
    for match in _MXNET.finditer(log.read_bytes()):
        batch = int(match[1])
        step += batch - previous if batch > previous else batch
        previous = batch
        rates[step] = float(match[2])
    return series(dict.fromkeys(rates), rates=rates, unit="samples/s", rank=None, dialect="mxnet")
