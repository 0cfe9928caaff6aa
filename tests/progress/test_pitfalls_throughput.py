"""Pitfalls of throughput (group E)."""

from __future__ import annotations

import random

import pytest

from slurm_triage.progress.project import project
from slurm_triage.progress.throughput import throughput
from tests.progress.builders import attempt, judge, series


def noisy(rng: random.Random, seconds: float, count: int, width: float = 0.02) -> list[float]:
    return [seconds * (1 + rng.gauss(0, width)) for _ in range(count)]


@pytest.mark.parametrize("steps", range(1, 29))
def test_e1_no_verdict_on_short_runs(steps: int) -> None:
    """Up to 24 steps behind the warm-up nothing is said, however bad it looks."""
    found = judge([60.0] + [3.0] * (steps // 2) + [6.0] * (steps - steps // 2))
    assert (found.degraded, found.pattern) == (False, None)


def test_e1_early_and_recent_are_given_all_the_same_and_do_not_overlap() -> None:
    found = judge([60.0] + [3.0] * 11 + [6.0] * 7)
    assert (found.early, found.recent) == (pytest.approx(1 / 3), pytest.approx(1 / 6))
    assert found.change == pytest.approx(-0.5)
    assert not found.degraded


def test_e1_windows_of_a_15_step_run_are_disjoint() -> None:
    found = judge([60.0] + [3.0] * 9 + [6.0] * 5)
    assert (found.early, found.recent) == (pytest.approx(1 / 3), pytest.approx(1 / 6))


def test_e2_a_lasting_drop_of_28_percent_is_found() -> None:
    rng = random.Random(1)
    found = judge([60.0, *noisy(rng, 3.0, 24), *noisy(rng, 3.0 / 0.72, 25)])
    assert (found.degraded, found.pattern, found.from_step, found.to_step) == (True, "constant", 25, 49)
    assert found.change == pytest.approx(-0.28, abs=0.02)


def test_e2_checkpoint_and_profiler_steps_are_left_out() -> None:
    """Saves in the last ten steps, a profile in the early ones: neither window sees them."""
    seconds = [3.0] * 64
    for k in range(4, 64, 4):
        seconds[k - 1] = 3.1
    for k in (55, 60):
        seconds[k + 1] = 20.0
    for i in range(8, 13):
        seconds[i] = 9.0
    config = {
        "enable_checkpointing": True,
        "checkpoint_period": 5,
        "async_checkpointing": False,
        "profiler": "xplane",
        "skip_first_n_steps_for_profiler": 8,
        "profiler_steps": 3,
    }
    found = judge(seconds, config=config)
    assert (found.early, found.recent, found.degraded) == (pytest.approx(1 / 3), pytest.approx(1 / 3), False)


def test_e2_four_slow_steps_at_the_end_are_not_sustained() -> None:
    assert not judge([60.0] + [3.0] * 60 + [4.5] * 4).degraded
    assert judge([60.0] + [3.0] * 60 + [4.5] * 9).degraded


def test_e3_one_slow_step_is_no_degradation() -> None:
    for at in (20, 40, 58, 59):
        seconds = [60.0] + [3.0] * 59
        seconds[at] = 300.0
        assert not judge(seconds).degraded


@pytest.mark.parametrize("period", [5, 7, 10, 25, 50])
def test_e3_periodic_spikes_are_named_and_not_flagged(period: int) -> None:
    rng = random.Random(period)
    seconds = [60.0, *noisy(rng, 3.0, 299)]
    for k in range(period, 300, period):
        seconds[k] = 30.0
    found = judge(seconds, config={"enable_checkpointing": False})
    assert (found.degraded, found.pattern) == (False, "periodic")
    assert f"every {period} steps" in found.hints[0]


@pytest.mark.parametrize(
    "config,cause",
    [
        ({"enable_checkpointing": True, "checkpoint_period": 50}, "checkpoints"),
        ({"enable_checkpointing": False, "checkpoint_period": 50, "eval_interval": 50}, "evaluation"),
        ({"log_period": 50}, "logging"),
    ],
)
def test_e3_the_period_is_explained(config: dict[str, object], cause: str) -> None:
    seconds = [60.0] + [3.0] * 299
    for k in range(50, 299, 50):
        seconds[k + 1] = 30.0
    found = judge(seconds, config=config)
    assert found.pattern == "periodic"
    assert cause in found.hints[0]
    assert "expected" in found.hints[0]


def test_e3_background_writes_right_after_each_save_are_expected() -> None:
    """The write goes on for 15 steps after each save and slows them by 30 %; then the run is itself again."""
    rng = random.Random(3)
    seconds = [60.0, *noisy(rng, 3.0, 599)]
    for k in range(100, 600, 100):
        for i in range(k + 1, k + 16):
            seconds[i] *= 1.3
    saving = judge(seconds, config={"enable_checkpointing": True, "checkpoint_period": 100})
    assert (saving.degraded, saving.pattern) == (False, "periodic")
    assert judge(seconds, config={"enable_checkpointing": False}).degraded, "without saves the same is a slowdown"


def test_e4_a_slow_start_is_no_improvement_and_hides_no_drop() -> None:
    rng = random.Random(4)
    warming = [3.0 * (1 + 0.8 * 0.9**i) for i in range(40)]
    healthy = judge([60.0, *warming, *noisy(rng, 3.0, 100)])
    assert not healthy.degraded
    dropped = judge([60.0, *warming, *noisy(rng, 3.0, 60), *noisy(rng, 3.0 / 0.75, 40)])
    assert (dropped.degraded, dropped.from_step) == (True, 101)
    assert dropped.change == pytest.approx(-0.25, abs=0.02)


def test_e5_jitter_between_ranks_is_no_phase() -> None:
    """Ranks print slightly different seconds; only one rank is looked at."""
    rng = random.Random(5)
    ranks = [series([60.0, *noisy(rng, 3.0 + 0.2 * (rank % 2), 200)], rank=rank) for rank in range(4)]
    run = attempt(*ranks)
    assert not throughput(run, project(run)).degraded


def test_e6_only_steps_of_the_same_run_are_compared() -> None:
    """A batch twice as large takes twice as long: the earlier attempt's steps play no part."""
    first, second = attempt(series([3.0] * 50)), attempt(series([6.0] * 50, first=50), index=1)
    assert not throughput(first, project(first)).degraded
    found = throughput(second, project(second))
    assert (found.degraded, found.early, found.recent) == (False, pytest.approx(1 / 6), pytest.approx(1 / 6))


def test_e7_a_missing_tail_shortens_but_does_not_bias() -> None:
    rng = random.Random(7)
    seconds = [60.0, *noisy(rng, 3.0, 60), *noisy(rng, 4.0, 60)]
    whole, cut = judge(seconds), judge(seconds[:-20])
    assert (cut.degraded, cut.from_step) == (whole.degraded, whole.from_step) == (True, 61)
    assert cut.change == pytest.approx(whole.change or 0, abs=0.01)
    assert not judge(seconds[:61]).degraded, "the log lost the slow part: no verdict, not a wrong one"
