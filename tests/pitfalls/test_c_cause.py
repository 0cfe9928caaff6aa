"""Pitfalls of the root cause (group C)."""

from __future__ import annotations

import pytest

from tests.conftest import Triage
from tests.pitfalls.logs import TRAIN_BEGIN, failed_rank, header, steps, summary
from tests.pitfalls.test_b_status import CANCEL, STOPPED, primary

FAILED = summary(1, "Training FAILED (exit=143)")


@pytest.mark.parametrize("code,signal", [(139, 11), (134, 6), (137, 9), (7, None), (1, None)])
def test_c1_exit_143_of_the_stage_hides_the_first_failure(triage_text: Triage, code: int, signal: int | None) -> None:
    report = triage_text(header() + TRAIN_BEGIN + steps(range(5)) + failed_rank(1, code) + FAILED)
    assert report.diagnosis.status == "failed"
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.rank == 1
    assert primary(report) == ("signal-kill" if signal else "subprocess-fail")
    by_rank = {e.rank: e for e in report.diagnosis.exits}
    assert (by_rank[1].code, by_rank[1].signal, by_rank[1].victim) == (code, signal, False)
    assert by_rank[0].victim


@pytest.mark.parametrize("code,signal", [(245, 11), (250, 6), (247, 9), (241, 15), (249, 7), (252, 4)])
def test_c2_ray_exit_codes_are_256_minus_signal(triage_text: Triage, code: int, signal: int) -> None:
    text = header(ray=True) + TRAIN_BEGIN + steps(range(5)) + f"1: NODE_EXIT host=chi2802 exit={code}\n"
    report = triage_text(text + FAILED)
    assert report.facts.last.exits[0].signal == signal


def test_c3_empty_host(triage_text: Triage) -> None:
    text = header() + TRAIN_BEGIN + "1: NODE_EXIT host= exit=1\n" + FAILED
    report = triage_text(text)
    assert {e.host for e in report.diagnosis.exits if e.rank == 1} == {"chi2802"}


def test_c4_a_harmless_warning_never_wins(triage_text: Triage) -> None:
    text = header() + TRAIN_BEGIN + "1: WARNING: No GPU devices detected (no /dev/kfd, no nvidia-smi)\n"
    text += (
        steps(range(5)) + '0: Traceback (most recent call last):\n0:   File "x.py", line 3, in f\n0: ValueError: bad\n'
    )
    report = triage_text(text + failed_rank(0, 1) + FAILED)
    assert primary(report) == "python-exception"
    assert report.diagnosis.primary is not None
    assert "ValueError: bad" in report.diagnosis.primary.title


def test_c5_host_memory_text_inside_gpu_text(triage_text: Triage) -> None:
    text = "0: jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 5GiB\n"
    report = triage_text(header() + TRAIN_BEGIN + text + failed_rank(0, 1) + FAILED)
    assert primary(report) == "oom-gpu"
    assert not [f for f in report.diagnosis.findings if f.cls == "oom-host"]


def test_c5_rays_list_of_possible_reasons_is_no_fact(triage_text: Triage) -> None:
    text = (
        "0: (raylet) A worker died or was killed while executing a task by an unexpected system error. There are some "
        "potential root causes. (1) The process is killed by SIGKILL by OOM killer due to high memory usage.\n"
        "0: [Node 0] Actor failed: The actor died unexpectedly before finishing this task.\n"
    )
    report = triage_text(header(ray=True) + TRAIN_BEGIN + steps(range(5)) + text + failed_rank(0, 1) + FAILED)
    assert primary(report) == "actor-fail"


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: No GPU devices detected (no /dev/kfd, no nvidia-smi)",
        "2026-02-12 19:02:11.003217: E external/xla/xla/stream_executor/cuda/cuda_platform.cc:51] failed call to cuInit: "
        "INTERNAL: CUDA error: Failed call to cuInit: UNKNOWN ERROR (303)",
        "chi1:66:66 [0] /workspace/rccl/src/init.cc:2095 NCCL WARN MSCCL++: Feature not enabled. ENABLE_MSCCLPP must be defined",
        "NCCL WARN LL cutoff points not detected for a supported arch gfx950",
        "[WARN] Failed to install py-spy (optional diagnostic tool)",
        "ERROR: No matching distribution found for py-spy",
        "/bin/bash: line 2: ulimit: open files: cannot modify limit: Operation not permitted",
        "Error response from daemon: No such container: maxtext-slurm-7-node0",
        "[WARN] Forcing NCCL_DMABUF_ENABLE=0 (mount /boot read-only to keep DMABUF enabled).",
        "[Ray] Retry 1/18...",
        "Token indices sequence length is longer than the specified maximum sequence length for this model (5 > 4)",
        "No hardware is found. Using default TPU version: jellyfish",
    ],
)
def test_c6_lines_of_healthy_jobs(triage_text: Triage, line: str) -> None:
    report = triage_text(header() + TRAIN_BEGIN + f"0: {line}\n1: {line}\n" + steps(range(15)) + summary())
    assert (report.diagnosis.status, primary(report)) == ("completed", None)


