"""Healthy training logs put together from step lines of many frameworks and the noise that surrounds them.

``assembled(number)`` is deterministic. What varies with the number: framework, ranks and their labels, time stamps,
colours, step times (jitter, drift of the machine, checkpoints, evaluation, collections of garbage), which noise, where.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from slurm_triage.model.rule import HARMLESS, RuleSet
from tests.healthy.jobs import HERE

CORPUS = HERE.parent / "corpus"
NOISE = HERE / "noise.txt"
#: Healthy logs of the corpus into which noise is put, real frames around real lines.
HOSTS = (
    "launcher/slurm-2N-success",
    "launcher/slurm-steps-from-yaml",
    "launcher/in_container-success",
    "runs/mtold-success",
    "runs/mtold-4rank-success",
    "runs/mt-ckpt-restore-success",
)
PHASES = ("start", "training", "end")
#: Local time, as programs print it.
START = datetime(2026, 11, 30, 2, 0, 0).astimezone()
#: Clocks in noise are set to the time of the lines around them.
_STAMPS = (
    (re.compile(r"\b2026-11-30 \d\d:\d\d:\d\d"), "%Y-%m-%d %H:%M:%S"),
    (re.compile(r"(?<=\b[IWEF])\d{4} (?!00:00:1)\d\d:\d\d:\d\d"), "%m%d %H:%M:%S"),
)
_EPOCH = re.compile(r"(?<= 00:00:)179600\d{4}(?=\.)")
#: Rules about a step or job being stopped. Their lines blame nobody, but a healthy run does not end with them.
STOPPING = frozenset(
    {"harmless-terminating-step", "harmless-srun-ends-step", "harmless-step-cancelled", "torchrun-own-exception"}
)


@dataclass(frozen=True)
class Assembled:
    """``seconds``: how long the job ran. ``ended``: False for a log that simply is that of a running job."""

    name: str
    text: str
    seconds: float
    accounting: dict[str, object] | None = None


def noise_blocks() -> dict[str, list[list[str]]]:
    """Phase -> blocks of lines, from noise.txt."""
    blocks: dict[str, list[list[str]]] = {phase: [] for phase in PHASES}
    phase = ""
    for paragraph in NOISE.read_text().split("\n\n"):
        lines = [line for line in paragraph.strip("\n").split("\n") if not line.startswith("# ")]
        if lines and re.fullmatch(r"\[\w+\]", lines[0]) and lines[0][1:-1] in blocks:
            phase = lines.pop(0)[1:-1]
        if lines and any(line.strip() for line in lines):
            blocks[phase].append(lines)
    return blocks


def harmless_samples(ruleset: RuleSet) -> list[list[str]]:
    """Every matching sample of every harmless rule in force that needs no other line beside it."""
    return [
        sample.split("\n")
        for rule in ruleset.rules
        if rule.cls == HARMLESS and not rule.requires and rule.id not in STOPPING
        for sample in rule.samples_match
    ]


def assembled(number: int, ruleset: RuleSet) -> Assembled:
    """The healthy log with this number."""
    rng = random.Random(number)
    noise = _Noise(rng, noise_blocks(), harmless_samples(ruleset))
    if number % 4 == 3:
        return _with_noise(HOSTS[number // 4 % len(HOSTS)], number, rng, noise)
    framework, writer = _FRAMEWORKS[number // 4 % len(_FRAMEWORKS)]
    ranks = rng.choice((1, 1, 2, 4, 8))
    steps = rng.choice((30, 60, 120, 300))
    times = step_times(rng, steps)
    lines: list[str] = [*noise.of("start", 1 + number % 6, 1.0)]
    now = 20.0
    per_step = max(1, steps // 8)
    for step, taken in enumerate(times):
        now += taken
        for rank in range(ranks):
            lines.extend(_label(text, rank, ranks) for text in writer(_Step(step, steps, taken, now, rank)))
        if step % per_step == 1 and step < steps - 3:
            lines.extend(noise.of("training", 1, now))
    lines.extend(noise.of("end", number % 3, now + 5))
    text = "\n".join(lines) + "\n"
    return Assembled(f"{number:03}-{framework}-{ranks}", text, now + 10)


class _Noise:
    def __init__(self, rng: random.Random, blocks: dict[str, list[list[str]]], samples: list[list[str]]) -> None:
        self._rng, self._blocks, self._samples = rng, blocks, samples

    def of(self, phase: str, count: int, now: float | None) -> Iterator[str]:
        """``now``: seconds since the start, or None where the lines around carry no clock."""
        for _ in range(count):
            pool = self._samples if self._rng.random() < 0.3 else self._blocks[phase]
            for line in self._rng.choice(pool):
                yield line if now is None else _stamped(line, now)


def _stamped(line: str, now: float) -> str:
    for pattern, form in _STAMPS:
        line = pattern.sub(_clock(now, form), line)
    return _EPOCH.sub(str(int(START.timestamp() + now)), line)


def _with_noise(host: str, number: int, rng: random.Random, noise: _Noise) -> Assembled:
    """A real healthy log of the corpus with noise between its lines."""
    folder = CORPUS / host
    lines = (folder / "log.txt").read_bytes().decode(errors="replace").split("\n")
    steps = [i for i, line in enumerate(lines) if "completed step: " in line]
    places = {
        "start": (next((i for i, line in enumerate(lines) if "JOB_ID=" in line), 0) + 40, steps[0] - 1),
        "training": (steps[0], steps[-4]),
        "end": (steps[-1] + 1, steps[-1] + 1),
    }
    label = re.match(r" *\d+: ", lines[steps[0]])
    for phase in ("end", "training", "start"):
        low, high = places[phase]
        for _ in range(1 + number % 3):
            at = rng.randint(low, max(low, high))
            block = [line for line in noise.of(phase, 1, None) if not _has_clock(line)]
            lines[at:at] = [(label[0] if label else "") + text for text in block]
    record = folder / "accounting.json"
    accounting = json.loads(record.read_text()) if record.exists() else None
    return Assembled(f"{number:03}-{host.replace('/', '-')}", "\n".join(lines), 600.0, accounting)


def _has_clock(line: str) -> bool:
    return any(pattern.search(line) for pattern, _ in _STAMPS) or _EPOCH.search(line) is not None


def _label(text: str, rank: int, ranks: int) -> str:
    return f"{rank:>{len(str(ranks - 1))}}: {text}" if ranks > 1 else text


def step_times(rng: random.Random, steps: int) -> list[float]:
    """Seconds per step of a healthy run: jitter that is partly correlated, slow first steps, periodic and rare spikes."""
    base = rng.choice((0.3, 1.2, 9.0, 31.0))
    spread = rng.choice((0.002, 0.01, 0.03, 0.06))
    memory = rng.choice((0.0, 0.5))
    period = rng.choice((0, 10, 25, 50))
    cost = rng.choice((0.5, 3.0, 10.0))
    drift, times = 0.0, []
    for step in range(steps):
        drift = memory * drift + rng.gauss(0, spread)
        taken = base * math.exp(drift)
        if step < 2:
            taken += base * rng.uniform(2, 30)
        if period and step % period == 1 and step > 1:
            taken += base * cost
        if rng.random() < 0.01:
            taken *= rng.uniform(1.5, 6)
        times.append(taken)
    return times


def _clock(now: float, form: str) -> str:
    return (START + timedelta(seconds=now)).strftime(form)


@dataclass(frozen=True)
class _Step:
    """One completed step of one rank; ``now`` is in seconds since the start, ``left`` falls from 1 to 0."""

    number: int
    total: int
    taken: float
    now: float
    rank: int

    @property
    def loss(self) -> float:
        return 9 - self.number / self.total

    def clock(self, form: str) -> str:
        return _clock(self.now, form)


def _maxtext(step: _Step) -> Sequence[str]:
    config = f"Config param steps: {step.total}"
    return (config, _maxtext_line(step)) if step.number == 0 else (_maxtext_line(step),)


def _maxtext_line(step: _Step) -> str:
    return (
        f"completed step: {step.number}, seconds: {step.taken:.3f}, TFLOP/s/device: {900 / step.taken:.3f}, "
        f"Tokens/s/device: {32768 / step.taken:.3f}, total_weights: 65536, loss: {step.loss:.3f}"
    )


def _maxtext_absl(step: _Step) -> Sequence[str]:
    thread = 140000 + step.rank
    config = f"I{_clock(0, '%m%d %H:%M:%S.%f')} {thread} pyconfig.py:591] Config param steps: {step.total}"
    line = f"I{step.clock('%m%d %H:%M:%S.%f')} {thread} metric_logger.py:265] {_maxtext_line(step)}"
    return (config, line) if step.number == 0 else (line,)


def _megatron(step: _Step) -> Sequence[str]:
    if step.rank:
        return ()
    return (
        f" [{step.clock('%Y-%m-%d %H:%M:%S')}] iteration {step.number + 1:8}/{step.total:8} | "
        f"consumed samples: {step.number * 64:12} | elapsed time per iteration (ms): {step.taken * 1000:.1f} | "
        f"throughput per GPU (TFLOP/s/GPU): {400 / step.taken:.1f} | learning rate: 1.0E-04 | global batch size: 64 | "
        f"lm loss: {step.loss:.6E} | loss scale: 1.0 | grad norm: 0.512 | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |",
    )


def _trainer(step: _Step) -> Sequence[str]:
    done = step.number + 1
    if step.rank or done % 5:
        return ()
    rate = f"{1 / step.taken:5.2f}it/s" if step.taken < 1 else f"{step.taken:5.2f}s/it"
    minutes, seconds = divmod(int(step.now), 60)
    share = done / step.total
    return (
        f"\r{share * 100:3.0f}%|####      | {done}/{step.total} [{minutes:02}:{seconds:02}<00:10, {rate}]",
        f"{{'loss': {step.loss:.4f}, 'grad_norm': 1.2, 'learning_rate': 1e-05, 'epoch': {share:.2f}}}",
    )


def _torchtitan(step: _Step) -> Sequence[str]:
    return (
        f"[rank{step.rank}]:[titan] {step.clock('%Y-%m-%d %H:%M:%S,%f')[:-3]} - root - INFO - "
        f"\x1b[31mstep: {step.number + 1:2}  \x1b[32mloss: {step.loss:7.4f}  \x1b[33mmemory: 40.07GiB(51.55%)  "
        f"\x1b[34mtps: {8192 / step.taken:,.0f}  \x1b[36mtflops: {300 / step.taken:.2f}  \x1b[35mmfu: 31.00%\x1b[39m",
    )


def _deepspeed(step: _Step) -> Sequence[str]:
    if step.rank:
        return ()
    stamp, done, rate = step.clock("%Y-%m-%d %H:%M:%S,%f")[:-3], step.number + 1, 64 / step.taken
    return (
        f"[{stamp}] [INFO] [logging.py:107:log_dist] [Rank 0] step={done}, skipped=0, lr=[1e-05], mom=[(0.9, 0.95)]",
        f"[{stamp}] [INFO] [timer.py:264:stop] epoch=0/micro_step={done}/global_step={done}, "
        f"RunningAvgSamplesPerSec={rate:.3f}, CurrSamplesPerSec={rate:.3f}, MemAllocated=12.3GB, MaxMemAllocated=31.0GB",
    )


def _plain(step: _Step) -> Sequence[str]:
    when = step.clock("%H:%M:%S")
    return (f"{when} rank {step.rank:03}: step {step.number} loss {step.loss:.3f} time {step.taken:.2f}s",)


_Writer = Callable[[_Step], Sequence[str]]
_FRAMEWORKS: tuple[tuple[str, _Writer], ...] = (
    ("maxtext", _maxtext),
    ("maxtext-absl", _maxtext_absl),
    ("megatron", _megatron),
    ("hf-trainer", _trainer),
    ("torchtitan", _torchtitan),
    ("deepspeed", _deepspeed),
    ("plain", _plain),
)
