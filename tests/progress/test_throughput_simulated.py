"""False alarms and power of the throughput verdict on simulated runs, at fixed seeds."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from slurm_triage.model.progress import Throughput
from tests.progress.builders import judge
from tests.progress.simulated_runs import healthy


@pytest.mark.parametrize("block", range(8))
def test_healthy_runs_are_never_flagged(block: int) -> None:
    """2400 runs that show every step."""
    for seed in range(300 * block, 300 * (block + 1)):
        run = healthy(random.Random(seed))
        assert not judge(run.seconds, config=run.config).degraded, f"seed {seed}"


@pytest.mark.parametrize("block", range(2))
def test_healthy_runs_that_log_every_nth_step_are_never_flagged(block: int) -> None:
    """600 runs whose lines average over 5 to 50 steps."""
    for seed in range(300 * block, 300 * (block + 1)):
        rng = random.Random(seed)
        seconds = healthy(rng).seconds
        n = rng.choice([5, 10, 20, 50])
        lines = {k + n - 1: sum(seconds[k : k + n]) / n for k in range(0, len(seconds) - n + 1, n)}
        assert not judge(lines).degraded, f"seed {seed}"


def test_healthy_excerpts_are_never_flagged() -> None:
    """400 times 4 to 24 lines picked from a healthy run."""
    for seed in range(400):
        rng = random.Random(seed)
        seconds = healthy(rng).seconds
        shown = sorted(rng.sample(range(len(seconds)), min(len(seconds), rng.randint(4, 24))))
        assert not judge({step: seconds[step] for step in shown}).degraded, f"seed {seed}"


def slowed(rng: random.Random, pattern: str) -> tuple[list[float], int, float]:
    """(seconds, first slow step, drop) of a run with a 20-30 % slowdown, noise up to 5 % and spikes up to 10-fold."""
    steps = rng.choice([60, 100, 300, 1000, 3000])
    width, drop = rng.choice([0.002, 0.01, 0.02, 0.05]), rng.uniform(0.2, 0.3)
    base, factor = 10 ** rng.uniform(-1, 1.5), 1 / (1 - drop)
    seconds = [base * math.exp(rng.gauss(0, width)) for _ in range(steps)]
    if pattern == "constant":
        at = rng.randint(25, steps - 15)
        slow = dict.fromkeys(range(at, steps), factor)
    elif pattern == "gradual":
        at = rng.randint(15, steps // 2)
        slow = {i: 1 + (factor - 1) * (i - at) / (steps - at) for i in range(at, steps)}
    else:
        length = max(12, steps // 10)
        at = rng.randint(20, max(20, steps - 2 * length - 20))
        again = at + length + max(10, length // 2)
        slow = dict.fromkeys(range(at, at + length), factor)
        if rng.random() < 0.5:
            slow |= dict.fromkeys(range(again, min(steps, again + length)), factor)
    for step, times in slow.items():
        seconds[step] *= times
    for step in range(steps):
        if rng.random() < 0.01:
            seconds[step] *= rng.uniform(1.5, 10)
    seconds[0] += 30 * base
    return seconds, at, drop


@pytest.mark.parametrize("pattern", ["constant", "phased", "gradual"])
def test_real_slowdowns_are_found_with_their_pattern_and_place(pattern: str) -> None:
    """At least 99 % found, 95 % with the right pattern, magnitude within a few points, place within a few steps."""
    found: list[tuple[Throughput, int, int, float]] = []
    runs = 200
    for seed in range(runs):
        seconds, at, drop = slowed(random.Random(seed), pattern)
        verdict = judge(seconds)
        if verdict.degraded:
            found.append((verdict, at, len(seconds), drop))
    assert len(found) >= 0.99 * runs
    patterns = Counter(v.pattern for v, *_ in found)
    assert patterns[pattern] >= 0.95 * runs, patterns
    right = [row for row in found if row[0].pattern == pattern]
    # Where a slope leaves the noise is blurred by nature: a tenth of the run.
    near = [abs((v.from_step or 0) - at) <= (0.1 * steps if pattern == "gradual" else 3) for v, at, steps, _ in right]
    assert sum(near) >= 0.95 * len(right)
    assert all(abs((v.change or 0) + drop) < 0.06 for v, _, _, drop in right)
