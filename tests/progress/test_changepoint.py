"""Levels, jumps and slopes against exhaustive search."""

from __future__ import annotations

import random
from itertools import combinations, pairwise
from math import log

import pytest

from slurm_triage.progress.changepoint import best_ramp, best_step, levels, noise_of


def spread(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return sum((v - mean) ** 2 for v in values)


@pytest.mark.parametrize("seed", range(12))
def test_levels_are_the_cheapest_partition(seed: int) -> None:
    rng = random.Random(seed)
    values = [rng.gauss(rng.choice([0.0, 1.0]), 0.3) for _ in range(5)] + [rng.gauss(0.8, 0.2) for _ in range(6)]
    noise = 0.2
    price = 6.0 * noise * noise * log(len(values))

    def cost(cuts: tuple[int, ...]) -> float:
        bounds = [0, *cuts, len(values)]
        return sum(spread(values[a:b]) for a, b in pairwise(bounds)) + price * len(cuts)

    allowed = [
        cuts
        for count in range(5)
        for cuts in combinations(range(2, len(values) - 1), count)
        if all(b - a >= 2 for a, b in zip((0, *cuts), (*cuts, len(values)), strict=True))
    ]
    ranges = levels(values, noise)
    assert [a for a, _ in ranges][1:] == [b for _, b in ranges][:-1]
    assert (ranges[0][0], ranges[-1][1]) == (0, len(values))
    assert cost(tuple(a for a, _ in ranges[1:])) == pytest.approx(min(map(cost, allowed)))


def test_too_few_values_are_one_level() -> None:
    assert levels([], 0.1) == []
    assert levels([1.0, 9.0, 9.0], 0.1) == [(0, 3)]


@pytest.mark.parametrize("seed", range(8))
def test_best_step_and_ramp_against_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    values = [rng.gauss(0, 1) + max(0, i - 12) * 0.3 for i in range(30)]
    at, error = best_step(values)
    assert error == pytest.approx(min(spread(values[:k]) + spread(values[k:]) for k in range(1, 30)))
    assert error == pytest.approx(spread(values[:at]) + spread(values[at:]))

    def ramp(k: int) -> tuple[float, float]:
        x = [max(0, i - k) for i in range(30)]
        mx, my = sum(x) / 30, sum(values) / 30
        vxx, vxy = sum((a - mx) ** 2 for a in x), sum((a - mx) * (b - my) for a, b in zip(x, values, strict=True))
        return spread(values) - vxy * vxy / vxx, vxy / vxx

    at, error, slope = best_ramp(values)
    assert error == pytest.approx(min(ramp(k)[0] for k in range(28)))
    assert (error, slope) == (pytest.approx(ramp(at)[0]), pytest.approx(ramp(at)[1]))


def test_noise_is_blind_to_levels() -> None:
    rng = random.Random(1)
    values = [rng.gauss(0, 0.1) for _ in range(200)] + [rng.gauss(5, 0.1) for _ in range(200)]
    assert noise_of(values, 0.0) == pytest.approx(0.1, rel=0.2)
    assert noise_of([1.0] * 50, 0.02) == 0.02
    assert noise_of([], 0.02) == 0.02
