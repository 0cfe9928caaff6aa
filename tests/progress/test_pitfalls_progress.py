"""Pitfalls of progress arithmetic (group D), and those of groups A, C and F that concern it."""

from __future__ import annotations

import math

import pytest

from slurm_triage.model.job import Job
from slurm_triage.progress.project import project
from slurm_triage.progress.silence_limit import is_stalled, silence_limit_s
from slurm_triage.progress.throughput import throughput
from tests.progress.builders import KINDS, attempt, clocked, fact, files, series

START = 1_800_000_000.0
SAVING = {"enable_checkpointing": True, "checkpoint_period": 10}


def test_a1_the_sum_is_that_of_one_rank() -> None:
    three = [60.0, 3.0, 3.0]
    found = project(attempt(series(three, rank=0), series([60.0, 3.0], rank=1), series(three, rank=2)))
    assert found.sum_step_s == 66.0
    assert (found.last_step, found.last_step_min) == (2, 1)
    assert [(r.rank, r.first, r.last) for r in found.ranks] == [(0, 0, 2), (1, 0, 1), (2, 0, 2)]


def test_a1_the_lowest_rank_with_most_steps_is_the_reference() -> None:
    found = project(attempt(series([1.0, 9.0], rank=0), series([1.0, 2.0, 3.0], rank=3), series([5.0] * 3, rank=2)))
    assert found.sum_step_s == 15.0


def test_a3_several_processes_of_a_node_are_one_rank() -> None:
    """Two series of the same rank (two files, or two processes that the reader kept apart) are not added up."""
    found = project(attempt(series([60.0, 3.0, 3.0], rank=0), series([60.0, 3.1, 3.0], rank=0, file=1)))
    assert found.sum_step_s == 66.0
    assert [(r.rank, r.last) for r in found.ranks] == [(0, 2)]


def test_c9_the_gap_of_a_hang_killed_by_scancel() -> None:
    wall = 3600 + 12 * 60 + 3
    run = attempt(series([30.0] * 10), config={"steps": 100}, wall_s=wall)
    found = project(run)
    assert found.unaccounted_s == pytest.approx(67 * 60 + 3)
    assert (found.silence_s, found.silence_basis) == (pytest.approx(wall - 300 - 1800), "arithmetic")
    assert is_stalled(found)


def test_c9_a_short_job_is_never_silent_by_arithmetic_alone() -> None:
    found = project(attempt(series([3.0] * 6), wall_s=29 * 60.0))
    assert found.silence_s == 0.0
    assert not is_stalled(found)


def test_c9_setup_of_healthy_runs_replaces_the_general_allowance() -> None:
    run = attempt(series([3.0] * 10), wall_s=25 * 60.0)
    assert project(run, setup_allowance_s=300.0).silence_s == pytest.approx(25 * 60 - 300 - 30)


def test_d1_steps_count_from_0() -> None:
    found = project(attempt(series([3.0] * 15), config={"steps": 15}))
    assert (found.last_step, found.steps_this_run, found.percent, found.remaining_s) == (14, 15, 100.0, 0.0)
    assert (found.lost_steps, found.lost_s) == (0, 0.0)


@pytest.mark.parametrize(
    "config,args,total",
    [
        ({"steps": 15}, ("steps=5", "steps=3"), 15),
        ({}, ("steps=5", "steps=3"), 3),
        ({}, ("profiler_steps=7", "skip_first_n_steps_for_profiler=8", "eval_steps=9"), None),
        ({}, ("gradient_accumulation_steps=4", "--steps=20", "xsteps=9"), 20),
        ({}, ("_env_FLAGS=a steps=9",), None),
        ({"steps": -1, "learning_rate_schedule_steps": 400}, (), 400),
        ({"steps": -1}, ("steps=5",), None),
        ({}, ("steps=many",), None),
    ],
)
def test_d2_total_steps(config: dict[str, object], args: tuple[str, ...], total: int | None) -> None:
    found = project(attempt(series([3.0] * 3), config=config, args=args))
    assert found.total_steps == total
    assert (found.percent is None) == (total is None)


def test_d2_the_total_that_a_line_announces_comes_last() -> None:
    assert project(attempt(series([3.0] * 3, printed_total=100))).total_steps == 100
    assert project(attempt(series([3.0] * 3, printed_total=100), args=["steps=50"])).total_steps == 50


def test_d2_without_a_total_there_is_no_percentage() -> None:
    found = project(attempt(series([3.0] * 30)))
    assert (found.total_steps, found.percent, found.remaining_s) == (None, None, None)


