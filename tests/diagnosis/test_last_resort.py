"""Where no rule knows the end, the last words suggest a class; and what the last words are not."""

from __future__ import annotations

import pytest

from slurm_triage.diagnosis.last_resort import SUGGESTED
from slurm_triage.model.report import Report
from tests.conftest import Triage

STARTED = "Starting the simulation on 4 nodes\n"
#: Of a program that no rule knows; what it complains about has a class.
LAST_WORDS = {
    "gridsolver: FATAL: allocation of 4096 MiB on GPU 3 failed": "oom-gpu",
    "gridsolver: error: halo exchange: connection to node07 refused": "coordination-fail",
    "gridsolver: ERROR: snapshot 120 is truncated": "checkpoint-error",
    "sbatch: error: the controller would rather not": "launch-fail",
}


def primary(report: Report) -> tuple[str, str] | None:
    found = report.diagnosis.primary
    return (found.cls, found.confidence) if found is not None else None


@pytest.mark.parametrize("line", LAST_WORDS)
def test_the_last_words_suggest_a_class_with_low_confidence(triage_text: Triage, line: str) -> None:
    report = triage_text(f"{STARTED}{line}\n")
    assert primary(report) == (LAST_WORDS[line], "low")
    assert report.diagnosis.findings[0].why == SUGGESTED


@pytest.mark.parametrize("line", LAST_WORDS)
def test_a_log_that_goes_on_has_no_last_words(triage_text: Triage, line: str) -> None:
    """Steps, lines that only differ in their numbers, and ordinary lines of whatever kind."""
    steps = "".join(f"step {n} | loss 1.{n} | 0.5 s/step\n" for n in range(8))
    pulse = "".join(f"residual after sweep {n}: {1 / (n + 1):.4f}\n" for n in range(3))
    talk = "The mesh has been read\nThe solver uses four threads\n"
    for rest in (steps, pulse, talk):
        assert primary(triage_text(f"{STARTED}{line}\n{rest}")) is None, rest


def test_a_failed_job_may_have_said_more_after_its_last_words(triage_text: Triage) -> None:
    text = STARTED + "gridsolver: ERROR: snapshot 120 is truncated\nThe mesh is kept\nTimings are not written\n"
    assert primary(triage_text(text)) is None
    failed = {"job_id": "7", "state": "FAILED", "exit_code": "1:0"}
    assert primary(triage_text(text, accounting=failed)) == ("checkpoint-error", "low")


def test_a_notice_of_slurmstepd_about_binding_suggests_nothing(triage_text: Triage) -> None:
    assert primary(triage_text("slurmstepd-n3: error: task/affinity: odd mask for task[0]\nnode3\n")) is None


def test_the_message_of_an_exception_says_more_than_its_type(triage_text: Triage) -> None:
    """Whole, not as far as a title shows it."""
    filler = "while setting up the run with " + "many settings, " * 12
    text = (
        "Traceback (most recent call last):\n"
        '  File "/w/train.py", line 3, in main\n    step()\n'
        f"RuntimeError: {filler}the coordination service has stopped\n"
    )
    assert primary(triage_text(STARTED + text)) == ("coordination-fail", "low")
    assert primary(triage_text(STARTED + text.replace("coordination service", "loader of images"))) == (
        "python-exception", "medium",
    )  # fmt: skip


def test_only_a_strong_word_that_came_first_overrules_an_exception(triage_text: Triage) -> None:
    """Who does not answer may be gone because of the exception; a full disk is no result of one."""
    exception = (
        'Traceback (most recent call last):\n  File "/w/train.py", line 3, in main\n    step()\n'
        "ValueError: there is no batch\n"
    )
    peer = "gridsolver: error: peer 3 does not respond\n"
    disk = "gridsolver: error: quota of project x1 exceeded\n"
    for before, expected in ((peer, "python-exception"), (disk, "disk-quota")):
        report = triage_text(STARTED + before + exception)
        assert report.diagnosis.primary is not None
        assert report.diagnosis.primary.cls == expected, before
    report = triage_text(STARTED + exception + disk)
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.cls == "python-exception"
