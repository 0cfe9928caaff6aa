"""Whole jobs of every shape: verdict, place and numbers are known from how the job was made, by the seed's rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurm_triage.model.report import Report
from slurm_triage.pipeline import Engine, triage_path
from tests.conftest import Triage
from tests.seed.simulated_job import SimulatedJob, local_time

SHAPES: dict[str, dict[str, Any]] = {
    "one": {"ranks": 1},
    "two-stamped": {"ranks": 2, "stamped": True},
    "eight-ray": {"ranks": 8, "ray": True, "period": 20},
    "twelve-restored": {"ranks": 12, "period": 20, "first": 21, "stamped": True},
    "many": {"ranks": 64, "step_s": 31.0},
}
EACH_SHAPE = pytest.mark.parametrize("shape", SHAPES)
TRACEBACK = 'Traceback (most recent call last):\n  File "/workspace/maxtext/train.py", line 411, in train_loop\n    state, metrics = p_train_step(state, batch)\n'
XLA = "jaxlib.xla_extension.XlaRuntimeError: "
FAULTS = {
    "oom-gpu": f"{TRACEBACK}{XLA}RESOURCE_EXHAUSTED: Out of memory while trying to allocate 187.44GiB.",
    "nccl-timeout": f"chi2801:683:1190 [2] /workspace/rccl/src/transport/net_ib.cc:1925 NCCL WARN NET/IB : Got completion from peer 10.77.0.9<41962> with status=12 opcode=129 len=0 vendor err 129 (Recv)\n{TRACEBACK}{XLA}INTERNAL: NCCL operation ncclGroupEnd() failed: unhandled system error",
    "xla-compile-fail": f"{TRACEBACK}{XLA}INTERNAL: Failed to compile XLA program: LLVM ERROR: Cannot select: intrinsic",
    "python-exception": f"{TRACEBACK}KeyError: 'input_segmentation'",
    "checkpoint-fs-error": f"{TRACEBACK}RuntimeError: Checkpointing failed. [Errno 2] No such file or directory: 'manifest.ocdbt.__lock'",
    "oom-host": f"{TRACEBACK}MemoryError",
    "config-error": f"{TRACEBACK}ValueError: Key per_device_bach_size was passed at the command line but isn't in config.",
}
HEARTBEAT = (
    "E{clock}.1 123 coordination_service_agent.cc:455] Polled an error from coordination service (this can be an error from this or another task).\n"
    "F{clock}.1 123 client.h:82] Terminating process because the JAX distributed service detected fatal errors. absl::Status: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n"
    "/job:jax_worker/replica:0/task:{accused}\nThe tasks have crashed. Check the task logs for an earlier error."
)


def job_of(shape: str, **more: Any) -> SimulatedJob:
    return SimulatedJob(**{**SHAPES[shape], **more})


def verdict(report: Report) -> tuple[str, str | None]:
    primary = report.diagnosis.primary
    return report.diagnosis.status, primary.cls if primary is not None else None


def assert_place(report: Report, job: SimulatedJob, rank: int, stage: str = "Training") -> None:
    primary = report.diagnosis.primary
    assert primary is not None
    assert (primary.rank, primary.node, primary.stage) == (rank, job.hosts[rank], stage)


def assert_progress(report: Report, job: SimulatedJob) -> None:
    """The seed's table, from what the job did."""
    p, last = report.progress, max(job.last.values())
    assert (p.first_step, p.last_step, p.last_step_min, p.total_steps) == (
        job.first, last, min(job.last.values()), job.total,
    )  # fmt: skip
    assert (p.start, p.restored_from) == (("restored", job.first - 1) if job.first else ("fresh", None))
    assert p.steps_this_run == last - job.first + 1
    assert p.percent == pytest.approx((last + 1) / job.total * 100)
    reference = min(job.last, key=lambda rank: (-job.last[rank], rank))
    assert p.sum_step_s == pytest.approx(job.sum_s[reference], abs=0.01)
    own = [step for step in job.saved if step <= last]
    assert p.last_checkpoint == (max(own) if own else None)
    kept = max(own) if own else job.first - 1
    assert p.lost_steps == (0 if last == job.total - 1 else last - kept)
    if last - job.first > 6:
        assert p.step_time_s == pytest.approx(job.step_s, rel=0.03)
        assert p.remaining_s == pytest.approx((job.total - 1 - last) * job.step_s, rel=0.03)
    if any(job.first < step < last for step in own):
        assert p.checkpoint_cost_s == pytest.approx(job.save_s, rel=0.05)


