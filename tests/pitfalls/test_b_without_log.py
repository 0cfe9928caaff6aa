"""Pitfalls of the status when there is no log, no directory, or no final record yet (group B)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurm_triage.pipeline import Engine, triage_path
from slurm_triage.report.write import write_beside
from slurm_triage.slurm.record_file import job_from_record
from tests.conftest import Triage
from tests.pitfalls.logs import TRAIN_BEGIN, failed_rank, header, steps, summary
from tests.pitfalls.test_b_status import primary


def dangling(directory: Path) -> Path:
    """What submit.sh leaves before a job has started: its directory with a link to a log that is not there."""
    job = directory / "38-JAX-x"
    job.mkdir()
    (job / "log").symlink_to("../38-JAX-x.log")
    return job


@pytest.mark.parametrize(
    "record,status,cls",
    [
        ({"state": "PENDING", "reason": "Priority"}, "unknown", None),
        ({"state": "CANCELLED by 2001", "exit_code": "0:0", "start": None, "nodes": ""}, "cancelled", "cancelled"),
        (
            {"state": "FAILED", "exit_code": "0:53", "start": "2026-11-30T01:00:00", "end": "2026-11-30T01:00:00"},
            "failed",
            "prolog-kill-no-log",
        ),
    ],
    ids=["pending", "cancelled before it started", "0:53"],
)
def test_b10_no_log_is_not_always_a_prolog_kill(
    engine: Engine, tmp_path: Path, record: dict[str, Any], status: str, cls: str | None
) -> None:
    job = job_from_record({"job_id": "38", **record})
    report = triage_path(str(dangling(tmp_path)), engine=engine, job=job)
    assert (report.diagnosis.status, primary(report)) == (status, cls)


def test_b11_a_log_whose_directory_was_removed_at_submission(engine: Engine, tmp_path: Path) -> None:
    """submit.sh calls every failure within three seconds a death in the prolog and deletes the directory."""
    log = tmp_path / "4-JAX-x.log"
    log.write_text(header(job_id="4") + TRAIN_BEGIN + failed_rank(1, 139) + summary(1, "Training FAILED (exit=143)"))
    report = triage_path("4", engine=engine, outputs=tmp_path)
    assert (report.diagnosis.status, primary(report)) == ("failed", "signal-kill")
    write_beside(report)
    assert sorted(p.name for p in tmp_path.rglob("*") if "riage" in p.name.lower())
    assert log.read_text().startswith("JOB_ID=4")


def test_b14_a_completing_job_is_not_running(triage_text: Triage) -> None:
    """In an epilog accounting is not final: neither "running" nor a final record may come of it."""
    accounting = {"job_id": "7", "state": "COMPLETING", "exit_code": "0:0", "start": "2026-11-30T01:00:00"}
    failed = triage_text(
        header() + TRAIN_BEGIN + steps(range(5)) + failed_rank(1, 139) + summary(1, "Training FAILED (exit=143)"),
        accounting=accounting,
    )
    assert (failed.diagnosis.status, primary(failed)) == ("failed", "signal-kill")
    assert not failed.job.final
    unfinished = triage_text(header() + TRAIN_BEGIN + steps(range(5)), accounting=accounting)
    assert unfinished.diagnosis.status != "running"
