"""Pieces of launcher logs to build test cases from."""

from __future__ import annotations


def header(nnodes: int = 2, args: str = "steps=15", *, job_id: str = "7", ray: bool = False, git: str = "") -> str:
    lines = [
        f"JOB_ID={job_id}",
        "JOB_NAME=JAX-llama2-70b-steps_15",
        f"NNODES={nnodes}",
        f"JOB_NODELIST=chi[{2801}-{2800 + nnodes}]" if nnodes > 1 else "JOB_NODELIST=chi2801",
        "JAX_COORDINATOR_PORT=27127",
        *(["RAY_PORT=6379"] if ray else []),
        f'PASSTHROUGH_ARGS="{args}"',
        "MODEL_NAME=llama2-70b",
        "EXP_TAG=steps_15",
    ]
    summary = f"=== GIT SUMMARY BEGIN ===\n{git}\n=== GIT SUMMARY END ===\n" if git else ""
    stages = (
        '==STAGE TIMEOUTS (override: STAGE_TIMEOUTS="stage:seconds,...")==\n'
        "  preflight    900s\n  pull         900s\n  ecc          300s\n  train        none\n"
        "=================================================================\n"
    )
    return "\n".join(lines) + "\n" + summary + stages


TRAIN_BEGIN = "== Training BEGIN (no timeout) ==\n"


def step(number: int, seconds: float = 3.0, rank: int | None = 0, *, width: int = 1, tgs: float | None = None) -> str:
    label = "" if rank is None else f"{rank:>{width}}: "
    rate = tgs if tgs is not None else 32768 / seconds
    return (
        f"{label}completed step: {number}, seconds: {seconds:.3f}, TFLOP/s/device: 465.1, MFU: 18.6%, "
        f"Tokens/s/device: {rate:.3f}, total_weights: 262144, loss: {10 - number / 100:.3f}\n"
    )


def steps(numbers: range, ranks: int | None = 2, seconds: float = 3.0) -> str:
    """Steps of all ranks, interleaved. ``ranks=None``: no labels."""
    if ranks is None:
        return "".join(step(n, seconds, None) for n in numbers)
    width = len(str(ranks - 1))
    return "".join(step(n, seconds, r, width=width) for n in numbers for r in range(ranks))


def summary(code: int = 0, reason: str | None = None, wall: str = "1m 3s", nodes: int = 2) -> str:
    status = "SUCCESS (exit 0)" if code == 0 else f"FAILED (exit {code})" + (f" — {reason}" if reason else "")
    return (
        "========================== JOB SUMMARY ==========================\n"
        "  Job:    7 (JAX-llama2-70b-steps_15)\n"
        "  Model:  llama2-70b\n"
        f"  Nodes:  {nodes}\n"
        f"  Wall:   {wall}\n"
        f"  Status: {status}\n"
        "=================================================================\n"
    )


def failed_rank(rank: int, code: int, ranks: int = 2) -> str:
    """Exit of one rank and the stop of the others, as kill-on-bad-exit prints them."""
    lines = [
        f"{rank}: NODE_EXIT host=chi{2801 + rank} exit={code}",
        f"srun: error: chi{2801 + rank}: task {rank}: Exited with exit code {code}",
        "srun: launch/slurm: _step_signal: Terminating StepId=7.3",
        "0: slurmstepd-chi2801: error: *** STEP 7.3 ON chi2801 CANCELLED AT 2026-11-30T01:54:32 ***",
    ]
    for other in range(ranks):
        if other != rank:
            lines.append(f"{other}: NODE_EXIT host=chi{2801 + other} exit=143")
            lines.append(f"srun: error: chi{2801 + other}: task {other}: Exited with exit code 143")
    return "\n".join(lines) + "\n== Training FAILED (exit=143, 3s) ==\n"