@EACH_SHAPE
def test_completed(shape: str, triage_text: Triage) -> None:
    job = job_of(shape, total=70).boot()
    job.steps(job.first, 70)
    job.finishes()
    report = triage_text(job.text(), accounting=job.record("COMPLETED", "0:0"))
    assert verdict(report) == ("completed", None)
    assert report.diagnosis.resubmit.action == "none"
    assert_progress(report, job)


@EACH_SHAPE
@pytest.mark.parametrize("cls", FAULTS)
def test_failing_rank(cls: str, shape: str, triage_text: Triage) -> None:
    job = job_of(shape).boot()
    job.steps(job.first, job.first + 33)
    rank = job.ranks - 1
    job.train_says(FAULTS[cls], rank)
    job.fails(rank, 1)
    report = triage_text(job.text())
    assert verdict(report) == ("failed", cls)
    assert_place(report, job, rank)
    assert_progress(report, job)


def test_signature_across_the_cut_of_srun(triage_text: Triage) -> None:
    job = job_of("twelve-restored").boot()
    job.steps(21, 30)
    job.train_says("x" * 1000 + f" {XLA}RESOURCE_EXHAUSTED: Out of memory while trying to allocate 3.1GiB.", 11)
    job.fails(11, 1)
    report = triage_text(job.text())
    assert verdict(report) == ("failed", "oom-gpu")
    assert_place(report, job, 11)


@pytest.mark.parametrize("victims", [143, 137])
@pytest.mark.parametrize("code", [1, 7, 139])
def test_exit_code_alone(code: int, victims: int, triage_text: Triage) -> None:
    """Ranks that swallow SIGTERM (JAX does) end by SIGKILL after KillWait, and are victims all the same."""
    job = SimulatedJob(ranks=4).boot()
    job.steps(0, 20)
    job.fails(2, code, victims=victims)
    report = triage_text(job.text())
    assert verdict(report) == ("failed", "signal-kill" if code == 139 else "subprocess-fail")
    assert_place(report, job, 2)
    assert [e.victim for e in report.diagnosis.exits] == [True, True, False, True]


@pytest.mark.parametrize("stage, name", [("preflight", "Preflight"), ("pull", "Docker pull"), ("ecc", "ECC check")])
def test_stage_that_fails_without_a_word(stage: str, name: str, triage_text: Triage) -> None:
    """Before training no training process can fail: it is the stage."""
    job = SimulatedJob(ranks=2)
    job.until(stage)
    job.fails(1, 1)
    report = triage_text(job.text())
    assert verdict(report) == ("failed", "stage-fail")
    assert_place(report, job, 1, name)


@pytest.mark.parametrize("stage, limit_s", [("preflight", 900), ("pull", 900), ("ecc", 300)])
def test_stage_timeouts(stage: str, limit_s: int, triage_text: Triage) -> None:
    job = SimulatedJob(ranks=2)
    job.until(stage)
    job.now += limit_s
    job.times_out(limit_s)
    assert verdict(triage_text(job.text())) == ("failed", f"{stage}-timeout")


@EACH_SHAPE
def test_training_timeout_while_it_advances(shape: str, triage_text: Triage) -> None:
    job = job_of(shape, train_limit_s=3600, total=5000).boot()
    number = job.first
    while job.now < job.started + 3600:
        job.steps(number, number + 1)
        number += 1
    job.times_out(3600)
    report = triage_text(job.text())
    assert verdict(report) == ("failed", "train-timeout")
    assert_progress(report, job)


@pytest.mark.parametrize("shape", ["two-stamped", "eight-ray", "twelve-restored"])
@pytest.mark.parametrize("kill", ["scancel", "time-limit", "train-timeout", "heartbeat"])
@pytest.mark.parametrize("done", [0, 40])
def test_hang_ends_in_four_ways(kill: str, shape: str, done: int, triage_text: Triage) -> None:
    job = job_of(shape, train_limit_s=14400 if kill == "train-timeout" else None, total=2000).boot()
    job.steps(job.first, job.first + done)
    job.now += 14400 if kill == "train-timeout" else 6600
    if kill == "scancel":
        job.is_cancelled()
    elif kill == "time-limit":
        job.is_cancelled("TIME LIMIT")
    elif kill == "train-timeout":
        job.times_out(14400)
    else:
        for rank in range(job.ranks):
            job.train_says(HEARTBEAT.format(clock=job.clock(), accused=1), rank)
        job.fails(0, 250 if job.ray else 134, also=range(1, job.ranks))
    report = triage_text(job.text())
    if kill == "heartbeat" and not done:
        # No step at all: the timeout may as well have been shorter than the start.
        assert verdict(report)[1] in {"hang", "heartbeat-timeout"}
        return
    assert verdict(report) == ("cancelled" if kill in {"scancel", "time-limit"} else "failed", "hang")
    if done:
        assert_progress(report, job)