def test_c7_errors_after_the_cancellation_are_teardown(triage_text: Triage) -> None:
    after = (
        "0: Error response from daemon: cannot remove container x: could not kill container: tried to kill container, "
        "but did not receive an exit event\n"
        '0: Traceback (most recent call last):\n0:   File "x.py", line 1, in f\n0: RuntimeError: interrupted\n'
    )
    text = header() + TRAIN_BEGIN + steps(range(5)) + CANCEL.format("") + after + STOPPED
    report = triage_text(text + summary(143, "CANCELLED (scancel / SIGTERM)"))
    assert (report.diagnosis.status, primary(report)) == ("cancelled", "cancelled")


def test_c8_stage_timeout_kills_are_not_memory_kills(triage_text: Triage) -> None:
    text = (
        header() + "== Preflight BEGIN (timeout=900s) ==\n"
        "srun: error: chi2801: task 0: Killed\nsrun: error: chi2802: task 1: Killed\n"
        '== Preflight TIMEOUT (905s/900s) ==\n  Hint: STAGE_TIMEOUTS="preflight:<seconds>" to adjust.\n'
    )
    report = triage_text(text + summary(1, "Preflight TIMEOUT (905s/900s)"))
    assert primary(report) == "preflight-timeout"
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.stage == "Preflight"


def test_c9_cancelled_hang_by_arithmetic(triage_text: Triage) -> None:
    text = header() + TRAIN_BEGIN + steps(range(10), seconds=30) + CANCEL.format("") + STOPPED
    report = triage_text(text + summary(143, "CANCELLED (scancel / SIGTERM)", wall="2h 12m 3s"))
    assert (report.diagnosis.status, primary(report)) == ("cancelled", "hang")
    assert "cancelled" in {f.cls for f in report.diagnosis.findings}


def test_c9_a_short_job_is_not_called_hung(triage_text: Triage) -> None:
    text = header() + TRAIN_BEGIN + steps(range(10), seconds=3) + CANCEL.format("") + STOPPED
    report = triage_text(text + summary(143, "CANCELLED (scancel / SIGTERM)", wall="12m 3s"))
    assert primary(report) == "cancelled"


def heartbeat(rank: int, tasks: str = "1") -> str:
    return (
        f"{rank}: E1130 02:15:47.248 537 coordination_service_agent.cc:289] Polled an error from coordination service "
        "(this can be an error from this or another task).\n"
        f"{rank}: F1130 02:15:47.249 548 client.h:82] Terminating process because the JAX distributed service detected "
        "fatal errors. absl::Status: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n"
        f"{rank}: /job:jax_worker/replica:0/task:{tasks}\n"
        f"{rank}: The tasks have crashed. Check the task logs for an earlier error.\n"
    )


def test_c10_heartbeat_kill_while_training_advances(triage_text: Triage) -> None:
    text = header(args="steps=100") + TRAIN_BEGIN + steps(range(60), seconds=30) + heartbeat(0) + heartbeat(1)
    report = triage_text(text + failed_rank(0, 134) + summary(1, "Training FAILED (exit=143)", wall="42m 0s"))
    assert primary(report) == "heartbeat-timeout"