def test_d3_the_last_line_may_lag_behind_what_was_saved() -> None:
    """The save of step 20 is complete, the last line is 19: nothing is lost, and not less than nothing."""
    run = attempt(series([3.0] * 20), config={**SAVING, "steps": 100})
    found = project(run, files(checkpoints=[(0, True), (10, True), (20, True)]))
    assert (found.last_checkpoint, found.lost_steps, found.lost_s) == (20, 0, 0.0)


def test_d4_restored_run() -> None:
    seconds = [40.0, 9.0, 8.0, 7.0, 6.0] + [3.0] * 15
    run = attempt(series(seconds, first=21), config={**SAVING, "steps": 50}, facts=[fact("restore", 20)])
    found = project(run, fact_kind=KINDS)
    assert (found.start, found.restored_from, found.first_step) == ("restored", 20, 21)
    assert (found.steps_this_run, found.percent) == (20, 82.0)
    assert found.step_time_s == 3.0, "warm-up is relative to the first step of this run"


def test_d4_first_step_beyond_0_means_restored() -> None:
    found = project(attempt(series([3.0] * 10, first=17)))
    assert (found.start, found.restored_from) == ("restored", 16)


def test_d4_a_missing_log_head_is_no_restore() -> None:
    found = project(attempt(series([3.0] * 10, first=17), facts=[fact("fresh_start")]), fact_kind=KINDS)
    assert (found.start, found.restored_from) == ("fresh", None)


def test_d4_a_restore_from_the_initial_checkpoint_starts_at_1() -> None:
    facts = [fact("fresh_start"), fact("restore", 0)]
    found = project(attempt(series([3.0] * 10, first=1), facts=facts), fact_kind=KINDS)
    assert (found.start, found.restored_from) == ("restored", 0)


@pytest.mark.parametrize("shown", [range(9, 100, 10), [10, 96, 97, 216]])
def test_d4_lines_that_skip_steps_say_nothing_about_a_restore(shown: range | list[int]) -> None:
    found = project(attempt(series(dict.fromkeys(shown, 3.0))))
    assert (found.start, found.restored_from) == ("unknown", None)


def test_d5_first_steps_do_not_count_as_speed() -> None:
    seconds = [44.923, 0.319, 5.658] + [3.0] * 20
    run = attempt(series(seconds, rates={i: 9000 / s for i, s in enumerate(seconds)}), config={"steps": 23})
    found = project(run)
    assert found.step_time_s == 3.0
    assert found.sum_step_s == pytest.approx(sum(seconds))
    speed = throughput(run, found)
    assert speed.early == pytest.approx(3000)
    assert not speed.degraded


def test_d5_a_run_of_three_steps_has_no_steady_step_time() -> None:
    assert project(attempt(series([44.923, 0.319, 5.658]))).step_time_s is None
    assert project(attempt(series([44.923, 0.319, 5.658, 3.0]))).step_time_s == 3.0


def test_d6_the_cost_of_a_checkpoint_sits_in_the_step_after_it() -> None:
    seconds = [3.0] * 40
    seconds[0], seconds[1] = 60.0, 30.0
    seconds[9], seconds[17], seconds[25] = 18.0, 21.0, 19.0
    found = project(attempt(series(seconds), config={"enable_checkpointing": True, "checkpoint_period": 8}))
    assert found.step_time_s == 3.0
    assert found.checkpoint_cost_s == 18.0, "step 1 holds the compilation, not only the initial save"


def test_d6_the_first_step_after_a_restore_is_no_checkpoint_cost() -> None:
    seconds = [90.0] + [3.0] * 6
    run = attempt(series(seconds, first=9), config={"enable_checkpointing": True, "checkpoint_period": 8})
    assert project(run).checkpoint_cost_s is None


def test_d6_the_step_after_that_counts_only_without_background_saves() -> None:
    seconds = [3.0] * 30
    for k in (10, 20):
        seconds[k + 1], seconds[k + 2] = 9.0, 0.01
    for mode in (True, False):
        found = project(attempt(series(seconds), config={**SAVING, "async_checkpointing": mode}))
        assert found.step_time_s == 3.0


def test_d7_the_period_is_printed_and_never_guessed() -> None:
    run = series([3.0] * 30)
    assert project(attempt(run, config=SAVING)).checkpoint_period == 10
    assert project(attempt(run, args=["enable_checkpointing=true", "checkpoint_period=7"])).checkpoint_period == 7
    unknown = project(attempt(run, args=["enable_checkpointing=true"]))
    assert (unknown.checkpointing, unknown.checkpoint_period) == (True, None)
    assert (unknown.last_checkpoint, unknown.lost_steps) == (None, None), "neither 200 nor 10000 is known to hold"


