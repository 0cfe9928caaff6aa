"""The seed's checks for GPU memory and for checkpoint errors."""

from __future__ import annotations

import pytest

from slurm_triage.model.report import Report
from tests.conftest import Triage
from tests.diagnosis.texts import OOM, exits, run, start, traceback
from tests.pitfalls.logs import failed_rank, step, summary

BUFFERS = (
    "INTERNAL: RCCL operation ncclGroupEnd() failed: unhandled cuda error. Last NCCL warning(error) log entry (may be "
    "unrelated) 'Failed to CUDA calloc 6291456 bytes'."
)
FAILED = summary(1, "Training FAILED (exit=143)")
LOCK = "0: Training stopped: Checkpointing failed. [Errno 2] No such file or directory: 'manifest.ocdbt.__lock'\n"


def env(fraction: str) -> str:
    return f"0: Show all environment variables:\n0: XLA_PYTHON_CLIENT_MEM_FRACTION={fraction}\n"


def primary(report: Report) -> str | None:
    return report.diagnosis.primary.cls if report.diagnosis.primary is not None else None


@pytest.mark.parametrize(
    "fraction,error,change",
    [
        (".85", OOM, {"_env_XLA_PYTHON_CLIENT_MEM_FRACTION": ".93"}),
        (".93", OOM, {"remat_policy": "full"}),
        (".97", BUFFERS, {"_env_XLA_PYTHON_CLIENT_MEM_FRACTION": ".85"}),
    ],
)
def test_the_memory_fraction_comes_first(
    triage_text: Triage, fraction: str, error: str, change: dict[str, str]
) -> None:
    text = start(remat_policy="minimal") + env(fraction) + traceback(1, f"XlaRuntimeError: {error}")
    report = triage_text(text + failed_rank(1, 1) + FAILED)
    assert primary(report) == "oom-gpu"
    assert dict(report.diagnosis.resubmit.args) == change
    assert report.diagnosis.resubmit.action == "after-fix"


def test_a_full_disk_is_not_a_full_gpu(triage_text: Triage) -> None:
    error = (
        'RuntimeError: Checkpointing failed. RESOURCE_EXHAUSTED: Error writing local file "/c/20/_sharding": Failed to '
        "write 38552 bytes to file 33: No space left on device [os_error_code='28']"
    )
    report = triage_text(start() + run(range(23)) + traceback(0, error) + failed_rank(0, 1) + FAILED)
    assert primary(report) in {"fs-error", "disk-quota"}
    assert not any(f.cls == "oom-gpu" for f in report.diagnosis.findings)


def saved(rank: int, number: int) -> str:
    return f"{rank}: Saved a checkpoint at step {number}.\n"


def test_other_ranks_say_whether_the_checkpoint_is_intact(triage_text: Triage) -> None:
    text = start(4, checkpoint_period=10, enable_checkpointing="True") + run(range(11), (0, 1, 2, 3))
    text += "".join(saved(r, 10) for r in (1, 2, 3)) + LOCK + exits(1, (0, 1, 2, 3))
    report = triage_text(text + "== Training FAILED (exit=1, 3s) ==\n" + summary(1, "Training FAILED (exit=1)"))
    assert primary(report) == "checkpoint-fs-error"
    assert any("3 other ranks report" in n and "intact" in n for n in report.diagnosis.notes)


def test_nobody_saved_it_so_it_must_be_checked(triage_text: Triage) -> None:
    text = start(2, checkpoint_period=10, enable_checkpointing="True") + run(range(11)) + LOCK + exits(1)
    report = triage_text(text + summary(1, "Training FAILED (exit=1)"))
    assert any("Nothing in the log proves" in n for n in report.diagnosis.notes)


def test_the_cost_of_a_save_is_held_against_the_heartbeat_timeout(triage_text: Triage) -> None:
    steps = "".join(step(n, 90.0 if n in {11, 21} else 3.0, r) for n in range(31) for r in (0, 1))
    text = start(checkpoint_period=10, enable_checkpointing="True", jax_distributed_heartbeat_timeout_seconds=100)
    report = triage_text(text + steps + LOCK + exits(1) + summary(1, "Training FAILED (exit=1)"))
    assert any("heartbeat timeout" in n for n in report.diagnosis.notes)


@pytest.mark.parametrize("last", [12, 15])
def test_success_does_not_make_up_for_a_rank_that_left_early(triage_text: Triage, last: int) -> None:
    """Rank 0 leaves the loop, exits 0, and rank 1 runs on: up to the last step, or not."""
    text = start(total=12 if last == 12 else 15, checkpoint_period=4, enable_checkpointing="True")
    text += run(range(5)) + LOCK + run(range(5, 12), (1,))
    report = triage_text(text + "== Training END (98s) ==\n" + summary())
    assert report.diagnosis.status == "failed"
    assert primary(report) == "checkpoint-fs-error"


def test_a_lost_last_checkpoint_is_no_soft_success(triage_text: Triage) -> None:
    text = start(total=12, checkpoint_period=4, enable_checkpointing="True") + run(range(12)) + LOCK
    report = triage_text(text + exits(1) + summary(1, "Training FAILED (exit=1)"))
    assert primary(report) == "checkpoint-fs-error"