@pytest.mark.parametrize("shape", ["two-stamped", "eight-ray", "twelve-restored"])
def test_heartbeat_while_it_advances(shape: str, triage_text: Triage) -> None:
    job = job_of(shape).boot()
    job.steps(job.first, job.first + 40)
    for rank in range(job.ranks):
        job.train_says(HEARTBEAT.format(clock=job.clock(), accused=1), rank)
    job.fails(0, 250 if job.ray else 134, also=range(1, job.ranks))
    report = triage_text(job.text())
    assert verdict(report) == ("failed", "heartbeat-timeout")
    assert "jax_distributed_heartbeat_timeout_seconds" in report.diagnosis.resubmit.args


@pytest.mark.parametrize("hours_ahead", [0, 8, -7])
@pytest.mark.parametrize("code", [143, 137])
@pytest.mark.parametrize("due_to, cls", [("", "cancelled"), ("TIME LIMIT", "time-limit"), ("PREEMPTION", "preempted")])
def test_stopped_while_it_advances(due_to: str, cls: str, code: int, hours_ahead: int, triage_text: Triage) -> None:
    """Also where the container keeps UTC and Slurm's lines show local time: hours between two clocks are no hang."""
    job = SimulatedJob(ranks=4, stamped=True, total=2000).boot()
    job.steps(0, 50)
    job.is_cancelled(due_to, code=code, hours_ahead=hours_ahead)
    report = triage_text(job.text())
    assert verdict(report) == ("cancelled", cls)
    assert_progress(report, job)


@EACH_SHAPE
@pytest.mark.parametrize("silent_s, status", [(20, "running"), (6600, "hanging")])
def test_live_job(silent_s: int, status: str, shape: str, triage_text: Triage) -> None:
    job = job_of(shape, total=2000).boot()
    job.steps(job.first, job.first + 45)
    report = triage_text(job.text(), accounting=job.record("RUNNING", "0:0", ended=False), now=job.now + silent_s)
    assert verdict(report) == (status, None if status == "running" else "hang")
    if job.stamped:
        expected = max(job.last.values()) + int(silent_s / job.step_s)
        assert report.progress.expected_step == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("silent_s, status", [(20, "running"), (6600, "hanging")])
def test_live_without_accounting(silent_s: int, status: str, triage_text: Triage) -> None:
    """Whoever names the present says that the job is alive, unless its log shows an end."""
    job = job_of("two-stamped", total=2000).boot()
    job.steps(0, 45)
    assert verdict(triage_text(job.text(), now=job.now + silent_s))[0] == status
    job.is_cancelled()
    assert verdict(triage_text(job.text(), now=job.now + silent_s)) == ("cancelled", "cancelled")


def test_a_warning_in_a_live_job_is_no_hang(triage_text: Triage) -> None:
    """XLA speaks after 20 seconds of waiting for the other ranks, in every start of a large job."""
    job = job_of("two-stamped").boot()
    job.train_says(
        f"E{job.clock()}.1 4711 rendezvous.cc:38] This thread has been waiting for `Initialize clique` for 20 seconds and may be stuck.",
        0,
    )
    report = triage_text(job.text(), accounting=job.record("RUNNING", "0:0", ended=False), now=job.now + 20)
    assert verdict(report) == ("running", None)


@pytest.mark.parametrize("shape", ["two-stamped", "eight-ray", "twelve-restored"])
@pytest.mark.parametrize("signature", ["a", "b", "c"])
def test_soft_success(signature: str, shape: str, triage_text: Triage) -> None:
    job = job_of(shape, total=70).boot()
    job.steps(job.first, 70)
    if signature == "a":
        job.exit_of(1, 1)
        job.say("== Training FAILED (exit=1, 900s) ==")
        job.summary(1, "Training FAILED (exit=1)")
    else:
        for _ in range(30):
            job.train_says(f"W{job.clock()}.1 66 pending_event_logger.cc:47] PjRt: Pending event still not ready", 0)
            job.now += 20
        if signature == "b":
            job.fails(1, 1)
        else:
            job.is_cancelled("TIME LIMIT")
    report = triage_text(job.text())
    assert verdict(report) == ("completed", "soft-success")
    assert report.diagnosis.resubmit.action == "none"
    assert_progress(report, job)


