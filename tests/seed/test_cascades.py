"""The seed's cascades: the initiating event is primary, everything that followed from it is listed."""

from __future__ import annotations

import pytest

from slurm_triage.model.report import Report
from tests.conftest import Triage
from tests.pitfalls.logs import TRAIN_BEGIN, failed_rank, header, steps, summary
from tests.seed import jobs

HEARTBEAT = (
    "{r}: E0601 22:14:54.1 123 coordination_service_agent.cc:455] Polled an error from coordination service (this can be an error from this or another task).\n"
    "{r}: F0601 22:14:54.1 123 client.h:82] Terminating process because the JAX distributed service detected fatal errors. absl::Status: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n"
    "{r}: /job:jax_worker/replica:0/task:1\n"
    "{r}: The tasks have crashed. Check the task logs for an earlier error, or scheduler events (e.g. preemption, eviction) to debug further.\n"
)
NCCL = "{r}: chi2801:11:12 [0] net_ib.cc:1295 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<1> with status=12 opcode=0 len=0 vendor err 129\n"
BEGIN = jobs.BEFORE_TRAINING + jobs.LAUNCH
CANCEL = "slurmstepd-chi2801: error: *** JOB 7 ON chi2801 CANCELLED AT 2026-11-30T01:54:32 ***\n"


def classes(report: Report) -> set[str]:
    return {f.cls for f in report.diagnosis.findings}


def primary(report: Report) -> str | None:
    return report.diagnosis.primary.cls if report.diagnosis.primary is not None else None


def heartbeat(*ranks: int) -> str:
    return "".join(HEARTBEAT.format(r=r) for r in ranks)


def end(code: int = 1, wall: str = "2m 0s") -> str:
    return (
        "".join(f"{r}: NODE_EXIT host=chi{2801 + r} exit=134\n" for r in (0, 1))
        + "== Training FAILED (exit=143, 100s) ==\n"
        + summary(code, "Training FAILED (exit=143)", wall=wall)
    )


def test_oom_then_nccl_then_heartbeat(triage_text: Triage) -> None:
    log = header() + BEGIN + steps(range(8))
    log += "1: Out of memory: Killed process 15859 (python3) total-vm:1234kB, anon-rss:1kB\n"
    log += NCCL.format(r=0) + HEARTBEAT.format(r=0) + failed_rank(1, 137) + summary(1, "Training FAILED (exit=143)")
    report = triage_text(log)
    assert primary(report) == "oom-host"
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.rank == 1
    assert {"nccl-timeout", "heartbeat-timeout"} <= classes(report)


def test_gpu_oom_then_nccl_then_heartbeat(triage_text: Triage) -> None:
    log = header() + BEGIN + steps(range(8))
    log += "1: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 221.71GiB.\n"
    log += NCCL.format(r=0) + HEARTBEAT.format(r=0) + failed_rank(1, 1) + summary(1, "Training FAILED (exit=143)")
    report = triage_text(log)
    assert primary(report) == "oom-gpu"
    assert {"nccl-timeout", "heartbeat-timeout"} <= classes(report)


@pytest.mark.parametrize("kill", ["train", "heartbeat"])
def test_nccl_error_then_stall(kill: str, triage_text: Triage) -> None:
    """NCCL network error, all-reduce hangs, the stage timeout or the heartbeat ends it."""
    log = header() + BEGIN + steps(range(8)) + NCCL.format(r=0)
    if kill == "train":
        log += "srun: error: chi2801: task 0: Killed\n== Training TIMEOUT (7205s/7200s) ==\n" + summary(
            1, "Training TIMEOUT (7205s/7200s)", wall="2h 0m 5s"
        )
    else:
        log += heartbeat(0, 1) + end(wall="2h 0m 5s")
    report = triage_text(log)
    assert primary(report) == "nccl-timeout"
    assert ("train-timeout" if kill == "train" else "heartbeat-timeout") in classes(report)


def test_node_dies_silently_then_hang(triage_text: Triage) -> None:
    """Steps stop, nothing is printed, scancel two hours later: hang, with cancelled as the mechanism."""
    report = triage_text(
        header() + BEGIN + steps(range(8)) + CANCEL + summary(143, "CANCELLED (scancel / SIGTERM)", wall="2h 10m 0s")
    )
    assert primary(report) == "hang"
    assert report.diagnosis.status == "cancelled"
    assert "cancelled" in classes(report)


