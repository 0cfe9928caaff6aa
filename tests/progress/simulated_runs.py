"""Step times of simulated runs: healthy ones with everything that healthy runs do, and ones with a known slowdown."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class SimulatedRun:
    """Seconds per step, from step 0, and the settings that the log would show."""

    seconds: list[float]
    config: dict[str, str]


def _noise(rng: random.Random, kind: str, width: float) -> float:
    """A factor around 1."""
    if kind == "gaussian":
        return math.exp(rng.gauss(0, width))
    if kind == "student":
        # Student's t with 3 degrees of freedom: the classic heavy tail.
        chi = sum(rng.gauss(0, 1) ** 2 for _ in range(3))
        return math.exp(width * max(-6.0, min(12.0, rng.gauss(0, 1) / math.sqrt(chi / 3))))
    # Waiting for the slowest of many ranks: only ever slower.
    return 1.0 + rng.expovariate(1.0 / width)


def healthy(rng: random.Random) -> SimulatedRun:
    """One healthy run of 5 to 3000 steps."""
    steps = rng.choice([5, 12, 15, 20, 25, 26, 30, 40, 60, 100, 150, 300, 600, 1000, 3000])
    base = 10 ** rng.uniform(-1, 1.5)
    kind = rng.choice(["gaussian", "student", "slowest-rank"])
    width = rng.choice([0.001, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.4])
    seconds = [base * _noise(rng, kind, width) for _ in range(steps)]
    if rng.random() < 0.3:
        # What one step suffers the next suffers too: neighbours on the network, a warm file cache.
        memory, lasting, factor = rng.uniform(0.5, 0.9), rng.uniform(0.002, 0.03), 0.0
        for i in range(steps):
            factor = memory * factor + rng.gauss(0, lasting * math.sqrt(1 - memory * memory))
            seconds[i] *= math.exp(factor)
    config = {"steps": str(steps), "enable_checkpointing": "False"}

    if rng.random() < 0.5:
        warm_up, excess = rng.randint(20, 50), rng.uniform(0.1, 1.5)
        seconds = [s * (1 + excess * math.exp(-4 * i / warm_up)) for i, s in enumerate(seconds)]
    if rng.random() < 0.5:
        drift = rng.uniform(-0.05, 0.05)
        seconds = [s * (1 + drift * i / steps) for i, s in enumerate(seconds)]
    if rng.random() < 0.4:
        # Slow waves, as from neighbours on a shared file system: correlated, but small.
        wave, swing, phase = rng.uniform(10, 200), rng.uniform(0, 0.03), rng.uniform(0, 6.3)
        seconds = [s * (1 + swing * math.sin(phase + 2 * math.pi * i / wave)) for i, s in enumerate(seconds)]
    if rng.random() < 0.5:
        period = rng.choice([10, 25, 50, 100, 200])
        visible = rng.random() < 0.7
        asynchronous = rng.random() < 0.5
        if visible:
            config |= {"enable_checkpointing": "True", "checkpoint_period": str(period)}
            config |= {"async_checkpointing": str(asynchronous)}
        cost = base * rng.uniform(1, 30)
        for k in range(period, steps, period):
            if k + 1 < steps:
                seconds[k + 1] += cost * rng.uniform(0.7, 1.3)
            if asynchronous and k + 2 < steps:
                seconds[k + 2] *= rng.uniform(0.05, 1.5)
    if rng.random() < 0.5:
        for i in range(steps):
            if rng.random() < 0.01:
                seconds[i] *= rng.uniform(1.3, 20)
    if rng.random() < 0.4:
        period, pause = rng.choice([20, 50, 100, 250]), rng.randint(1, 2)
        for k in range(period, steps, period):
            for i in range(k, min(steps, k + pause)):
                seconds[i] *= rng.uniform(1.5, 4)
    seconds[0] += base * rng.uniform(1, 60)
    if rng.random() < 0.5 and steps > 2:
        seconds[1] *= 0.05
        seconds[2] *= 1.9
    return SimulatedRun(seconds, config)
