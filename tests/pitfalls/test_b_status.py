"""Pitfalls of the job's status (group B)."""

from __future__ import annotations

import pytest

from tests.conftest import Triage
from tests.pitfalls.logs import TRAIN_BEGIN, failed_rank, header, steps, summary

CANCEL = "slurmstepd: error: *** JOB 7 ON chi2801 CANCELLED AT 2026-11-30T01:54:32{} ***\n"
STOPPED = "0: NODE_EXIT host=chi2801 exit=143\n1: NODE_EXIT host=chi2802 exit=143\n"


def primary(report: object) -> str | None:
    found = report.diagnosis.primary  # type: ignore[attr-defined]
    return found.cls if found is not None else None


def test_b1_a_summary_may_be_missing(triage_text: Triage) -> None:
    report = triage_text(
        "[ERROR] pick_free_port: failed to find a free port after 10 attempts\n"
        "FATAL: Could not find a free port for JAX coordinator\n"
    )
    assert (report.diagnosis.status, primary(report)) == ("failed", "port-fail")


def test_b2_the_worst_of_several_summaries_counts(triage_text: Triage) -> None:
    text = header(nnodes=3) + steps(range(15), ranks=None) + summary(1) + summary() + summary()
    report = triage_text(text, name="k8s-20260310-080957-475e-JAX.log")
    assert report.diagnosis.status == "failed" or primary(report) == "soft-success"
    assert not report.facts.last.summaries[0].success


def test_b3_local_success_that_was_killed(triage_text: Triage) -> None:
    text = header(args="steps=6").replace("JOB_ID=7", "JOB_ID=local_20261130_020000_ab12")
    report = triage_text(text + steps(range(2), ranks=None) + summary())
    assert report.diagnosis.status != "completed"
    assert primary(report) == "incomplete-success"


def test_b4_success_with_training_stopped(triage_text: Triage) -> None:
    stopped = (
        "0: Training stopped: Checkpointing failed. [Errno 2] No such file or directory: 'manifest.ocdbt.__lock'\n"
    )
    text = header() + TRAIN_BEGIN + steps(range(5)) + stopped
    text += "".join(s for n in range(5, 12) for s in [steps(range(n, n + 1)).splitlines(True)[1]])
    report = triage_text(text + summary())
    assert report.diagnosis.status == "failed"
    assert primary(report) == "checkpoint-fs-error"


def test_b4_target_loss_is_a_true_success(triage_text: Triage) -> None:
    text = header() + TRAIN_BEGIN + steps(range(9)) + "0: Training stopped: Target loss 2.5 is achieved.\n"
    assert triage_text(text + summary()).diagnosis.status == "completed"


def test_b5_nothing_left_to_do(triage_text: Triage) -> None:
    text = header(args="steps=5") + TRAIN_BEGIN + "0: restoring from this run's directory step 4\n" + summary()
    report = triage_text(text)
    assert (report.diagnosis.status, primary(report)) == ("completed", None)


@pytest.mark.parametrize(
    "cause,cls",
    [
        (" DUE TO TIME LIMIT", "time-limit"),
        (" DUE TO PREEMPTION", "preempted"),
        (" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", "node-fail"),
        (" DUE TO JOB REQUEUE", "requeued"),
        ("", "cancelled"),
    ],
)
def test_b6_exit_143_is_told_apart(triage_text: Triage, cause: str, cls: str) -> None:
    text = header() + TRAIN_BEGIN + steps(range(5)) + CANCEL.format(cause) + STOPPED
    report = triage_text(text + summary(143, "CANCELLED (scancel / SIGTERM)"))
    assert primary(report) == cls


@pytest.mark.parametrize(
    "state,cls", [("CANCELLED by 2001", "cancelled"), ("TIMEOUT", "time-limit"), ("PREEMPTED", "preempted"), ("NODE_FAIL", "node-fail")]
)  # fmt: skip
def test_b6_accounting_decides_first(triage_text: Triage, state: str, cls: str) -> None:
    text = header() + TRAIN_BEGIN + steps(range(5)) + CANCEL.format("") + STOPPED
    report = triage_text(
        text + summary(143, "CANCELLED (scancel / SIGTERM)"),
        accounting={"job_id": "7", "state": state, "exit_code": "0:0"},
    )
    assert primary(report) == cls


def test_b7_a_cancelled_step_is_not_a_cancelled_job(triage_text: Triage) -> None:
    text = header() + TRAIN_BEGIN + steps(range(5)) + failed_rank(1, 139) + summary(1, "Training FAILED (exit=143)")
    report = triage_text(text)
    assert (report.diagnosis.status, primary(report)) == ("failed", "signal-kill")
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.rank == 1


def test_b8_exit_130_of_a_local_job(triage_text: Triage) -> None:
    text = header(args="steps=6").replace("JOB_ID=7", "JOB_ID=local_20261130_020000_ab12")
    report = triage_text(text + steps(range(2), ranks=None) + summary(130))
    assert report.diagnosis.status == "cancelled"


def test_b9_requeued_after_node_failure(triage_text: Triage) -> None:
    cause = " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"
    text = (
        header() + TRAIN_BEGIN + steps(range(5)) + CANCEL.format(cause) + summary(143, "CANCELLED (scancel / SIGTERM)")
    )
    report = triage_text(text, accounting={"job_id": "7", "state": "PENDING", "reason": "BeginTime", "restarts": 1})
    assert primary(report) in {"node-fail", "requeued"}
    assert report.diagnosis.status != "running"


def test_b12_batch_shell_killed(triage_text: Triage) -> None:
    text = header() + TRAIN_BEGIN + steps(range(5)) + STOPPED
    report = triage_text(text, accounting={"job_id": "7", "state": "FAILED", "exit_code": "0:9"})
    assert report.diagnosis.status == "failed"
    assert primary(report) in {"signal-kill", "unknown-death"}


def test_b12_no_summary_and_nothing_else(triage_text: Triage) -> None:
    report = triage_text(header() + TRAIN_BEGIN + steps(range(5)))
    assert (report.diagnosis.status, primary(report)) == ("unknown", "unknown-death")


def test_b13_a_fresh_file_is_not_a_running_job(triage_text: Triage) -> None:
    """The file was written this second; nothing but accounting can tell that a job is alive."""
    report = triage_text(header() + TRAIN_BEGIN + steps(range(5)))
    assert report.diagnosis.status != "running"


def test_b13_an_old_file_is_not_a_hang(triage_text: Triage) -> None:
    accounting = {"job_id": "7", "state": "RUNNING", "start": "2026-11-30T01:00:00"}
    text = header() + TRAIN_BEGIN + steps(range(5), seconds=60)
    report = triage_text(text, accounting=accounting, now=1_796_000_400 + 600)
    assert report.diagnosis.status == "running"


def test_running_job_that_stands_still_hangs(triage_text: Triage) -> None:
    lines = "".join(
        f"{r}: I1130 02:{n:02d}:00.000000 12 metric_logger.py:181] {steps(range(n, n + 1), ranks=None)}"
        for n in range(10)
        for r in range(2)
    )
    accounting = {"job_id": "7", "state": "RUNNING", "start": "2026-11-30T01:58:00", "nodes": "chi[2801-2802]"}
    from slurm_triage.model.duration import parse_time

    late = parse_time("2026-11-30T05:00:00")
    report = triage_text(header() + TRAIN_BEGIN + lines, accounting=accounting, now=late)
    assert (report.diagnosis.status, primary(report)) == ("hanging", "hang")
    assert report.progress.expected_step is not None
    assert report.progress.expected_step > 9