def test_xla_then_exception_then_subprocess(triage_text: Triage) -> None:
    text = 'INTERNAL: Failed to compile XLA program\nTraceback (most recent call last):\n  File "train.py", line 1, in <module>\njaxlib.xla_extension.XlaRuntimeError: INTERNAL: Failed to compile XLA program'
    log = header(ray=True) + jobs.BEFORE_TRAINING + jobs.CONTAINER + jobs.labelled(text, 0)
    log += "0: (MaxTextTrainerActor pid=7) [Node 0 @ chi2801] Training subprocess exited with code 1\n" + failed_rank(
        0, 1
    )
    report = triage_text(log + summary(1, "Training FAILED (exit=143)"))
    assert primary(report) == "xla-compile-fail"
    assert {"subprocess-fail", "stage-fail"} <= classes(report)


def test_hang_then_heartbeat(triage_text: Triage) -> None:
    """The most commonly misdiagnosed one: two hours of silence, then every task reports the heartbeat."""
    report = triage_text(header() + BEGIN + steps(range(8)) + heartbeat(0, 1) + end(wall="2h 10m 0s"))
    assert primary(report) == "hang"
    assert "heartbeat-timeout" in classes(report)
    notes = " ".join(report.diagnosis.notes)
    assert "stood still" in notes
    assert "alive" in notes


@pytest.mark.parametrize("kill", ["scancel", "train", "time-limit", "heartbeat"])
def test_hang_ends_in_four_ways(kill: str, triage_text: Triage) -> None:
    log = header() + BEGIN + steps(range(8))
    wall = "2h 10m 0s"
    log += {
        "scancel": CANCEL + summary(143, "CANCELLED (scancel / SIGTERM)", wall=wall),
        "train": "srun: error: chi2801: task 0: Killed\n== Training TIMEOUT (7805s/7800s) ==\n"
        + summary(1, "Training TIMEOUT (7805s/7800s)", wall=wall),
        "time-limit": CANCEL.replace(" ***\n", " DUE TO TIME LIMIT ***\n").replace("*** JOB", "*** JOB")
        + summary(143, "CANCELLED (scancel / SIGTERM)", wall=wall),
        "heartbeat": heartbeat(0, 1) + end(wall=wall),
    }[kill]
    assert primary(triage_text(log)) == "hang"


def test_hang_before_step_0(triage_text: Triage) -> None:
    """All tasks reached the BARRIER and then went silent."""
    log = header() + jobs.BEFORE_TRAINING + jobs.CONTAINER + jobs.CONFIG + jobs.BARRIER + CANCEL
    report = triage_text(log + summary(143, "CANCELLED (scancel / SIGTERM)", wall="2h 10m 0s"))
    assert primary(report) == "hang"
    assert "before the first step" in (report.diagnosis.primary.title if report.diagnosis.primary else "")


# The heartbeat checklist -----------------------------------------------------------------------------------------------


def test_heartbeat_item_1_accused_task_reports_itself(triage_text: Triage) -> None:
    report = triage_text(header() + BEGIN + steps(range(8)) + heartbeat(0, 1) + end())
    assert primary(report) == "heartbeat-timeout"
    assert any("rank 1" in n.lower() and "alive" in n for n in report.diagnosis.notes)
    assert any("progressing until the alarm" in n for n in report.diagnosis.notes)


@pytest.mark.parametrize(
    "text, cls",
    [
        ("Traceback (most recent call last):\n  File \"t.py\", line 1, in f\nValueError: bad batch", "python-exception"),
        ("chi2802:1:2 [0] net_ib.cc:1 NCCL WARN NET/IB: Got completion from peer 10.0.0.1<1> with status=12 opcode=0 len=0 vendor err 129", "nccl-timeout"),
        ("/artifact/_train.sh: line 311: 12345 Killed                  python3 -u train.py", "signal-kill"),
    ],
)  # fmt: skip
def test_heartbeat_item_2_true_death(text: str, cls: str, triage_text: Triage) -> None:
    report = triage_text(header() + BEGIN + steps(range(8)) + jobs.labelled(text, 1) + heartbeat(0) + end())
    assert primary(report) == cls
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.rank == 1
    if cls != "nccl-timeout":
        assert any("really died" in n for n in report.diagnosis.notes)


def test_heartbeat_init_phase(triage_text: Triage) -> None:
    """No step: the timeout is shorter than start-up, and this repeats."""
    log = header() + jobs.BEFORE_TRAINING + jobs.CONTAINER + jobs.CONFIG + heartbeat(0, 1) + end()
    report = triage_text(log)
    assert primary(report) == "heartbeat-timeout"
    assert any("No step had completed" in n for n in report.diagnosis.notes)
    assert "jax_distributed_heartbeat_timeout_seconds" in report.diagnosis.resubmit.args