SPEEDS = {
    "constant": lambda step: 10.0 if step < 80 else 12.6,
    "phased": lambda step: 12.8 if 80 <= step < 110 else 14.5 if 150 <= step < 190 else 10.0,
    "gradual": lambda step: 10.0 * (1 + 0.6 * max(0, step - 60) / 240),
    None: lambda _: 10.0,
}


@pytest.mark.parametrize("pattern", SPEEDS)
@pytest.mark.parametrize("period", [None, 20])
def test_throughput(pattern: str | None, period: int | None, triage_text: Triage) -> None:
    job = SimulatedJob(ranks=4, total=260, step_s=10.0, period=period).boot()
    job.steps(0, 260, SPEEDS[pattern])
    job.finishes()
    report = triage_text(job.text())
    expected = pattern or ("periodic" if period else None)
    assert (report.throughput.degraded, report.throughput.pattern) == (pattern is not None, expected)
    assert verdict(report) == ("completed", "tgs-degradation" if pattern else None)


def test_nothing_counts_in_the_git_summary(triage_text: Triage) -> None:
    job = SimulatedJob(
        total=40,
        git_diff="+completed step: 9999, seconds: 1.0, TFLOP/s/device: 1, Tokens/s/device: 1, total_weights: 1, loss: 1\n"
        "+RESOURCE_EXHAUSTED: Out of memory while trying to allocate\n+0: NODE_EXIT host=x exit=139",
    ).boot()
    job.steps(0, 40)
    job.finishes()
    report = triage_text(job.text())
    assert verdict(report) == ("completed", None)
    assert_progress(report, job)


def test_a_date_of_long_ago_is_not_the_start(triage_text: Triage) -> None:
    """A program that prints a fixed date makes no job of months, and so no hang of months."""
    words = "2026-02-12 19:02:11.003217: E external/xla/xla/stream_executor/cuda/cuda_platform.cc:51] failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: UNKNOWN ERROR (303)"
    job = SimulatedJob(ray=True, total=60, first_words=words).boot()
    job.steps(0, 30)
    job.say(f"{local_time(job.now).replace('T', ' ')},123\tINFO worker.py:1841 -- Connected to Ray cluster.", 0)
    report = triage_text(job.text())
    assert verdict(report) == ("unknown", "unknown-death")
    assert report.progress.wall_s is None or report.progress.wall_s < 3600


def test_a_retry_in_the_script_keeps_header_and_settings(triage_text: Triage) -> None:
    job = SimulatedJob(total=60, period=20).boot()
    job.steps(0, 45)
    job.train_says(FAULTS["python-exception"], 1)
    job.exit_of(1, 1)
    job.exit_of(0, 143)
    job.now += 60
    job.first, job.last, job.sum_s, job.saved = 41, {}, {}, []
    job.all_say(["Config param checkpoint_period: 20", "Config param steps: 60"], training=True)
    job.now += 5
    job.all_say(["restoring from this run's directory step 40"], training=True)
    job.steps(41, 60)
    job.finishes()
    report = triage_text(job.text())
    assert verdict(report) == ("completed", None)
    assert [a.cls for a in report.attempts] == ["python-exception"]
    assert report.cost.gpus == 16
    assert_progress(report, job)


def test_shared_checkpoint_directory_decides(engine: Engine, tmp_path: Path) -> None:
    """The checkpoints of a run lie outside its job directory; a directory with its final name is the proof."""
    job = SimulatedJob(period=20, total=200).boot()
    job.all_say(["Config param checkpoint_dir: /outputs/llama2-70b/run/checkpoints/"], training=True)
    job.steps(0, 62)
    job.train_says(FAULTS["checkpoint-fs-error"], 1)
    job.fails(1, 1)
    checkpoints = tmp_path / "llama2-70b" / "run" / "checkpoints"
    for name in ("20", "40", "60.orbax-checkpoint-tmp"):
        (checkpoints / name).mkdir(parents=True)
    (tmp_path / "4711-JAX-x.log").write_text(job.text())
    (tmp_path / "4711-JAX-x").mkdir()
    report = triage_path(str(tmp_path / "4711-JAX-x"), engine=engine)
    assert (report.progress.last_checkpoint, report.progress.last_checkpoint_confirmed) == (40, True)
    assert report.progress.lost_steps == 21
    assert any("60 was never completed" in note for note in report.diagnosis.notes)
