"""Whole launcher logs around one text: where in a job it is printed decides what stands before and after it."""

from __future__ import annotations

from tests.pitfalls.logs import TRAIN_BEGIN, failed_rank, header, steps, summary

PREFLIGHT = "== Preflight BEGIN (timeout=900s) ==\n0: chi2801 | disk free: 74G -> 74G (cleanup)\n1: chi2802 | disk free: 74G -> 74G (cleanup)\n"
PREFLIGHT_OK = PREFLIGHT + "== Preflight END (2s) ==\n"
PULL_OK = "== Docker pull BEGIN (timeout=900s) ==\n0: [INFO] Execution mode: pull-only\n1: [INFO] Execution mode: pull-only\n== Docker pull END (1s) ==\n"
ECC_OK = "== ECC check BEGIN (timeout=300s) ==\n0: chi2801: OK (no ECC/UMC errors reported)\n1: chi2802: OK (no ECC/UMC errors reported)\n== ECC check END (1s) ==\n"
BEFORE_TRAINING = PREFLIGHT_OK + PULL_OK + ECC_OK + TRAIN_BEGIN
CONTAINER = "".join(f"{r}: ==STARTING DOCKER CONTAINER== (maxtext-slurm-7-node{r})\n" for r in (0, 1))
CONFIG = "".join(
    f"{r}: Config param {key}: {value}\n"
    for r in (0, 1)
    for key, value in (("checkpoint_period", 10), ("enable_checkpointing", True), ("steps", 15))
)
BARRIER = "".join(f"{r}: ====== BARRIER: Synchronizing hosts before training loop ======\n" for r in (0, 1))
LOOP = "".join(f"{r}: ====== BARRIER PASSED: Starting training loop ======\n" for r in (0, 1))
LAUNCH = CONTAINER + CONFIG + BARRIER + LOOP


def labelled(text: str, rank: int | None) -> str:
    """Every line of a text with the label that `srun -l` gives it."""
    label = "" if rank is None else f"{rank}: "
    return "".join(f"{label}{line}\n" for line in text.splitlines())


def pull_failure(text: str) -> str:
    end = "0: NODE_EXIT host=chi2801 exit=1\nsrun: error: chi2801: task 0: Exited with exit code 1\n== Docker pull FAILED (exit=1, 3s) ==\n"
    return (
        header()
        + PREFLIGHT_OK
        + "== Docker pull BEGIN (timeout=900s) ==\n"
        + labelled(text, 0)
        + end
        + summary(1, "Docker pull FAILED (exit=1)")
    )


def start_failure(text: str, rank: int = 0, code: int = 1, *, ray: bool = False) -> str:
    """Rank ``rank`` prints the text before the first step and takes the job down."""
    return (
        header(ray=ray)
        + BEFORE_TRAINING
        + CONTAINER
        + labelled(text, rank)
        + failed_rank(rank, code)
        + summary(1, "Training FAILED (exit=143)")
    )


def training_failure(
    text: str, rank: int = 1, code: int = 1, *, ray: bool = False, done: int = 8, args: str = "steps=15"
) -> str:
    """Rank ``rank`` prints the text after ``done`` steps and takes the job down."""
    return (
        header(ray=ray, args=args)
        + BEFORE_TRAINING
        + LAUNCH
        + steps(range(done))
        + labelled(text, rank)
        + failed_rank(rank, code)
        + summary(1, "Training FAILED (exit=143)")
    )


def timed_out(stage: str, begin: str, before: str, elapsed: int, limit: int) -> str:
    key = {"Preflight": "preflight", "Docker pull": "pull", "ECC check": "ecc", "Training": "train"}[stage]
    return (
        header()
        + before
        + begin
        + "srun: error: chi2801: task 0: Killed\nsrun: error: chi2802: task 1: Killed\n"
        + f"== {stage} TIMEOUT ({elapsed}s/{limit}s) ==\n"
        + f'  Hint: STAGE_TIMEOUTS="{key}:<seconds>" to adjust.\n'
        + summary(1, f"{stage} TIMEOUT ({elapsed}s/{limit}s)", wall=f"{elapsed // 60}m {elapsed % 60}s")
    )


def healthy(text: str, *, early: bool = False, rank: int | None = 0) -> str:
    """A run that completes, with the text before the first step or among the steps."""
    noise = labelled(text, rank)
    return (
        header()
        + BEFORE_TRAINING
        + LAUNCH
        + (noise if early else "")
        + steps(range(8))
        + ("" if early else noise)
        + steps(range(8, 15))
        + "== Training END (50s) ==\n"
        + summary(0)
    )


def cancelled(text: str, after: str = "") -> str:
    """scancel after five steps: the text among the lines that follow the cancel line."""
    return (
        header()
        + BEFORE_TRAINING
        + LAUNCH
        + steps(range(5))
        + "slurmstepd-chi2801: error: *** JOB 7 ON chi2801 CANCELLED AT 2026-11-30T01:54:32 ***\n"
        + text
        + "0: slurmstepd-chi2801: error: *** STEP 7.3 ON chi2801 CANCELLED AT 2026-11-30T01:54:32 ***\n"
        + after
        + summary(143, "CANCELLED (scancel / SIGTERM)")
    )