@pytest.mark.parametrize("seconds, period, least", [(3.0, 10, 3600), (30.0, 200, 14400)])
def test_heartbeat_item_5_the_cure_is_hours(seconds: float, period: int, least: int, triage_text: Triage) -> None:
    """From the job's own numbers: a short period of short steps needs an hour, the seed's example four."""
    begin = BEGIN.replace("checkpoint_period: 10", f"checkpoint_period: {period}")
    report = triage_text(header() + begin + steps(range(8), seconds=seconds) + heartbeat(0, 1) + end(wall="6m 0s"))
    assert int(report.diagnosis.resubmit.args["jax_distributed_heartbeat_timeout_seconds"]) >= least


# GPU OOM: fraction logic -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fraction, text, wanted",
    [
        (".85", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 221.71GiB.", "raise"),
        (".93", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 221.71GiB.", "remat_policy=full"),
        (".97", "chi2802:1:2 [0] NCCL WARN Cuda failure 'out of memory'", "lower"),
        (None, "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 221.71GiB.", "check it first"),
    ],
)
def test_gpu_oom_fraction(fraction: str | None, text: str, wanted: str, triage_text: Triage) -> None:
    env = f"1: Show all environment variables:\n1: XLA_PYTHON_CLIENT_MEM_FRACTION={fraction}\n" if fraction else ""
    log = (
        header()
        + jobs.BEFORE_TRAINING
        + jobs.CONTAINER
        + env
        + jobs.CONFIG
        + jobs.labelled(text, 1)
        + failed_rank(1, 1)
    )
    report = triage_text(log + summary(1, "Training FAILED (exit=143)"))
    assert primary(report) == "oom-gpu"
    assert any(wanted in note for note in report.diagnosis.notes)


# Checkpoint: ask all workers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "others, wanted", [("1: Saved a checkpoint at step 10.\n", "probably intact"), ("", "Nothing in the log proves")]
)
def test_checkpoint_asks_all_workers(others: str, wanted: str, triage_text: Triage) -> None:
    error = "0: Training stopped: Checkpointing failed. [Errno 2] No such file or directory: 'manifest.ocdbt.__lock'\n"
    log = (
        header()
        + BEGIN
        + steps(range(11))
        + others
        + error
        + failed_rank(0, 1)
        + summary(1, "Training FAILED (exit=143)")
    )
    report = triage_text(log)
    assert primary(report) == "checkpoint-fs-error"
    assert any(wanted in note for note in report.diagnosis.notes)


# Node exit codes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code, ray, signal",
    [
        (137, False, 9),
        (134, False, 6),
        (139, False, 11),
        (247, True, 9),
        (250, True, 6),
        (245, True, 11),
        (1, False, None),
    ],
)
def test_node_exit_codes(code: int, ray: bool, signal: int | None, triage_text: Triage) -> None:
    log = header(ray=ray) + BEGIN + steps(range(8)) + failed_rank(1, code) + summary(1, "Training FAILED (exit=143)")
    report = triage_text(log)
    exits = {e.rank: e for e in report.diagnosis.exits}
    assert exits[1].signal == signal
    assert not exits[1].victim
    assert exits[0].victim
    assert primary(report) == ("signal-kill" if signal else "subprocess-fail")
    assert report.diagnosis.primary is not None
    assert (report.diagnosis.primary.rank, report.diagnosis.primary.node) == (1, "chi2802")


# Soft success: three signatures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["one-rank-exit-1", "all-143", "walltime"])
def test_soft_success(how: str, triage_text: Triage) -> None:
    log = header() + BEGIN + steps(range(15))
    log += {
        "one-rank-exit-1": failed_rank(1, 1).replace("exit=143", "exit=1") + summary(1, "Training FAILED (exit=1)"),
        "all-143": failed_rank(1, 1) + summary(1, "Training FAILED (exit=143)", wall="20m 0s"),
        "walltime": CANCEL.replace(" ***\n", " DUE TO TIME LIMIT ***\n")
        + summary(143, "CANCELLED (scancel / SIGTERM)", wall="2h 0m 3s"),
    }[how]
    report = triage_text(log)
    assert primary(report) == "soft-success"
    assert report.diagnosis.status == "completed"
    assert report.diagnosis.resubmit.action == "none"
    assert TRAIN_BEGIN in log
