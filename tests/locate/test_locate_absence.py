"""A directory without a log: pending, cancelled before the start, killed in the prolog, or lost (PITFALLS B9-B11)."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_triage.errors import NotFoundError
from slurm_triage.locate import locate
from slurm_triage.model.job import Job

from .tree import Outputs

NAME = "38-JAX-m"


@pytest.fixture
def directory(outputs: Outputs) -> Path:
    return outputs.directory(NAME, link=f"../{NAME}.log")


RECORDS = {
    "pending": (Job(state="PENDING", reason="Priority"), "job 38 is pending (Priority) and has not started"),
    "requeued": (Job(state="PENDING", reason="BeginTime", restarts=1), "job 38 waits to be started again (BeginTime)"),
    "cancelled": (Job(state="CANCELLED"), "job 38 was cancelled before it started, so no log was ever written"),
    "deadline": (Job(state="DEADLINE"), "job 38 ended as DEADLINE before it started"),
    "prolog": (
        Job(state="FAILED", exit_code=0, exit_signal=53, nodes=("n1",), start=5.0, reason="JobLaunchFailure"),
        "Slurm killed job 38 before its script could run (exit 0:53), so there is no log: most often",
    ),
    "long name": (
        Job(state="FAILED", exit_code=0, exit_signal=53, nodes=("n1",), name="é" * 125),
        "its name has 250 bytes and the log's file name may have 255; give it a shorter name",
    ),
    "running": (Job(state="RUNNING", nodes=("n1",), start=5.0), "job 38 is RUNNING, but its log is not in"),
    "lost": (
        Job(state="FAILED", exit_code=1, nodes=("n1",), start=5.0, stdout="/x/38.log"),
        "job 38 ended as FAILED (exit 1:0), but its log is not at /x/38.log: it was moved or deleted",
    ),
    "dev null": (
        Job(state="COMPLETED", exit_code=0, nodes=("n1",), start=5.0, stdout="/dev/null"),
        "job 38 sent its output to /dev/null",
    ),
    "unknown": (Job(), "it is pending, was cancelled before it started, or was killed before its script could run"),
}


@pytest.mark.parametrize("case", RECORDS)
def test_sentence(directory: Path, case: str) -> None:
    record, expected = RECORDS[case]
    for target in ("38", str(directory), str(directory / "log")):
        files = locate(target, job=record)
        assert files.logs == ()
        assert files.job_dir == str(directory)
        assert files.job_id == "38"
        assert expected in (files.problem or "")
        assert "\n" not in (files.problem or "")


def test_without_record_the_dangling_link_is_named(directory: Path) -> None:
    problem = locate("38").problem or ""
    assert f"the log link names {directory}.log, which does not exist" in problem
    assert "sacct -j 38 tells which" in problem


def test_empty_directory(outputs: Outputs) -> None:
    """Seed: an empty outputs/<id>-.../ directory with no .log sibling."""
    directory = outputs.directory("38-FOO")
    for target in ("38", str(directory)):
        assert locate(target).job_dir == str(directory)
        assert "killed before its script could run (exit 0:53)" in (locate(target).problem or "")


def test_nothing_left_but_the_record(outputs: Outputs) -> None:
    """submit.sh removes the directory of a job that it believes to have died in the prolog."""
    files = locate("38", job=RECORDS["prolog"][0])
    assert (files.job_dir, files.logs) == (None, ())
    assert "exit 0:53" in (files.problem or "")
    assert files.outputs_dir == str(outputs.path)


def test_nothing_left_and_no_record(outputs: Outputs) -> None:
    with pytest.raises(NotFoundError, match="no log or directory of job 38"):
        locate("38", outputs=outputs.path, job=Job(job_id="38"))


def test_a_log_beats_the_record(outputs: Outputs) -> None:
    """PITFALLS B9: the log of the former attempt is there while the job waits for its restart."""
    log, _ = outputs.job(NAME)
    files = locate("38", job=RECORDS["requeued"][0])
    assert files.problem is None
    assert files.logs[0].path == str(log)


def test_local_jobs_do_not_ask_sacct(outputs: Outputs) -> None:
    outputs.directory("local_20260310_080957_475e-JAX-m")
    problem = locate("local_20260310_080957_475e").problem or ""
    assert "sacct" not in problem
    assert "look at how it was started" in problem
