"""Lines of MaxText, JAX and the launcher that the checklists are about."""

from __future__ import annotations

from collections.abc import Sequence

from tests.pitfalls.logs import TRAIN_BEGIN, header, step

OOM = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 221.71GiB."
CANCELLED = "slurmstepd-chi2801: error: *** JOB 7 ON chi2801 CANCELLED AT 2026-11-30T01:54:32{} ***\n"
BARRIER = (
    "{r}: ====== BARRIER: Synchronizing hosts before training loop ======\n"
    "{r}: ====== BARRIER PASSED: Starting training loop ======\n"
)


def config(**values: object) -> str:
    """Lines of MaxText's configuration dump, of rank 0."""
    return "".join(f"0: Config param {key}: {value}\n" for key, value in values.items())


def start(nnodes: int = 2, total: int = 400, **values: object) -> str:
    """Header and configuration of a run of ``total`` steps."""
    return header(nnodes, f"steps={total}") + TRAIN_BEGIN + config(steps=total, **values)


def traceback(rank: int, exception: str) -> str:
    lines = [
        "Traceback (most recent call last):",
        '  File "/artifact/utils/monkey_patch_maxtext.py", line 539, in main',
        '    maxtext_train.main(["maxtext_train"] + argv)',
        exception,
    ]
    return "".join(f"{rank}: {line}\n" for line in lines)


def heartbeat(speakers: Sequence[int], accused: Sequence[int]) -> str:
    """What every surviving rank prints when the coordinator declares tasks dead."""
    text = ""
    for rank in speakers:
        lines = [
            "E0212 20:44:10.123456     211 coordination_service_agent.cc:355] Polled an error from coordination service "
            "(this can be an error from this or another task).",
            "F0212 20:44:10.123700     211 client.h:80] Terminating process because the JAX distributed service detected "
            "fatal errors. absl::Status: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):",
            *(f"/job:jax_worker/replica:0/task:{task}" for task in accused),
            "The tasks have crashed. Check the task logs for an earlier error, or scheduler events to debug further.",
        ]
        text += "".join(f"{rank}: {line}\n" for line in lines)
    return text


def exits(code: int, ranks: Sequence[int] = (0, 1)) -> str:
    """All ranks end by themselves with the same code."""
    text = "".join(f"{r}: NODE_EXIT host=chi{2801 + r} exit={code}\n" for r in ranks)
    return text + "".join(f"srun: error: chi{2801 + r}: task {r}: Exited with exit code {code}\n" for r in ranks)


def run(steps: range, ranks: Sequence[int] = (0, 1), seconds: float = 3.0) -> str:
    return "".join(step(n, seconds, r) for n in steps for r in ranks)
