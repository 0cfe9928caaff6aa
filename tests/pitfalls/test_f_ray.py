"""Pitfalls of RAY=1 jobs (group F)."""

from __future__ import annotations

from pathlib import Path

from slurm_triage.pipeline import Engine, triage_path
from tests.conftest import Triage
from tests.pitfalls.logs import TRAIN_BEGIN, header, step, steps, summary
from tests.pitfalls.test_b_status import primary


def ray_job(directory: Path, log: str, workers: dict[str, str]) -> Path:
    """A job directory with its log and ``ray_logs/<host>/worker-*.out``."""
    job = directory / "7-JAX-x"
    job.mkdir()
    (directory / "7-JAX-x.log").write_text(log)
    (job / "log").symlink_to("../7-JAX-x.log")
    for host, text in workers.items():
        folder = job / "ray_logs" / host
        folder.mkdir(parents=True)
        name = "worker-" + "a" * 56 + "-01000000-123.out"
        (folder / name).write_text(":job_id:01000000\n:actor_name:MaxTextTrainerActor\n" + text)
        (folder / ("worker-" + "b" * 56 + "-ffffffff-124.out")).write_text(":job_id:ffffffff\n")
    return job


def worker_steps(numbers: range) -> str:
    return "".join(step(n, 3.0, None) for n in numbers)


def test_f1_the_workers_file_knows_steps_that_the_log_lost(engine: Engine, tmp_path: Path) -> None:
    log = header(ray=True) + TRAIN_BEGIN + steps(range(6)) + "0: NODE_EXIT host=chi2801 exit=143\n"
    log += summary(1, "Training FAILED (exit=143)")
    job = ray_job(tmp_path, log, {"chi2801": worker_steps(range(15)), "chi2802": worker_steps(range(15))})
    report = triage_path(str(job), engine=engine)
    assert report.progress.last_step == 14
    assert report.progress.source is not None
    assert "ray_logs" in report.progress.source
    assert primary(report) == "soft-success"


def test_f2_fallback_to_a_run_without_ray(triage_text: Triage) -> None:
    text = header(ray=True) + TRAIN_BEGIN + "0: [Ray] HEAD failed to start (port 6379, dashboard 8265, bind 10.0.0.1)\n"
    text += "0: [!] Ray cluster failed, falling back to non-Ray mode\n" + steps(range(15)) + summary()
    report = triage_text(text)
    assert report.diagnosis.status == "completed"
    assert "ray-start-fail" in {f.cls for f in report.diagnosis.findings}


def test_f3_the_port_that_prometheus_really_took(triage_text: Triage) -> None:
    tunnel = (
        "0:   ssh -J user@login -L 8265:localhost:8265 -L 6006:localhost:6006 -L 9190:localhost:9190 root@chi2801\n"
    )
    text = (
        header(ray=True) + TRAIN_BEGIN + tunnel + "0: [Prometheus] Started on port 9192 (ray: 55080; node_hw: 9400)\n"
    )
    report = triage_text(text + steps(range(15)) + summary())
    assert report.dashboards.prometheus_port == 9192
    assert report.dashboards.head_node == "chi2801"
    assert report.dashboards.tunnel_command is not None
    assert not report.dashboards.live


def test_f4_idle_workers_are_left_out(engine: Engine, tmp_path: Path) -> None:
    job = ray_job(tmp_path, header(ray=True) + TRAIN_BEGIN, {"chi2801": worker_steps(range(3))})
    report = triage_path(str(job), engine=engine)
    workers = [f for f in report.files.logs if f.role == "ray-worker"]
    assert [w.host for w in workers] == ["chi2801"]


def test_f5_restarts_of_the_exporter_are_not_the_trainings(triage_text: Triage) -> None:
    text = header(ray=True) + TRAIN_BEGIN + "0: [Metrics Exporter] Watchdog: exited with code 137, restart #2\n"
    report = triage_text(text + steps(range(15)) + summary())
    assert (report.diagnosis.status, primary(report)) == ("completed", None)