def test_c10_hang_that_ended_in_a_heartbeat_kill(triage_text: Triage) -> None:
    text = header(args="steps=100") + TRAIN_BEGIN + steps(range(60), seconds=30) + heartbeat(0) + heartbeat(1)
    report = triage_text(text + failed_rank(0, 134) + summary(1, "Training FAILED (exit=143)", wall="3h 42m 0s"))
    assert primary(report) == "hang"
    assert "heartbeat-timeout" in {f.cls for f in report.diagnosis.findings if f.role == "consequence"}


def test_c10_init_phase(triage_text: Triage) -> None:
    text = header(args="steps=100") + TRAIN_BEGIN + heartbeat(0) + heartbeat(1)
    report = triage_text(text + failed_rank(0, 134) + summary(1, "Training FAILED (exit=143)", wall="4m 0s"))
    assert primary(report) == "heartbeat-timeout"
    assert any("No step had completed" in n for n in report.diagnosis.notes)
    assert "jax_distributed_heartbeat_timeout_seconds" in report.diagnosis.resubmit.args


def test_c10_true_death_of_the_accused(triage_text: Triage) -> None:
    text = header(args="steps=100") + TRAIN_BEGIN + steps(range(60), seconds=30)
    text += (
        '1: Traceback (most recent call last):\n1:   File "x.py", line 1, in f\n1: ValueError: bad batch\n'
        + heartbeat(0)
    )
    report = triage_text(text + failed_rank(0, 134) + summary(1, "Training FAILED (exit=143)", wall="42m 0s"))
    assert primary(report) == "python-exception"
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.rank == 1


def test_c11_one_rank_fails_while_another_finishes(triage_text: Triage) -> None:
    text = header() + TRAIN_BEGIN + steps(range(7))
    text += '1: Traceback (most recent call last):\n1:   File "x.py", line 1, in f\n1: ValueError: bad batch\n'
    text += "".join(line for line in steps(range(7, 15)).splitlines(True) if line.startswith("0:"))
    report = triage_text(text + failed_rank(1, 1) + FAILED)
    assert (report.diagnosis.status, primary(report)) == ("failed", "python-exception")


@pytest.mark.parametrize(
    "ending",
    [
        failed_rank(1, 1) + summary(1, "Training FAILED (exit=143)"),
        "0: NODE_EXIT host=chi2801 exit=143\n1: NODE_EXIT host=chi2802 exit=143\n== Training FAILED (exit=143, 3s) ==\n"
        + summary(1, "Training FAILED (exit=143)"),
        CANCEL.format(" DUE TO TIME LIMIT") + STOPPED + summary(143, "CANCELLED (scancel / SIGTERM)"),
    ],
    ids=["one rank exits 1", "all ranks exit 143", "time limit during teardown"],
)
def test_c12_three_forms_of_soft_success(triage_text: Triage, ending: str) -> None:
    report = triage_text(header() + TRAIN_BEGIN + steps(range(15)) + ending)
    assert primary(report) == "soft-success"
    assert report.diagnosis.resubmit.action == "none"


def test_c13_started_save_proves_nothing(triage_text: Triage) -> None:
    text = header(args="steps=100") + TRAIN_BEGIN + "0: Config param checkpoint_period: 5\n"
    text += "0: Config param enable_checkpointing: True\n0: Config param async_checkpointing: True\n"
    text += steps(range(7)) + "0: Started an asynchronous checkpoint save for step 5\n" + steps(range(7, 9))
    report = triage_text(text + failed_rank(1, 139) + FAILED)
    assert not report.progress.last_checkpoint_confirmed


def test_c14_exit_124_in_a_stage_without_limit(triage_text: Triage) -> None:
    text = (
        header()
        + TRAIN_BEGIN
        + steps(range(5))
        + "0: NODE_EXIT host=chi2801 exit=124\n== Training TIMEOUT (12s/nones) ==\n"
    )
    report = triage_text(text + summary(1, "Training TIMEOUT (12s/nones)"))
    assert report.facts.last.stages[-1].limit_s is None


def test_c15_signal_in_one_gpu_per_process_mode(triage_text: Triage) -> None:
    text = header(ray=True) + TRAIN_BEGIN + steps(range(5)) + "1: + _train_rc=245\n1: NODE_EXIT host=chi2802 exit=245\n"
    report = triage_text(text + FAILED)
    assert primary(report) == "signal-kill"
    assert report.diagnosis.primary is not None
    assert "SIGSEGV" in report.diagnosis.primary.title
