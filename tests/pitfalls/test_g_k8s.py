"""Pitfalls of k8s jobs (group G): one pod per rank, one file per rank."""

from __future__ import annotations

from pathlib import Path

from slurm_triage.pipeline import Engine, triage_path
from tests.pitfalls.logs import header, steps, summary
from tests.pitfalls.test_b_status import primary

JOB_ID = "k8s-20260310-080957-475e"
TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\nValueError: bad batch\n'


def k8s_job(directory: Path, rank0: str, others: dict[int, str]) -> Path:
    job = directory / f"{JOB_ID}-JAX-x"
    job.mkdir()
    (directory / f"{JOB_ID}-JAX-x.log").write_text(rank0)
    (job / "log").symlink_to(f"../{JOB_ID}-JAX-x.log")
    for rank, text in others.items():
        (job / f"rank-{rank}.log").write_text(text)
    return job


def k8s_header() -> str:
    return header().replace("JOB_ID=7", f"JOB_ID={JOB_ID}").replace("JOB_NODELIST=chi[2801-2802]", "JOB_NODELIST=pod-0")


def test_g1_a_failure_that_only_its_own_rank_shows(engine: Engine, tmp_path: Path) -> None:
    rank0 = k8s_header() + steps(range(15), ranks=None) + summary(1) + summary()
    job = k8s_job(tmp_path, rank0, {1: steps(range(6), ranks=None) + TRACEBACK})
    report = triage_path(str(job), engine=engine)
    assert (report.diagnosis.status, primary(report)) == ("failed", "python-exception")
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.rank == 1
    assert report.launcher == "k8s"


def test_g1_all_ranks_healthy(engine: Engine, tmp_path: Path) -> None:
    rank0 = k8s_header() + steps(range(15), ranks=None) + summary() + summary()
    job = k8s_job(tmp_path, rank0, {1: steps(range(15), ranks=None)})
    report = triage_path(str(job), engine=engine)
    assert (report.diagnosis.status, primary(report)) == ("completed", None)
    assert [(r.rank, r.last) for r in report.progress.ranks] == [(0, 14), (1, 14)]


def test_g2_no_stages_are_expected(engine: Engine, tmp_path: Path) -> None:
    job = k8s_job(tmp_path, k8s_header() + steps(range(15), ranks=None) + summary(), {})
    assert triage_path(str(job), engine=engine).stages == ()


def test_g3_barrier_failure_leaves_no_log(engine: Engine, tmp_path: Path) -> None:
    coord = tmp_path / f"{JOB_ID}-JAX-x" / ".coord"
    coord.mkdir(parents=True)
    (coord / "ready-0").touch()
    (coord / "ready-2").touch()
    report = triage_path(JOB_ID, engine=engine, outputs=tmp_path)
    assert report.files.coord_ranks == (0, 2)
    assert report.files.problem
    assert report.diagnosis.status == "unknown"


def test_g4_a_killed_pod_is_not_called_completed(engine: Engine, tmp_path: Path) -> None:
    job = k8s_job(tmp_path, k8s_header() + steps(range(6), ranks=None), {1: steps(range(6), ranks=None)})
    assert triage_path(str(job), engine=engine).diagnosis.status == "unknown"
