"""Wall time, setup and silence from accounting, the launcher's summary or the clocks in the log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_triage.model.facts import Summary
from slurm_triage.model.job import Job
from slurm_triage.progress.project import project
from tests.progress.builders import attempt, clocked, series

START = 1_800_000_000.0
STEPS = [30.0] + [3.0] * 20


def test_accounting_comes_first() -> None:
    run = attempt(series(STEPS), wall_s=500.0, start_time=START, end_time=START + 300)
    assert project(run, job=Job(start=START, end=START + 700)).wall_s == 700.0


def test_the_elapsed_time_of_accounting_serves_without_a_start() -> None:
    assert project(attempt(series(STEPS), wall_s=500.0), job=Job(elapsed_s=650.0, state="FAILED")).wall_s == 650.0


def test_the_summary_comes_next() -> None:
    assert project(attempt(series(STEPS), wall_s=500.0, start_time=START, end_time=START + 300)).wall_s == 500.0


def test_of_several_summaries_the_longest_wall_counts() -> None:
    summaries = tuple(Summary(True, 0, None, wall, 1, 0) for wall in (90.0, 140.0, 100.0))
    assert project(replace(attempt(series(STEPS)), summaries=summaries)).wall_s == 140.0


def test_the_clocks_of_the_log_come_last() -> None:
    steps = clocked(STEPS, START + 100)
    found = project(attempt(steps, start_time=START, end_time=START + 250))
    assert (found.wall_s, found.setup_s, found.silence_s) == (250.0, 100.0, 60.0)
    assert found.silence_basis == "clock"
    assert found.unaccounted_s == pytest.approx(60.0)


def test_a_live_job_lasts_until_now() -> None:
    found = project(attempt(clocked(STEPS, START + 100)), job=Job(start=START, state="RUNNING"), now=START + 1000)
    assert (found.wall_s, found.silence_s) == (1000.0, 810.0)


def test_a_live_log_without_accounting_lasts_until_now() -> None:
    run = attempt(clocked(STEPS, START + 100), start_time=START, end_time=START + 190)
    found = project(run, now=START + 1000)
    assert (found.wall_s, found.silence_s, found.silence_basis) == (1000.0, 810.0, "clock")


def test_now_means_nothing_once_the_job_has_ended() -> None:
    run = attempt(clocked(STEPS, START + 100))
    ended = Job(start=START, end=START + 200, state="FAILED")
    assert project(run, job=ended, now=START + 9000) == project(run, job=ended)
    assert project(attempt(series(STEPS), wall_s=200.0), now=START).wall_s == 200.0


def test_a_requeued_job_that_waits_is_not_alive() -> None:
    run = attempt(clocked(STEPS, START + 100), config={"steps": 100}, start_time=START, end_time=START + 200)
    found = project(run, job=Job(state="PENDING", restarts=1), now=START + 9000)
    assert (found.expected_step, found.wall_s, found.silence_s) == (None, 200.0, 10.0)


def test_clocks_of_another_time_zone_are_not_mixed_with_accounting() -> None:
    run = attempt(clocked(STEPS, START + 100 + 7200), start_time=START + 7200, end_time=START + 7200 + 250)
    found = project(run, job=Job(start=START, end=START + 260, state="FAILED"))
    assert found.wall_s == 260.0
    assert found.setup_s is None, "the job's start is on another clock"
    assert (found.silence_s, found.silence_basis) == (60.0, "clock")


def test_clocks_without_a_date_are_good_for_differences_only() -> None:
    run = attempt(clocked(STEPS, 100.0), start_time=0.0, end_time=250.0)
    found = project(run, job=Job(start=START, state="RUNNING"), now=START + 5000)
    assert (found.wall_s, found.setup_s) == (5000.0, None)
    assert (found.silence_s, found.silence_basis) == (5000.0 - 1800 - 90, "arithmetic")


def test_a_sum_that_exceeds_the_wall_time_leaves_nothing_to_account_for() -> None:
    found = project(attempt(series(STEPS), wall_s=10.0))
    assert (found.unaccounted_s, found.silence_s) == (None, 0.0)
    assert project(attempt(series(STEPS), wall_s=89.0)).unaccounted_s == 0.0, "rounding"


def test_a_log_with_few_clocks_does_not_tell_the_wall_time() -> None:
    found = project(attempt(series(STEPS), start_time=START, end_time=START + 7))
    assert (found.wall_s, found.unaccounted_s, found.silence_s) == (None, None, None)


def test_a_year_guessed_wrong_is_no_wall_time() -> None:
    assert project(attempt(series(STEPS), start_time=START, end_time=START + 365 * 86_400)).wall_s is None


def test_the_end_of_the_log_is_no_end_of_the_job() -> None:
    """The last line with a clock is the last step itself: how long it was silent then is not known."""
    run = attempt(clocked(STEPS, START + 100), start_time=START, end_time=START + 190)
    assert project(run).silence_s == 0.0
    assert project(run).silence_basis == "arithmetic"


def test_the_wall_time_can_show_a_silence_that_the_log_ends_before() -> None:
    """SIGKILL leaves no line: the summary of the batch script says how long it took."""
    run = attempt(clocked(STEPS, START + 100), wall_s=7200.0, start_time=START, end_time=START + 195)
    found = project(run)
    assert (found.silence_s, found.silence_basis) == (7200.0 - 1800 - 90, "arithmetic")


def test_restarts_inside_one_job_share_its_end_only() -> None:
    run = attempt(clocked(STEPS, START + 5000), index=1, start_time=START + 4900, end_time=START + 5100)
    found = project(run, job=Job(start=START, end=START + 5200, state="FAILED"))
    assert (found.wall_s, found.setup_s, found.silence_s) == (300.0, 100.0, 110.0)
    requeued = project(run, job=Job(start=START + 4800, end=START + 5200, state="FAILED", restarts=1))
    assert (requeued.wall_s, requeued.setup_s) == (400.0, 200.0)


def test_gaps_in_the_log_allow_no_arithmetic() -> None:
    run = attempt(series({10: 20.0, 96: 20.0, 97: 25.0, 216: 25.0}), wall_s=20_000.0)
    found = project(run)
    assert found.sum_step_s == 90.0
    assert (found.unaccounted_s, found.silence_s) == (None, None)


def test_a_line_every_ten_steps_stands_for_ten() -> None:
    run = attempt(series(dict.fromkeys(range(9, 1000, 10), 2.0)), wall_s=2100.0)
    found = project(run)
    assert (found.sum_step_s, found.unaccounted_s) == (2000.0, 100.0)


def test_steps_that_the_reader_dropped_are_in_the_sum() -> None:
    full = series([2.0] * 1000)
    thinned = replace(full, steps=full.steps[::2], dropped_steps=500, dropped_s=1000.0)
    found = project(attempt(thinned, wall_s=2100.0))
    assert (found.sum_step_s, found.unaccounted_s) == (2000.0, 100.0)
