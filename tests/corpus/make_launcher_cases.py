"""Writes the cases ``made/sim-*``: whole launcher jobs whose truth follows from how they are made.

python tests/corpus/make_launcher_cases.py
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from tests.seed.simulated_job import SimulatedJob, local_time  # noqa: E402

Case = tuple[SimulatedJob, dict[str, Any]]
TRACEBACK = 'Traceback (most recent call last):\n  File "/workspace/maxtext/train.py", line 411, in train_loop\n    state, metrics = p_train_step(state, batch)\n'
FAILED, DONE = {"status": "failed"}, {"status": "completed", "primary": None}


def git_steps() -> Case:
    diff = "+completed step: 9999, seconds: 1.0, TFLOP/s/device: 1, Tokens/s/device: 1, total_weights: 1, loss: 1"
    job = SimulatedJob(total=30, git_diff=diff).boot()
    job.steps(0, 30)
    job.finishes()
    return job, {**DONE, "progress": {"last_step": 29, "steps_this_run": 30}}


def retry_loop() -> Case:
    """The job script starts training again after a failure; the second start prints no header."""
    job = SimulatedJob(total=60, period=20).boot()
    job.steps(0, 45)
    job.train_says(f"{TRACEBACK}ValueError: bad batch", 1)
    job.exit_of(1, 1)
    job.exit_of(0, 143)
    job.now += 60
    job.first = 41
    job.all_say(["Config param checkpoint_period: 20", "Config param steps: 60"], training=True)
    job.now += 5
    job.all_say(["restoring from this run's directory step 40"], training=True)
    job.steps(41, 60)
    job.finishes()
    return job, {**DONE, "progress": {"first_step": 41, "last_step": 59, "total_steps": 60, "restored_from": 40}}


def kill_wait() -> Case:
    """The stopped ranks swallow SIGTERM and end by SIGKILL: victims all the same."""
    job = SimulatedJob(ranks=4).boot()
    job.steps(0, 20)
    job.fails(2, 7, victims=137)
    return job, {**FAILED, "primary": ["subprocess-fail", "stage-fail", "node-fail"], "rank": 2}


def cancelled_kill_wait() -> Case:
    job = SimulatedJob(ranks=4).boot()
    job.steps(0, 20)
    job.is_cancelled(code=137)
    return job, {"status": "cancelled", "primary": "cancelled"}


def utc_container() -> Case:
    """Steps show UTC, Slurm's lines a local time eight hours ahead: no hang."""
    job = SimulatedJob(stamped=True).boot()
    job.steps(0, 40)
    job.is_cancelled(hours_ahead=8)
    return job, {"status": "cancelled", "primary": "cancelled"}


def silent_stage() -> Case:
    job = SimulatedJob()
    job.until("ecc")
    job.fails(1, 1)
    return job, {**FAILED, "primary": "stage-fail", "rank": 1}


def old_date() -> Case:
    """A program prints a fixed date; the log has no end."""
    words = "2026-02-12 19:02:11.003217: E external/xla/xla/stream_executor/cuda/cuda_platform.cc:51] failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: UNKNOWN ERROR (303)"
    job = SimulatedJob(ray=True, first_words=words).boot()
    job.steps(0, 30)
    job.say(f"{local_time(job.now).replace('T', ' ')},123\tINFO worker.py:1841 -- Connected to Ray cluster.", 0)
    return job, {"status": "unknown", "primary": "unknown-death", "progress": {"wall_s": None}}


def shared_checkpoints() -> Case:
    job = SimulatedJob(period=10, total=200).boot()
    job.all_say(["Config param checkpoint_dir: /outputs/llama2-70b/run/checkpoints/"], training=True)
    job.steps(0, 32)
    job.train_says(f"{TRACEBACK}RuntimeError: Checkpointing failed. [Errno 2] No such file or directory: 'manifest.ocdbt.__lock'", 1)  # fmt: skip
    job.fails(1, 1)
    return job, {**FAILED, "primary": "checkpoint-fs-error", "progress": {"last_checkpoint": 20, "lost_steps": 11}}


CASES: dict[str, Callable[[], Case]] = {
    "git-steps": git_steps, "retry-loop": retry_loop, "kill-wait": kill_wait,
    "cancelled-kill-wait": cancelled_kill_wait, "utc-container": utc_container, "silent-stage": silent_stage,
    "old-date": old_date, "shared-checkpoints": shared_checkpoints,
}  # fmt: skip


def main() -> None:
    for name, make in CASES.items():
        job, truth = make()
        case = HERE / "made" / f"sim-{name}"
        case.mkdir(exist_ok=True)
        expect = {"id": case.name, "origin": "simulated job", **truth}
        (case / "expect.json").write_text(json.dumps(expect, indent=1) + "\n")
        if make is not shared_checkpoints:
            (case / "log.txt").write_text(job.text())
            continue
        (case / "job").mkdir(exist_ok=True)
        (case / "job.log").write_text(job.text())
        link = case / "job" / "log"
        link.unlink(missing_ok=True)
        link.symlink_to("../job.log")
        for step in ("10", "20", "30.orbax-checkpoint-tmp"):
            step_dir = case / "llama2-70b" / "run" / "checkpoints" / step
            step_dir.mkdir(parents=True, exist_ok=True)
            (step_dir / "_CHECKPOINT_METADATA").write_text("{}\n")


if __name__ == "__main__":
    main()
