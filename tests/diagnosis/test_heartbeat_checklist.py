"""The seed's heartbeat checklist, item by item."""

from __future__ import annotations

import pytest

from slurm_triage.model.report import Report
from tests.conftest import Triage
from tests.diagnosis.texts import exits, heartbeat, run, start, traceback
from tests.pitfalls.logs import summary

KILLED = "{}: /artifact/_train.sh: line 172:    66 Killed                  python3 -u monkey_patch_maxtext.py\n"


def failed(wall: str) -> str:
    return exits(134) + "== Training FAILED (exit=134, 3s) ==\n" + summary(1, "Training FAILED (exit=134)", wall)


def primary(report: Report) -> str | None:
    return report.diagnosis.primary.cls if report.diagnosis.primary is not None else None


def notes(report: Report) -> str:
    return " ".join(report.diagnosis.notes)


def test_item_1_an_accused_task_that_reports_the_error_itself_was_alive(triage_text: Triage) -> None:
    report = triage_text(start() + run(range(40)) + heartbeat([0, 1], [1]) + failed("3m 10s"))
    assert primary(report) == "heartbeat-timeout"
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.rank == 1
    assert "alive" in notes(report)
    assert "really died" not in notes(report)


@pytest.mark.parametrize(
    "death,cls", [(KILLED.format(1), "signal-kill"), (traceback(1, "ValueError: x"), "python-exception")]
)
def test_item_2_an_earlier_error_of_the_accused_makes_the_alarm_true(triage_text: Triage, death: str, cls: str) -> None:
    end = "1: NODE_EXIT host=chi2802 exit=137\n0: NODE_EXIT host=chi2801 exit=134\n"
    report = triage_text(start() + run(range(40)) + death + heartbeat([0], [1]) + end + failed("3m 40s"))
    assert primary(report) in {cls, "oom-host"}
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.rank == 1
    assert "Rank 1 really died" in notes(report)
    assert "alive" not in notes(report)
    roles = {f.role for f in report.diagnosis.findings if f.cls == "heartbeat-timeout"}
    assert roles == {"consequence"}


LOST = "0: jax.errors.JaxRuntimeError: UNKNOWN: Gloo AllGather failed: [x/pair.cc:547] {} [10.0.0.2]:35558\n"


@pytest.mark.parametrize("how, died", [("Connection closed by peer", True), ("Read error", False)])
def test_item_2_a_closed_connection_proves_that_the_accused_is_gone(triage_text: Triage, how: str, died: bool) -> None:
    """A process that hangs keeps its connections; the next steps must not ask for a longer time-out."""
    end = (
        exits(134, (0,)) + "== Training FAILED (exit=134, 3s) ==\n" + summary(1, "Training FAILED (exit=134)", "3m 10s")
    )
    report = triage_text(start() + run(range(40)) + LOST.format(how) + heartbeat([0], [1]) + end)
    assert (primary(report), report.diagnosis.primary and report.diagnosis.primary.rank) == ("heartbeat-timeout", 1)
    steps = " ".join(report.diagnosis.next_steps)
    assert ("had really died" in report.diagnosis.narrative) is died
    assert ("OOM kill" in steps) is died
    assert ("jax_distributed_heartbeat_timeout_seconds" in report.diagnosis.resubmit.args) is not died
    assert report.diagnosis.resubmit.action == ("same-nodes" if died else "after-fix")


def test_several_accused_blame_no_single_rank(triage_text: Triage) -> None:
    report = triage_text(
        start(4) + run(range(40), (0, 1, 2, 3)) + heartbeat([3, 0, 1, 2], [1, 3]) + exits(134, (0, 1, 2, 3))
    )
    assert report.diagnosis.primary is not None
    assert (report.diagnosis.primary.rank, report.diagnosis.primary.ranks) == (None, (1, 3))
    assert "ranks 1,3" in report.diagnosis.primary.title


def test_item_2_an_error_of_another_rank_is_the_cause_all_the_same(triage_text: Triage) -> None:
    report = triage_text(
        start(3) + run(range(40), (0, 1, 2)) + traceback(2, "ValueError: x") + heartbeat([0, 1], [2]) + failed("3m 40s")
    )
    assert primary(report) == "python-exception"


def test_item_3_training_that_stood_still_before_is_a_hang(triage_text: Triage) -> None:
    text = start(jax_distributed_heartbeat_timeout_seconds=900) + run(range(100)) + heartbeat([0, 1], [1])
    report = triage_text(text + failed("1h 46m 0s"))
    assert primary(report) == "hang"
    assert "only ended a hang" in notes(report)
    assert "jax_distributed_heartbeat_timeout_seconds" not in report.diagnosis.resubmit.args


def test_item_3_progress_until_the_alarm_is_no_hang(triage_text: Triage) -> None:
    text = start(jax_distributed_heartbeat_timeout_seconds=900) + run(range(300)) + heartbeat([0, 1], [1])
    report = triage_text(text + failed("46m 0s"))
    assert primary(report) == "heartbeat-timeout"
    assert "Training was progressing" in notes(report)


def test_item_4_metrics_are_asked_for(triage_text: Triage) -> None:
    report = triage_text(start() + run(range(40)) + heartbeat([0, 1], [1]) + failed("3m 10s"))
    assert any("Confirm" in step for step in report.diagnosis.next_steps)


def test_item_5_the_timeout_is_raised(triage_text: Triage) -> None:
    report = triage_text(start() + run(range(40)) + heartbeat([0, 1], [1]) + failed("3m 10s"))
    seconds = report.diagnosis.resubmit.args["jax_distributed_heartbeat_timeout_seconds"]
    assert int(seconds) > 100
    assert seconds in " ".join(report.diagnosis.next_steps)


def test_init_phase_is_told_from_mid_training(triage_text: Triage) -> None:
    report = triage_text(start() + heartbeat([0, 1], [1]) + failed("4m 10s"))
    assert primary(report) == "heartbeat-timeout"
    assert "No step had completed" in notes(report)


def test_task_ids_count_processes_with_one_process_per_gpu(triage_text: Triage) -> None:
    launch = "0: Launching 4 processes per node (8 total) for 1-GPU-per-process mode...\n"
    report = triage_text(start() + launch + run(range(40)) + heartbeat([0, 1], [6]) + failed("3m 10s"))
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.rank == 1


def test_without_clocks_the_report_says_that_nobody_knows(triage_text: Triage) -> None:
    report = triage_text(
        "".join(f"{r}: Config param steps: 400\n" for r in (0, 1)) + run(range(40)) + heartbeat([0], [1])
    )
    assert "No clock tells" in notes(report)
    assert "Training was progressing" not in notes(report)
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.confidence != "high"
