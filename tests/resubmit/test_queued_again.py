"""A job that Slurm has put back into its queue is not submitted a second time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_triage.cli.main import main
from slurm_triage.pipeline import triage_path
from slurm_triage.slurm.record_file import load_record

CASE = Path(__file__).parent.parent / "corpus" / "launcher" / "slurm-node-down"


def test_queued_again_is_not_submitted_again(capsys: pytest.CaptureFixture[str]) -> None:
    report = triage_path(str(CASE / "log.txt"), job=load_record(str(CASE / "accounting.json")))
    resubmit = report.diagnosis.resubmit
    assert (resubmit.action, resubmit.command) == ("none", None)
    assert resubmit.changes == ("before it starts: scontrol update JobId=34 ExcNodeList=chi2812",)
    assert not any("Submit again" in step for step in report.diagnosis.next_steps)
    assert report.attempt == 1
    argv = ["resubmit", str(CASE / "log.txt"), "--accounting", str(CASE / "accounting.json")]
    assert main(argv) == 2
    assert "put the job back into its queue" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("state", "reason"), [("NODE_FAIL", "None"), ("REQUEUE_HOLD", "None"), ("PENDING", "job requeued in held state")]
)
def test_ended_or_held_is(tmp_path: Path, state: str, reason: str) -> None:
    record = json.loads((CASE / "accounting.json").read_text()) | {"state": state, "reason": reason}
    (tmp_path / "accounting.json").write_text(json.dumps(record))
    report = triage_path(str(CASE / "log.txt"), job=load_record(str(tmp_path / "accounting.json")))
    assert report.diagnosis.resubmit.action == "other-nodes"
    assert report.diagnosis.resubmit.command is not None


def test_no_exit_status_before_the_end(tmp_path: Path) -> None:
    record = json.loads((CASE / "accounting.json").read_text()) | {"state": "RUNNING", "restarts": 0}
    (tmp_path / "accounting.json").write_text(json.dumps(record))
    report = triage_path(str(CASE / "log.txt"), job=load_record(str(tmp_path / "accounting.json")))
    assert (report.job.exit_code, report.job.exit_signal) == (None, None)
