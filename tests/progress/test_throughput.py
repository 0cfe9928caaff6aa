"""Throughput: patterns, hints, units, logs that skip steps, and the real slow runs of the corpus."""

from __future__ import annotations

import json
import random
from pathlib import Path
from time import process_time

import pytest

from slurm_triage.model.facts import AttemptFacts
from slurm_triage.progress.project import project
from slurm_triage.progress.throughput import throughput
from tests.progress.builders import CORPUS, KINDS, attempt, fact, judge, read_mxnet, read_series, series


def run_with(*parts: tuple[float, int], width: float = 0.02, seed: int = 1) -> list[float]:
    """A compilation step and then stretches of (seconds, steps) with noise."""
    rng = random.Random(seed)
    return [60.0] + [s * (1 + rng.gauss(0, width)) for s, count in parts for _ in range(count)]


def test_a_drop_in_the_middle_that_recovered_is_found() -> None:
    found = judge(run_with((3.0, 80), (4.0, 30), (3.0, 80)))
    assert (found.degraded, found.pattern, found.from_step, found.to_step) == (True, "phased", 81, 110)
    assert found.change == pytest.approx(-0.25, abs=0.02)
    assert found.slowest == pytest.approx(0.25, abs=0.01)
    assert found.recent == pytest.approx(found.early or 0, rel=0.03)
    assert found.hints == ("slow in steps 81-110 (-24 %), recovered since",)


def test_two_drops_of_different_depth() -> None:
    found = judge(run_with((20.0, 90), (25.0, 120), (20.0, 35), (26.0, 70)))
    assert (found.pattern, found.from_step, found.to_step) == ("phased", 91, 315)
    assert found.change == pytest.approx(1 / 1.3 - 1, abs=0.02)
    assert "91-210 (-20 %), 246-315 (-23 %)" in found.hints[0]


def test_a_creeping_slowdown_is_gradual_from_where_it_began() -> None:
    rng = random.Random(2)
    seconds = [60.0] + [3.0 * (1 + max(0, i - 100) * 0.002 + rng.gauss(0, 0.02)) for i in range(1, 300)]
    found = judge(seconds)
    assert (found.degraded, found.pattern) == (True, "gradual")
    assert found.from_step == pytest.approx(100, abs=15)
    assert found.to_step == 299
    assert found.change == pytest.approx(1 / 1.4 - 1, abs=0.02)


def test_a_drop_after_which_steps_are_erratic_is_one_time() -> None:
    rng = random.Random(3)
    seconds = run_with((3.0, 100)) + [rng.uniform(4.0, 9.0) for _ in range(100)]
    found = judge(seconds)
    assert (found.degraded, found.pattern) == (True, "one-time")
    assert found.from_step == pytest.approx(101, abs=2)


@pytest.mark.parametrize("drop,flagged", [(0.05, False), (0.08, False), (0.13, True), (0.25, True)])
def test_ten_percent_is_the_line(drop: float, flagged: bool) -> None:
    found = judge(run_with((3.0, 100), (3.0 / (1 - drop), 100)))
    assert found.degraded is flagged
    assert found.change == pytest.approx(-drop, abs=0.02)


def test_improvement_is_not_flagged() -> None:
    found = judge(run_with((4.0, 100), (3.0, 100)))
    assert not found.degraded
    assert found.change == pytest.approx(1 / 3, abs=0.05)


def test_rates_are_given_in_the_unit_of_the_log() -> None:
    seconds = run_with((3.0, 50), (4.0, 50))
    run = attempt(series(seconds, rates={i: 9000 / s for i, s in enumerate(seconds)}))
    found = throughput(run, project(run))
    assert (found.unit, found.degraded) == ("tokens/s/device", True)
    assert (found.early, found.recent) == (pytest.approx(3000, rel=0.02), pytest.approx(2250, rel=0.02))


def test_a_unit_where_lower_is_better_keeps_its_sign() -> None:
    seconds = run_with((3.0, 50), (4.0, 50))
    rates = {i: 1000 * s for i, s in enumerate(seconds)}
    run = attempt(series([None] * len(seconds), rates=rates, unit="ms/iteration", higher_is_better=False))
    found = throughput(run, project(run))
    assert (found.early, found.slowest) == (pytest.approx(3000, rel=0.02), pytest.approx(4000, rel=0.02))
    assert (found.degraded, found.from_step) == (True, 51)
    assert found.change == pytest.approx(-0.25, abs=0.02)


def test_lines_without_a_rate_do_not_count_where_others_have_one() -> None:
    """While the batch size is ramped up steps get longer, and no rate is printed."""
    seconds = [60.0] + [1.0 + i * 0.02 for i in range(100)] + run_with((3.0, 40))[1:]
    run = attempt(series(seconds, rates={i: 9000 / seconds[i] for i in range(101, 141)}))
    assert not throughput(run, project(run)).degraded
    assert judge(seconds).degraded, "without any rate the seconds are all there is"


def test_without_rate_and_seconds_the_clocks_of_the_lines_serve() -> None:
    now, times = 1_800_000_000.0, {}
    for step, seconds in enumerate(run_with((3.0, 50), (4.0, 50))):
        now += seconds
        times[step] = now
    run = attempt(series([None] * 101, times=times))
    progress = project(run)
    assert progress.step_time_s == pytest.approx(3.5, abs=0.6)
    assert progress.sum_step_s is None, "what the log does not print is not summed"
    found = throughput(run, progress)
    assert (found.degraded, found.from_step, found.unit) == (True, 51, "steps/s")