def test_d7_without_checkpointing_everything_is_lost() -> None:
    found = project(attempt(series([3.0] * 30), config={**SAVING, "enable_checkpointing": False, "steps": 100}))
    assert (found.last_checkpoint, found.last_checkpoint_confirmed) == (None, None)
    assert (found.lost_steps, found.lost_s) == (30, 90.0)


def test_d7_the_save_at_completion_counts() -> None:
    found = project(
        attempt(series([3.0] * 40), config={**SAVING, "steps": 40}),
        files(checkpoints=[(0, True), (30, True), (39, True)]),
    )
    assert (found.last_checkpoint, found.last_checkpoint_confirmed) == (39, True)


def test_d8_arithmetic_is_not_confirmed() -> None:
    found = project(attempt(series([3.0] * 29), config={**SAVING, "steps": 100}))
    assert (found.last_checkpoint, found.last_checkpoint_confirmed) == (20, False)
    assert (found.lost_steps, found.lost_s) == (8, 24.0)


def test_d8_a_committed_directory_beats_arithmetic() -> None:
    """The run failed during the save of step 20: only its temporary directory is there."""
    found = project(
        attempt(series([3.0] * 29), config={**SAVING, "steps": 100}),
        files(checkpoints=[(0, True), (10, True), (20, False)]),
    )
    assert (found.last_checkpoint, found.last_checkpoint_confirmed, found.lost_steps) == (10, True, 18)


def test_d8_a_line_that_says_saved_is_proof_and_started_is_not() -> None:
    saved = [fact("checkpoint_saved", 10), fact("checkpoint_started", 20)]
    found = project(attempt(series([3.0] * 29), config=SAVING, facts=saved), fact_kind=KINDS)
    assert (found.last_checkpoint, found.last_checkpoint_confirmed) == (10, True)
    started = [fact("checkpoint_started", 10), fact("checkpoint_started", 20)]
    found = project(attempt(series([3.0] * 29), config=SAVING, facts=started), fact_kind=KINDS)
    assert (found.last_checkpoint, found.last_checkpoint_confirmed) == (20, False)


def test_d8_a_saved_line_is_void_when_only_the_temporary_directory_exists() -> None:
    saved = [fact("checkpoint_saved", 10), fact("checkpoint_saved", 20)]
    found = project(
        attempt(series([3.0] * 29), config=SAVING, facts=saved), files(checkpoints=[(20, False)]), fact_kind=KINDS
    )
    assert found.last_checkpoint == 10


def test_d8_the_initial_checkpoint_is_no_milestone() -> None:
    found = project(attempt(series([3.0] * 8), config=SAVING), files(checkpoints=[(0, True)]))
    assert (found.last_checkpoint, found.lost_steps) == (None, 8)
    found = project(attempt(series([3.0] * 8), config=SAVING))
    assert (found.last_checkpoint, found.last_checkpoint_confirmed, found.lost_steps) == (None, None, 8)


def test_d8_a_restored_run_without_new_checkpoint_loses_back_to_the_restore() -> None:
    run = attempt(series([3.0] * 5, first=21), config=SAVING, facts=[fact("restore", 20)])
    found = project(run, files(checkpoints=[(10, True), (20, True)]), fact_kind=KINDS)
    assert (found.last_checkpoint, found.lost_steps, found.lost_s) == (None, 5, 15.0)


def test_d8_later_checkpoints_of_another_run_do_not_count() -> None:
    found = project(attempt(series([3.0] * 15), config=SAVING), files(checkpoints=[(10, True), (500, True)]))
    assert (found.last_checkpoint, found.lost_steps) == (10, 4)


def test_d8_weights_from_another_run_are_no_progress() -> None:
    run = attempt(series([3.0] * 8), config=SAVING, facts=[fact("restore", 500)])
    found = project(run, fact_kind=KINDS)
    assert (found.restored_from, found.lost_steps) == (500, 8)


def test_d9_setup_is_not_in_the_sum() -> None:
    run = attempt(clocked([30.0] + [3.0] * 9, START + 600), config={"steps": 10})
    found = project(run, job=Job(start=START, end=START + 700, state="COMPLETED"))
    assert (found.setup_s, found.sum_step_s, found.wall_s) == (600.0, 57.0, 700.0)
    assert found.unaccounted_s == pytest.approx(43.0)
    assert (found.silence_s, found.silence_basis) == (pytest.approx(43.0), "clock")


