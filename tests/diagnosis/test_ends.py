"""How jobs end: unknown deaths, exit codes of nodes, the three signatures of soft success."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_triage.model.report import Report
from tests.conftest import Triage
from tests.diagnosis.texts import CANCELLED, exits, run, start
from tests.pitfalls.logs import failed_rank, summary

PENDING = "{}: W0212 20:44:10.000000 66 pending_event_logger.cc:47] PjRt: Pending event still not ready\n"


def primary(report: Report) -> str | None:
    return report.diagnosis.primary.cls if report.diagnosis.primary is not None else None


def record(state: str, code: str, elapsed_s: int = 600, **more: Any) -> dict[str, Any]:
    return {
        "job_id": "7", "state": state, "exit_code": code, "nodes": "chi[2801-2802]", "node_count": 2,
        "start": "2026-11-30T01:00:00", "end": f"2026-11-30T01:{elapsed_s // 60:02}:{elapsed_s % 60:02}", **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    "accounting,cls",
    [
        (None, "unknown-death"),
        (record("FAILED", "0:9"), "signal-kill"),
        (record("OUT_OF_MEMORY", "0:125"), "oom-host"),
        (record("PREEMPTED", "0:0"), "preempted"),
        (record("TIMEOUT", "0:0"), "time-limit"),
        (record("NODE_FAIL", "0:0", failed_node="chi2802"), "node-fail"),
        (record("CANCELLED", "0:0"), "cancelled"),
    ],
)
def test_a_log_that_just_stops(triage_text: Triage, accounting: dict[str, Any] | None, cls: str) -> None:
    """The seed's steps: OOM texts, an abrupt end, the scheduler's state; only then "unknown"."""
    report = triage_text(start() + run(range(8)), accounting=accounting)
    assert primary(report) == cls
    if cls == "unknown-death":
        assert report.diagnosis.status == "unknown"
        assert report.diagnosis.primary is not None
        assert report.diagnosis.primary.confidence == "low"
    if cls == "node-fail":
        assert report.diagnosis.primary is not None
        assert (report.diagnosis.primary.rank, report.diagnosis.primary.node) == (1, "chi2802")


def test_an_oom_text_before_the_end_is_found(triage_text: Triage) -> None:
    text = start() + run(range(8)) + "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.3.\n"
    assert primary(triage_text(text)) == "oom-host"


def hints(report: Report) -> str:
    return " ".join((*report.diagnosis.notes, *report.diagnosis.next_steps))


@pytest.mark.parametrize(
    "code,cls,hint",
    [
        (137, "signal-kill", "dmesg -T"),
        (134, "signal-kill", "core dump"),
        (139, "signal-kill", "core dump"),
        (1, "subprocess-fail", None),
    ],
)
def test_exit_codes_of_nodes(triage_text: Triage, code: int, cls: str, hint: str | None) -> None:
    report = triage_text(start() + run(range(5)) + failed_rank(1, code) + summary(1, "Training FAILED (exit=143)"))
    assert primary(report) == cls
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.node == "chi2802"
    assert hint is None or hint in hints(report)


WORDS = {137: "Killed", 139: "Segmentation fault"}


@pytest.mark.parametrize("code,hint", [(137, "dmesg -T"), (139, "core dump")])
def test_the_shells_words_give_the_same_hint(triage_text: Triage, code: int, hint: str) -> None:
    word = f"1: /artifact/_train.sh: line 172:    66 {WORDS[code]:23} python3 -u monkey_patch_maxtext.py\n"
    text = start() + run(range(5)) + word + failed_rank(1, code) + summary(1, "Training FAILED (exit=143)")
    assert hint in hints(triage_text(text))


SIGNATURES = {
    "a: one rank exits 1, the others 0": "1: NODE_EXIT host=chi2802 exit=1\n== Training FAILED (exit=1, 3s) ==\n"
    + summary(1, "Training FAILED (exit=1)"),
    "b: one rank fails late, the others are stopped": PENDING.format(0)
    + PENDING.format(1)
    + failed_rank(1, 134)
    + summary(1, "Training FAILED (exit=143)"),
    "c: the time limit comes during teardown": PENDING.format(0)
    + CANCELLED.format(" DUE TO TIME LIMIT")
    + exits(143)
    + summary(143, "CANCELLED (scancel / SIGTERM)"),
}


@pytest.mark.parametrize("end", SIGNATURES.values(), ids=SIGNATURES.keys())
def test_soft_success(triage_text: Triage, end: str) -> None:
    report = triage_text(start(total=15) + run(range(15)) + end)
    assert primary(report) == "soft-success"
    assert report.diagnosis.status == "completed"
    assert report.diagnosis.resubmit.action == "none"


@pytest.mark.parametrize("end", SIGNATURES.values(), ids=SIGNATURES.keys())
def test_the_same_end_before_the_last_step_is_no_success(triage_text: Triage, end: str) -> None:
    report = triage_text(start(total=100) + run(range(15)) + end)
    assert primary(report) != "soft-success"
    assert report.diagnosis.status != "completed"


def test_a_rank_that_died_early_is_no_soft_success(triage_text: Triage) -> None:
    text = start(total=15) + run(range(7)) + "1: Traceback (most recent call last):\n1: ValueError: x\n"
    text += run(range(7, 15), (0,)) + "1: NODE_EXIT host=chi2802 exit=1\n" + summary(1, "Training FAILED (exit=1)")
    report = triage_text(text)
    assert primary(report) == "python-exception"
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.rank == 1


def test_soft_success_without_a_summary(triage_text: Triage) -> None:
    """Rank 0 leaves at once, its coordinator goes with it, and rank 1 is aborted behind the last step."""
    end = (
        "1: F0212 20:44:10.1 211 client.h:80] Terminating process because the JAX distributed service detected fatal "
        "errors. absl::Status: UNAVAILABLE: Failed to send RPC to coordination service.\n"
        "1: Fatal Python error: Aborted\n"
    )
    ran = "".join(f"{r}: Config param steps: 15\n" for r in (0, 1)) + run(range(15))
    assert primary(triage_text(ran + end)) == "soft-success"
    assert primary(triage_text(ran)) is None


def test_a_step_that_is_stopped_is_no_cancelled_job(triage_text: Triage) -> None:
    """The batch shell is killed: its step is stopped, nobody writes a summary, and no line says that the job was
    cancelled."""
    stopped = "0: slurmstepd-chi2801: error: *** STEP 7.3 ON chi2801 CANCELLED AT 2026-11-30T01:54:32 ***\n"
    stopped += "".join(f"{r}: [SIGTERM] Received — waiting for coredump before exit...\n" for r in (0, 1))
    text = start() + run(range(8)) + stopped + exits(143)
    assert primary(triage_text(text)) == "unknown-death"
    assert primary(triage_text(text, accounting=record("FAILED", "0:9"))) == "signal-kill"


def test_a_running_job_that_caught_a_signal_is_running(triage_text: Triage) -> None:
    text = start() + run(range(8)) + "0: W preemption_notifier.cc:90] SIGTERM caught at 2026-11-30T01:02:00\n"
    live = {"job_id": "7", "state": "RUNNING", "start": "2026-11-30T01:00:00", "nodes": "chi[2801-2802]"}
    report = triage_text(text, accounting=live, now=1796000500.0)
    assert report.diagnosis.status in {"running", "hanging"}
    assert primary(report) != "cancelled"
