"""Every literal of the seed's failure classification table, in a log where the launcher or the program prints it.

Where the seed names a text that no program prints, or prints in another form (see the class's entry in
docs or the rule's references), the real form stands beside the seed's.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.conftest import Triage
from tests.pitfalls.logs import TRAIN_BEGIN, header, steps, summary
from tests.seed import jobs


@dataclass(frozen=True)
class Row:
    cls: str
    text: str
    log: str
    primary: str | None = None
    """The class that must be primary; None: only among the findings."""


TB = 'Traceback (most recent call last):\n  File "/opt/maxtext/train.py", line 7, in <module>\n    main()\n'
NO_HEADER = "[ERROR] pick_free_port: failed to find a free port after 10 attempts\n"


def _pull(text: str, cls: str) -> Row:
    return Row(cls, text, jobs.pull_failure(text), cls)


def _start(text: str, cls: str, primary: str | None = None, **kwargs: object) -> Row:
    return Row(cls, text, jobs.start_failure(text, **kwargs), primary or cls)  # type: ignore[arg-type]


def _train(text: str, cls: str, primary: str | None = None, **kwargs: object) -> Row:
    return Row(cls, text, jobs.training_failure(text, **kwargs), primary or cls)  # type: ignore[arg-type]


ROWS = [
    # Infrastructure failures (before training starts)
    _pull("[ERROR] Pull failed for rocm/jax-training:maxtext-v26.2.", "container-pull-fail"),
    _pull("[ERROR] Authenticated pull failed for rocm/jax-training:maxtext-v26.2.", "container-pull-fail"),
    _pull("[ERROR] Login to docker.io failed. Check DOCKER_USERNAME/DOCKER_TOKEN", "container-pull-fail"),
    _pull(
        "[ERROR] Unable to determine image name or ID from docker load output.\n[ERROR] Load output was:\nopen /x.tar: no such file",
        "container-load-fail",
    ),
    _start(
        "WARNING: No GPU devices detected (no /dev/kfd, no nvidia-smi)\nRuntimeError: Unable to initialize backend 'rocm': no supported devices found for platform ROCM",
        "no-gpu",
    ),
    _start("NCCL FATAL chi2801: Failed to auto-detect NCCL_SOCKET_IFNAME; ABORTING...", "nccl-nic-fail"),
    Row("port-fail", "JAX", NO_HEADER + "FATAL: Could not find a free port for JAX coordinator\n", "port-fail"),
    Row("port-fail", "Ray", NO_HEADER + "FATAL: Could not find a free port for Ray\n", "port-fail"),
    _start("!!! Unknown model: llama9 (no configs/llama9.gpu.yml).", "model-not-found"),
    _start("!!! Model name resolution failed. Exiting...", "model-not-found"),
    _start(
        "Error: no model file matches pattern 'llama9'.\nSupported models:\n  llama2-70b", "model-not-found", ray=True
    ),
    _start("Error: ambiguous model name '70b'. Multiple matches:", "model-not-found"),
    _start(
        "+ echo '[FAIL] Failed to check out yihuang/nosuch in the local maxtext repo.'\n[FAIL] Failed to check out yihuang/nosuch in the local maxtext repo.",
        "patch-branch-fail",
    ),
    _start("[FAIL] Failed to check out nosuch.", "patch-branch-fail"),
    # Stage timeouts
    Row(
        "preflight-timeout", "preflight", jobs.timed_out("Preflight", jobs.PREFLIGHT, "", 905, 900), "preflight-timeout"
    ),
    Row(
        "pull-timeout",
        "pull",
        jobs.timed_out("Docker pull", "== Docker pull BEGIN (timeout=900s) ==\n", jobs.PREFLIGHT_OK, 901, 900),
        "pull-timeout",
    ),
    Row(
        "ecc-timeout",
        "ecc",
        jobs.timed_out(
            "ECC check", "== ECC check BEGIN (timeout=300s) ==\n", jobs.PREFLIGHT_OK + jobs.PULL_OK, 302, 300
        ),
        "ecc-timeout",
    ),
    Row(
        "train-timeout",
        "train",
        jobs.timed_out(
            "Training",
            "== Training BEGIN (timeout=60s) ==\n" + jobs.LAUNCH + steps(range(14)),
            jobs.PREFLIGHT_OK,
            62,
            60,
        ),
        "train-timeout",
    ),
    # Training failures
    _train(
        "E0601 22:14:54.1 123 coordination_service_agent.cc:455] Polled an error from coordination service (this can be an error from this or another task).\nF0601 22:14:54.1 123 client.h:82] Terminating process because the JAX distributed service detected fatal errors. absl::Status: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n/job:jax_worker/replica:0/task:0\nThe tasks have crashed. Check the task logs for an earlier error.",
        "heartbeat-timeout",
    ),
    _train("Out of memory: Killed process 15859 (python3) total-vm:1234kB, anon-rss:1kB", "oom-host", code=137),
    _train(
        "slurmstepd-chi2802: error: Detected 1 oom-kill event(s) in StepId=7.3. Some of your processes may have been killed by the cgroup out-of-memory handler.",
        "oom-host",
        code=137,
    ),
    _train("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python3,pid=15859,uid=0", "oom-host", code=137),
    _train("/artifact/_train.sh: line 311: 12345 Killed                  python3 -u train.py", "signal-kill", code=137),
    _train(
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 221.71GiB.",
        "oom-gpu",
    ),
    _train(
        "E0601 12:00:00.1 1 cuda_executor.cc:1] failed to allocate 2.0KiB: CUDA_ERROR_OUT_OF_MEMORY: out of memory\nRuntimeError: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        "oom-gpu",
    ),
    _train("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.", "oom-gpu"),
    _train(
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[1,2] on /gpu:0",
        "oom-gpu",
    ),
    _train("XLA_ERROR: RESOURCE_EXHAUSTED: Out of memory allocating 5643356 bytes.", "oom-gpu"),
    _train("chi2802:11:12 [0] net.cc:3 NCCL WARN Timeout waiting for connection from peer", "nccl-timeout"),
    _train(
        "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: NCCL operation ncclGroupEnd() failed: unhandled system error. NCCL error 2",
        "nccl-timeout",
    ),
    _train(
        "chi2802:11:12 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<1> with status=12 opcode=0 len=0 vendor err 129",
        "nccl-timeout",
    ),
    _train("Timeout waiting for completion from peer 10.0.0.2", "nccl-timeout"),
    _train(
        "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1, ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
        "nccl-timeout",
    ),
    _start("jaxlib.xla_extension.XlaRuntimeError: INTERNAL: Failed to compile XLA program", "xla-compile-fail"),
    _start("XLA compilation failed: unsupported layout", "xla-compile-fail"),
    _start("INTERNAL: error in HloModule jit_train_step: Instruction type mismatch error", "xla-compile-fail"),
    _train(TB + "ValueError: bad batch", "python-exception"),
    _train("[Node 1 @ chi2802] Training subprocess killed by SIGSEGV (signal 11)", "signal-kill", code=245, ray=True),
    _train(
        "/artifact/_train.sh: line 311: 12345 Segmentation fault      (core dumped) python3 -u train.py",
        "signal-kill",
        code=139,
    ),
    _train("[Node 1 @ chi2802] Training subprocess exited with code 7", "subprocess-fail", code=7, ray=True),
    _train("[Node 1] Actor failed: The actor died unexpectedly before finishing this task.", "actor-fail", ray=True),
    _train(
        "Training stopped: Checkpointing failed. [Errno 2] No such file or directory: 'manifest.ocdbt.__lock'",
        "checkpoint-fs-error",
    ),
    _train("FileNotFoundError: [Errno 2] No such file or directory: 'manifest.ocdbt.__lock'", "checkpoint-fs-error"),
    # Job-level status
    Row(
        "cancelled",
        "scancel",
        jobs.cancelled("0: NODE_EXIT host=chi2801 exit=143\n1: NODE_EXIT host=chi2802 exit=143\n"),
        "cancelled",
    ),
    Row(
        "cancelled",
        "exit 130",
        header(1, job_id="local_20261130_010000_ab12") + steps(range(5), None) + summary(130, nodes=1),
        "cancelled",
    ),
    Row(
        "cancelled",
        "exit 143",
        header(1, job_id="local_20261130_010000_ab12") + steps(range(5), None) + summary(143, nodes=1),
        "cancelled",
    ),
    Row(
        "node-fail",
        "node",
        header()
        + jobs.BEFORE_TRAINING
        + jobs.LAUNCH
        + steps(range(5))
        + "srun: error: Node failure on chi2802\nslurmstepd-chi2801: error: *** JOB 7 ON chi2801 CANCELLED AT 2026-11-30T01:54:32 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n"
        + summary(143, "CANCELLED (scancel / SIGTERM)"),
        "node-fail",
    ),
    Row(
        "stage-fail",
        "stage",
        header() + jobs.PREFLIGHT + "== Preflight FAILED (exit=1, 3s) ==\n" + summary(1, "Preflight FAILED (exit=1)"),
        "stage-fail",
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r.cls}-{r.text.splitlines()[0][:40]}")
def test_signature(row: Row, triage_text: Triage) -> None:
    diagnosis = triage_text(row.log).diagnosis
    assert row.cls in {f.cls for f in diagnosis.findings}
    assert diagnosis.primary is not None
    assert diagnosis.primary.cls == row.primary
    assert diagnosis.status == ("cancelled" if row.cls == "cancelled" else "failed")
    if row.cls in {"stage-fail", "node-fail"}:
        return
    # Marked where it stands, so that the report can quote it.
    first = next(f for f in diagnosis.findings if f.cls == row.cls)
    if first.match is not None and first.match.first.line is not None:
        lines = row.log.splitlines()
        assert first.match.first.text[:40].strip() in lines[first.match.first.line - 1]


@pytest.mark.parametrize(
    "text",
    [
        "0: [Ray] HEAD failed to start (port 6379, dashboard 8265, bind 10.0.0.1)",
        "0: [Ray] HEAD timeout",
        "1: [Ray] WORKER failed",
    ],
)
def test_ray_start_fail_is_no_failure_when_training_goes_on(text: str, triage_text: Triage) -> None:
    """The seed: "falls back to non-Ray"."""
    log = header(ray=True) + jobs.BEFORE_TRAINING + jobs.CONTAINER
    log += f"{text}\n0: [!] Ray cluster failed, falling back to non-Ray mode\n"
    log += jobs.CONFIG + jobs.BARRIER + jobs.LOOP + steps(range(15)) + "== Training END (50s) ==\n" + summary(0)
    report = triage_text(log)
    assert report.diagnosis.status == "completed"
    assert "ray-start-fail" in {f.cls for f in report.diagnosis.findings}


def test_no_gpu_warning_alone_is_no_failure(triage_text: Triage) -> None:
    report = triage_text(jobs.healthy("WARNING: No GPU devices detected (no /dev/kfd, no nvidia-smi)", early=True))
    assert report.diagnosis.status == "completed"
    assert report.diagnosis.primary is None


@pytest.mark.parametrize(
    "accounting, why",
    [
        (
            {"state": "FAILED", "exit_code": "0:53", "reason": "RaisedSignal:53(Real-time_signal_19)", "elapsed": 1},
            "53",
        ),
        ({"state": "FAILED", "exit_code": "0:53", "reason": "JobLaunchFailure"}, "22.05"),
    ],
)
def test_prolog_kill_no_log(accounting: dict[str, object], why: str, engine: object, tmp_path: object) -> None:
    from pathlib import Path

    from slurm_triage.pipeline import Engine, triage_path
    from slurm_triage.slurm.record_file import job_from_record

    assert isinstance(tmp_path, Path)
    assert isinstance(engine, Engine)
    (tmp_path / "7-JAX-x").mkdir()
    (tmp_path / "7-JAX-x" / "log").symlink_to("../7-JAX-x.log")
    job = job_from_record({"job_id": "7", **accounting})
    report = triage_path(str(tmp_path / "7-JAX-x"), engine=engine, job=job)
    assert report.diagnosis.primary is not None, why
    assert report.diagnosis.primary.cls == "prolog-kill-no-log"
    assert report.diagnosis.status == "failed"


def test_unknown_death(triage_text: Triage) -> None:
    log = header() + jobs.BEFORE_TRAINING + jobs.LAUNCH + steps(range(8))
    assert triage_text(log).diagnosis.primary.cls == "unknown-death"  # type: ignore[union-attr]
    ended = triage_text(log, accounting={"job_id": "7", "state": "FAILED", "exit_code": "1:0"})
    assert ended.diagnosis.primary is not None
    assert ended.diagnosis.primary.cls == "unknown-death"
    assert ended.diagnosis.status == "failed"


def test_train_stage_open(triage_text: Triage) -> None:
    """A stage that fails without a word: the stage is named."""
    log = header() + jobs.PREFLIGHT + "== Preflight FAILED (exit=1, 3s) ==\n" + summary(1, "Preflight FAILED (exit=1)")
    primary = triage_text(log).diagnosis.primary
    assert primary is not None
    assert (primary.stage or "").lower() == "preflight"
    assert TRAIN_BEGIN not in log