def test_d9_compilation_booked_in_a_later_step_is_not_setup() -> None:
    """With asynchronous dispatch the line of step 0 comes after the compilation, which is in step 2's seconds."""
    seconds = [0.6, 1.0, 28.7] + [0.5] * 20
    begin = START + 100
    times = {0: begin + 30.2, 1: begin + 30.3}
    for step in range(2, 23):
        times[step] = begin + sum(seconds[: step + 1])
    run = attempt(series(seconds, times=times), config={"steps": 23})
    found = project(run, job=Job(start=START, end=begin + sum(seconds), state="COMPLETED"))
    assert found.setup_s == pytest.approx(100.0)
    assert found.unaccounted_s == pytest.approx(0.0, abs=1e-6)


def test_d10_without_clocks_the_time_of_the_last_step_is_not_invented() -> None:
    run = attempt(series([30.0] * 100), config={"steps": 1000})
    found = project(run, job=Job(start=START, state="RUNNING"), now=START + 3000 + 1800 + 3600)
    assert found.last_step_time is None
    assert (found.silence_s, found.silence_basis) == (3600.0, "arithmetic")
    assert found.expected_step == 99 + 120


def test_d10_with_clocks_the_projection_starts_at_the_last_step() -> None:
    run = attempt(clocked([30.0] * 100, START + 500), config={"steps": 1000})
    found = project(run, job=Job(start=START, state="RUNNING"), now=START + 500 + 3000 + 310)
    assert found.last_step_time == START + 3500
    assert (found.silence_s, found.expected_step) == (310.0, 109)


def test_d10_the_projection_ends_with_the_run() -> None:
    run = attempt(clocked([30.0] * 100, START), config={"steps": 120})
    assert project(run, job=Job(start=START, state="RUNNING"), now=START + 90_000).expected_step == 119


def test_d10_an_ended_job_has_no_expected_step() -> None:
    run = attempt(clocked([30.0] * 100, START), config={"steps": 1000})
    ended = Job(start=START, end=START + 5000, state="FAILED")
    assert project(run, job=ended, now=START + 90_000).expected_step is None


def test_d11_a_checkpoint_window_is_no_hang() -> None:
    """A save of 772 s was booked in step 201; the next save may take as long."""
    seconds = [30.0] * 400
    seconds[201] = 802.0
    config = {"enable_checkpointing": True, "checkpoint_period": 200, "steps": 1000}
    run = attempt(clocked(seconds, START + 500), config=config)
    last = START + 500 + sum(seconds)
    job = Job(start=START, state="RUNNING")
    assert silence_limit_s(project(run, job=job, now=last)) == 2 * 802.0
    assert not is_stalled(project(run, job=job, now=last + 780))
    assert is_stalled(project(run, job=job, now=last + 1700))


def test_d11_the_limit_grows_with_the_step_time_but_not_with_the_compilation() -> None:
    assert silence_limit_s(project(attempt(series([900.0] + [3.0] * 20)))) == 600.0
    assert silence_limit_s(project(attempt(series([900.0] + [120.0] * 20)))) == 1200.0


def test_d12_nan_losses_drop_no_steps() -> None:
    losses = dict.fromkeys(range(3, 30), math.nan) | {30: math.inf}
    found = project(attempt(series([3.0] * 40, losses=losses), config={"steps": 40}))
    assert (found.last_step, found.steps_this_run, found.sum_step_s) == (39, 40, 120.0)


def test_d13_speed_does_not_need_mfu() -> None:
    """Neither MFU nor the rate need be printed; the seconds are enough."""
    run = attempt(series([3.0] * 40 + [4.0] * 40))
    speed = throughput(run, project(run))
    assert (speed.degraded, speed.from_step, speed.unit) == (True, 40, "steps/s")
    assert speed.change == pytest.approx(-0.25)


def test_f1_a_ray_worker_file_beats_the_truncated_log() -> None:
    run = attempt(
        series([3.0] * 34, rank=0, file=0),
        series([3.0] * 34, rank=1, file=0),
        series([3.0] * 100, rank=0, file=1),
        config={"steps": 100},
    )
    found = project(run, files("primary", "ray-worker"))
    assert (found.last_step, found.percent, found.source) == (99, 100.0, "ray-worker-1")
    assert found.last_step_min == 99, "a rank known only from the truncated log is not behind"
    assert found.sum_step_s == 300.0


def test_f1_equal_series_prefer_the_worker_file() -> None:
    run = attempt(series([3.0] * 34, rank=0, file=0), series([3.0] * 34, rank=0, file=1))
    assert project(run, files("primary", "ray-worker")).source == "ray-worker-1"
