"""GPU-hours used and lost."""

from __future__ import annotations

import pytest

from slurm_triage.model.facts import AttemptFacts, Header
from slurm_triage.model.files import JobFiles
from slurm_triage.model.job import Job
from slurm_triage.model.progress import Cost
from slurm_triage.progress.cost import cost
from slurm_triage.progress.project import project
from tests.progress.builders import attempt, clocked, files, series

START = 1_800_000_000.0
HEADER = Header(job_id="7877", nnodes=2, passthrough_args="steps=100")
SAVING = {"steps": 100, "enable_checkpointing": True, "checkpoint_period": 10}


def cost_of(
    run: AttemptFacts, job: Job, nodes: int | None = None, *, now: float | None = None, on_disk: JobFiles | None = None
) -> Cost:
    return cost(job, run, project(run, on_disk or JobFiles(), job, now), nodes)


def ended(state: str, hours: float = 2.0, gpus: int | None = 16) -> Job:
    return Job(start=START, end=START + hours * 3600, state=state, gpus=gpus)


def test_a_completed_job_lost_nothing() -> None:
    run = attempt(series([30.0] * 100), config={"steps": 100})
    assert cost_of(run, ended("COMPLETED")) == Cost(16, 32.0, 0.0)


def test_soft_success_lost_nothing() -> None:
    run = attempt(series([30.0] * 100), config={"steps": 100})
    assert cost_of(run, ended("FAILED")).gpu_hours_lost == 0.0


def test_without_a_checkpoint_all_is_lost() -> None:
    run = attempt(series([30.0] * 50), config={"steps": 100, "enable_checkpointing": False})
    assert cost_of(run, ended("FAILED")) == Cost(16, 32.0, 32.0)


def test_a_job_that_never_trained_lost_all() -> None:
    assert cost_of(attempt(), ended("FAILED")).gpu_hours_lost == 32.0


def test_since_the_last_checkpoint_and_the_silence() -> None:
    run = attempt(clocked([36.0] * 95, START + 180), config=SAVING)
    saved = files(checkpoints=[(0, True), (90, True)])
    found = cost_of(run, ended("CANCELLED"), on_disk=saved)
    silent_s = 7200 - 180 - 95 * 36
    assert found.gpu_hours_lost == pytest.approx(16 * (4 * 36 + silent_s) / 3600)


def test_unknown_loss_stays_unknown() -> None:
    run = attempt(series([30.0] * 50), config={"steps": 100})
    assert cost_of(run, ended("FAILED")) == Cost(16, 32.0, None)


def test_a_healthy_live_job_has_lost_nothing_yet_and_a_hanging_one_has() -> None:
    run = attempt(clocked([30.0] * 50, START), config={"steps": 100, "enable_checkpointing": False})
    job = Job(start=START, state="RUNNING", gpus=8)
    assert cost_of(run, job, now=START + 1600) == Cost(8, pytest.approx(8 * 1600 / 3600), None)
    assert cost_of(run, job, now=START + 5100).gpu_hours_lost == pytest.approx(8 * 5100 / 3600)


def test_success_without_a_known_total() -> None:
    run = attempt(series([30.0] * 50))
    assert cost_of(run, ended("COMPLETED")).gpu_hours_lost == 0.0
    assert cost_of(attempt(series([30.0] * 50), wall_s=3600.0, success=True), Job(gpus=8)) == Cost(8, 8.0, 0.0)


def test_gpus_from_accounting_come_first() -> None:
    run = attempt(header=HEADER)
    assert cost_of(run, ended("FAILED", gpus=4), 2).gpus == 4


def test_gpus_from_the_environment_then_from_one_process_per_gpu() -> None:
    assert cost_of(attempt(header=HEADER, env={"GPUS_PER_NODE": "4"}, procs_per_node=2), Job(), 3).gpus == 12
    assert cost_of(attempt(header=HEADER, procs_per_node=3), Job(), 2).gpus == 6


def test_the_launcher_asks_for_eight() -> None:
    assert cost_of(attempt(header=HEADER), Job(), None).gpus == 16
    assert cost_of(attempt(header=HEADER, procs_per_node=1), Job(), 3).gpus == 24


@pytest.mark.parametrize("job_id", ["local_20260301_120000_ab12", "k8s-20260301-120000-ab12", None])
def test_eight_is_never_guessed_elsewhere(job_id: str | None) -> None:
    header = Header(job_id=job_id, nnodes=2, passthrough_args="steps=100")
    assert cost_of(attempt(header=header), ended("FAILED", gpus=None)) == Cost(None, None, None)
    assert cost_of(attempt(header=Header(job_id="7877", nnodes=2)), ended("FAILED", gpus=None)).gpus is None


def test_without_a_wall_time_there_are_no_hours() -> None:
    assert cost_of(attempt(series([30.0] * 50)), Job(gpus=8)) == Cost(8, None, None)


def test_the_whole_job_is_paid_for_not_only_its_last_attempt() -> None:
    run = attempt(clocked([30.0] * 50, START + 3600), index=1, start_time=START + 3500, end_time=START + 5100)
    assert cost_of(run, ended("FAILED")).gpu_hours == 32.0