def test_a_line_every_50_steps_is_enough() -> None:
    rng = random.Random(6)
    lines = {49 + 50 * i: (3.0 if i < 20 else 4.0) * (1 + rng.gauss(0, 0.01)) for i in range(40)}
    found = judge(lines)
    assert (found.degraded, found.pattern) == (True, "constant")
    assert found.from_step == 49 + 50 * 20


def test_the_first_of_few_lines_may_hold_the_compilation() -> None:
    assert not judge({9: 9.0, 19: 3.0, 29: 3.01, 39: 3.0, 49: 3.02, 59: 3.0}).degraded


def test_restored_and_slower_hints_at_the_restore_leak() -> None:
    seconds = run_with((3.0, 60), (4.0, 60))
    restored = judge(seconds, first=201, facts=[fact("restore", 200)])
    assert any("restored" in hint for hint in restored.hints)
    assert (restored.from_step, restored.degraded) == (201 + 61, True)
    assert not any("restored" in hint for hint in judge(seconds).hints)
    healthy = judge(run_with((3.0, 120)), first=201, facts=[fact("restore", 200)])
    assert healthy.hints == ()


def test_compilation_after_the_first_steps_is_a_hint() -> None:
    seconds = run_with((3.0, 60), (4.0, 60))
    early = fact("compile", seq=5, module="jit_train_step")
    late = fact("compile", seq=605, seen_after=60, module="jit_train_step.7")
    assert judge(seconds, facts=[early]).hints == ()
    assert judge(seconds, facts=[early, late]).hints == (
        "XLA compiled again after step 60 (jit_train_step.7): look for changing shapes",
    )


def test_a_profiler_inside_the_slow_steps_is_a_hint() -> None:
    seconds = run_with((3.0, 60), (4.0, 60))
    assert any("profiler" in hint for hint in judge(seconds, facts=[fact("profiler", 80)]).hints)
    assert judge(seconds, facts=[fact("profiler", 20)]).hints == ()


def test_no_steps_no_throughput() -> None:
    run = attempt()
    found = throughput(run, project(run))
    assert (found.early, found.recent, found.change, found.unit, found.degraded) == (None, None, None, None, False)


@pytest.mark.parametrize("steps", [100_000])
def test_long_runs_are_judged_quickly(steps: int) -> None:
    """Well under 0.1 s; the limit here allows for a busy machine."""
    rng = random.Random(8)
    seconds = [rng.gauss(3.0, 0.06) if i < 70_000 else rng.gauss(4.0, 0.08) for i in range(steps)]
    run = attempt(series(seconds), config={"enable_checkpointing": True, "checkpoint_period": 200})
    progress = project(run)
    best = float("inf")
    for _ in range(3):
        begin = process_time()
        found = throughput(run, progress)
        best = min(best, process_time() - begin)
    assert (found.degraded, found.pattern) == (True, "constant")
    assert found.from_step == pytest.approx(70_000, abs=20)
    assert found.to_step == steps - 1
    assert best < 0.3


def cases(*patterns: str) -> list[Path]:
    return sorted(p.parent for pattern in patterns for p in CORPUS.glob(f"{pattern}/expect.json"))


def judge_rank(run: AttemptFacts) -> tuple[bool, str | None, int | None]:
    found = throughput(run, project(run, fact_kind=KINDS), KINDS)
    return found.degraded, found.pattern, found.from_step


@pytest.mark.parametrize("case", cases("runs/mt-slow-*"), ids=lambda p: p.name)
def test_real_slow_runs(case: Path) -> None:
    """Every rank of the real runs with an injected slowdown shows it, from the step of the injection on."""
    truth = json.loads((case / "expect.json").read_text())
    name = case.name.removeprefix("mt-slow-")
    for rank in read_series(case / "log.txt"):
        degraded, pattern, from_step = judge_rank(attempt(rank))
        assert degraded is truth["throughput_degraded"]
        if "throughput_from_step" in truth:
            assert from_step == pytest.approx(truth["throughput_from_step"], abs=5)
        assert pattern in {"gradual": {"gradual"}, "phased": {"phased"}}.get(name, {"constant", "one-time"})


def test_the_real_phased_run_shows_both_phases() -> None:
    for rank in read_series(CORPUS / "runs/mt-slow-phased/log.txt"):
        run = attempt(rank)
        hint = throughput(run, project(run)).hints[0]
        assert "43-62" in hint
        assert "83-97" in hint


def test_an_excerpt_with_two_phases() -> None:
    """A public report shows eight lines of 320 steps; the first phase had recovered when the second began."""
    (rank,) = read_series(CORPUS / "public/107-tgs-phased-rdma/log.txt")
    run = attempt(rank)
    found = throughput(run, project(run))
    assert (found.degraded, found.pattern, found.from_step, found.to_step) == (True, "phased", 97, 320)
    assert found.early == pytest.approx(3292, rel=0.01)
    assert found.slowest == pytest.approx(2520, rel=0.01)


def test_four_lines_that_could_not_be_plainer() -> None:
    run = attempt(read_mxnet(CORPUS / "public/124-unhealthy-gpu-slow-not-failing/log.txt"))
    found = throughput(run, project(run))
    assert (found.degraded, found.unit) == (True, "samples/s")
    assert found.change == pytest.approx(-0.70, abs=0.01)


def test_real_runs_without_slowdown_are_not_flagged() -> None:
    judged = 0
    for case in cases("launcher/*", "runs/*"):
        if not case.name.startswith("mt-slow-") and (case / "log.txt").exists():
            for rank in read_series(case / "log.txt"):
                assert judge_rank(attempt(rank))[0] is False, case.name
                judged += 1
    assert judged > 60
