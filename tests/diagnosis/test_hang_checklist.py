"""The seed's hang checklist."""

from __future__ import annotations

import pytest

from slurm_triage.model.report import Report
from tests.conftest import Triage
from tests.diagnosis.texts import BARRIER, CANCELLED, exits, run, start
from tests.pitfalls.logs import step, summary


def primary(report: Report) -> str | None:
    return report.diagnosis.primary.cls if report.diagnosis.primary is not None else None


def cancelled(wall: str) -> str:
    return CANCELLED.format("") + exits(143) + summary(143, "CANCELLED (scancel / SIGTERM)", wall)


def test_progress_not_output_decides(triage_text: Triage) -> None:
    """Ray's buffered messages and topology notes keep a log growing."""
    chatter = "0: 2026-11-30 02:00:00,000\tINFO worker.py:1 -- still here\n" * 50
    report = triage_text(start() + run(range(6)) + chatter + cancelled("1h 12m 3s"))
    assert (report.diagnosis.status, primary(report)) == ("cancelled", "hang")
    assert {f.role for f in report.diagnosis.findings if f.cls == "cancelled"} <= {"consequence", "teardown"}


def test_a_short_job_is_not_called_hung_by_arithmetic(triage_text: Triage) -> None:
    report = triage_text(start() + run(range(6)) + cancelled("29m 0s"))
    assert primary(report) == "cancelled"


def test_a_checkpoint_that_takes_minutes_is_not_a_hang(triage_text: Triage) -> None:
    slow = "".join(step(n, 700.0 if n == 11 else 3.0, r) for n in range(13) for r in (0, 1))
    text = start(checkpoint_period=10, enable_checkpointing="True") + slow
    report = triage_text(text + cancelled("40m 0s"))
    assert primary(report) == "cancelled"


def test_all_ranks_at_the_same_step_is_a_deadlock(triage_text: Triage) -> None:
    report = triage_text(start() + run(range(6)) + cancelled("2h 0m 0s"))
    assert any("All 2 ranks stopped after the same step" in note for note in report.diagnosis.notes)


def test_a_rank_that_is_behind_is_named(triage_text: Triage) -> None:
    text = start(4) + run(range(6), (0, 1, 2, 3)) + run(range(6, 30), (0, 1, 3))
    report = triage_text(text + cancelled("2h 0m 0s"))
    assert primary(report) == "hang"
    assert any("Rank 2 stopped earlier" in note for note in report.diagnosis.notes)


def test_before_the_first_step_the_barrier_tells(triage_text: Triage) -> None:
    text = start() + BARRIER.format(r=0) + BARRIER.format(r=1)
    report = triage_text(text + cancelled("2h 0m 0s"))
    assert primary(report) == "hang"
    assert any("first collective" in note for note in report.diagnosis.notes)
    compiling = triage_text(start() + BARRIER.format(r=0) + cancelled("20m 0s"))
    assert primary(compiling) == "cancelled"


def test_a_rank_that_never_spoke_is_named(triage_text: Triage) -> None:
    text = start(3) + BARRIER.format(r=0) + BARRIER.format(r=2)
    report = triage_text(text + CANCELLED.format("") + summary(143, "CANCELLED (scancel / SIGTERM)", "2h 0m 0s"))
    assert any("Rank 1" in note and "look there first" in note for note in report.diagnosis.notes)


@pytest.mark.parametrize(
    "end,cls",
    [
        (CANCELLED.format("") + exits(143) + summary(143, "CANCELLED (scancel / SIGTERM)", "2h 0m 0s"), "cancelled"),
        (
            CANCELLED.format(" DUE TO TIME LIMIT") + summary(143, "CANCELLED (scancel / SIGTERM)", "2h 0m 0s"),
            "time-limit",
        ),
        (
            "srun: error: chi2801: task 0: Killed\n== Training TIMEOUT (7202s/7200s) ==\n"
            + summary(1, "Training TIMEOUT (7202s/7200s)", "2h 0m 8s"),
            "train-timeout",
        ),
    ],
)
def test_whatever_ended_it(triage_text: Triage, end: str, cls: str) -> None:
    report = triage_text(start() + run(range(6)) + end)
    assert primary(report) == "hang"
    assert any(f.cls == cls and f.role != "root" for f in report.diagnosis.findings)


def test_the_first_hang_is_retried_on_the_same_nodes(triage_text: Triage) -> None:
    report = triage_text(start() + run(range(6)) + cancelled("2h 0m 0s"))
    assert report.diagnosis.resubmit.action == "same-nodes"
    assert not any(s.exclude for s in report.diagnosis.suspects)
