"""Batch scripts that print what the training launcher prints (header, stages, ranks, summary) and really end that way.

They run two ranks with ``srun -l``, so labels, exit codes and srun's own words are real.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

STEPS = 15

_HEADER = r"""
NAME=$SLURM_JOB_NAME
echo "JOB_ID=$SLURM_JOB_ID"
echo "JOB_NAME=$NAME"
echo "NNODES=$SLURM_NNODES"
echo "JOB_NODELIST=$SLURM_JOB_NODELIST"
echo "JAX_COORDINATOR_PORT=37040"
echo "PASSTHROUGH_ARGS=\"steps={steps}\""
echo "MODEL_NAME=llama2-70b"
echo "EXP_TAG=steps_{steps}"
cat <<'TABLE'
==STAGE TIMEOUTS (override: STAGE_TIMEOUTS="stage:seconds,...")==
  preflight    900s
  pull         900s
  ecc          300s
  train        none
=================================================================
== Preflight BEGIN (timeout=900s) ==
TABLE
srun -l sh -c 'echo "=== Pre-flight GPU cleanup ==="; echo "No GPU processes found - GPUs are free"'
cat <<'STAGES'
== Preflight END (0s) ==
== Docker pull BEGIN (timeout=900s) ==
== Docker pull END (0s) ==
== ECC check BEGIN (timeout=300s) ==
== ECC check END (1s) ==
== Training BEGIN (no timeout) ==
STAGES
summary() {{
    echo "========================== JOB SUMMARY =========================="
    echo "  Job:    $SLURM_JOB_ID ($NAME)"
    echo "  Model:  llama2-70b"
    echo "  Nodes:  $SLURM_NNODES"
    echo "  Wall:   ${{SECONDS}}s"
    echo "  Status: $1"
    echo "================================================================="
}}
trap 'wait; summary "FAILED (exit 143) — CANCELLED (scancel / SIGTERM)"; exit 143' TERM
srun -l --kill-on-bad-exit=1 bash <<'RANK' &
"""

_RANK = r"""
host=$SLURMD_NODENAME
rank=$SLURM_PROCID
# Errors are printed seconds before the launcher's own last words.
leave() {{ sleep 0.3; echo "+ _train_rc=$1"; echo "NODE_EXIT host=$host exit=$1"; exit "$1"; }}
trap 'echo "[SIGTERM] Received — waiting for coredump before exit..."; echo "NODE_EXIT host=$host exit=143"; exit 143' TERM
echo "Launching MaxText.train directly..."
echo "Config param checkpoint_period: 10000"
echo "Config param enable_checkpointing: False"
echo "Config param log_period: 100"
echo "Config param model_name: llama2-70b"
echo "Config param steps: {steps}"
echo "System Information: Jax Version: 0.8.2"
echo "====== BARRIER: Synchronizing hosts before training loop ======"
echo "====== BARRIER PASSED: Starting training loop ======"
step() {{
    sleep 0.1
    echo "completed step: $1, seconds: 0.10$rank, TFLOP/s/device: 465.703, MFU: 18.63%, Tokens/s/device: 1090.005$rank," \
        "total_weights: 262144, loss: 10.$((90 - $1))0"
}}
{body}
"""

_END = r"""RANK
wait $!
rc=$?
if [ "$rc" = 0 ]; then
    echo "== Training END (${{SECONDS}}s) =="
    summary "SUCCESS (exit 0)"
    exit 0
fi
echo "== Training FAILED (exit=$rc, ${{SECONDS}}s) =="
summary "FAILED (exit 1) — Training FAILED (exit=$rc)"
exit 1
"""

BODIES = {
    "success": "for s in $(seq 0 14); do step $s; done; leave 0",
    "exception": r"""for s in $(seq 0 6); do step $s; done
[ "$rank" = 1 ] || { sleep 60 & wait $!; leave 0; }
# The steps come through a pipe of their own: no step may be printed after the error.
sleep 0.3
cat >&2 <<'TRACE'
Traceback (most recent call last):
  File "/workspace/maxtext/MaxText/train.py", line 511, in train_loop
    batch = data_loader.load_next_batch()
  File "/workspace/maxtext/MaxText/data_loader.py", line 61, in load_next_batch
    raise ValueError(f"shard {self.shard} is empty")
ValueError: shard 7 is empty
TRACE
leave 1""",
    "oom-gpu": r"""for s in $(seq 0 3); do step $s; done
[ "$rank" = 0 ] || { sleep 60 & wait $!; leave 0; }
echo "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 42405855232 bytes." >&2
leave 1""",
    # With the clock of absl's logging before each line, so that the silence can be measured.
    "hang": r"""for s in $(seq 0 6); do
    printf '%s' "$(date -u '+I%m%d %H:%M:%S.000000 140 max_logging.py:49] ')"
    step $s
done
sleep 600 & wait $!""",
    "soft-success": """for s in $(seq 0 14); do step $s; done
[ "$rank" = 1 ] && leave 1
sleep 60 & wait $!; leave 0""",
}


@dataclass(frozen=True)
class LauncherJob:
    """``classes``: acceptable ``primary.class`` (None: healthy); ``statuses``: acceptable ``status``."""

    name: str
    script: str
    statuses: tuple[str, ...]
    classes: tuple[str | None, ...]
    output: str = "outputs/%j-%x.log"
    cancel: bool = False
    tag: str = ""

    @property
    def job_name(self) -> str:
        return f"JAX-llama2-70b-{self.tag or self.name}"


def script(kind: str) -> str:
    """The batch script of one kind of end."""
    rank = _RANK.format(steps=STEPS, body=BODIES[kind])
    return "#!/bin/bash" + _HEADER.format(steps=STEPS) + rank + _END.format()


JOBS: Mapping[str, LauncherJob] = {
    job.name: job
    for job in (
        LauncherJob("success", script("success"), ("completed",), (None,)),
        LauncherJob("exception", script("exception"), ("failed",), ("python-exception",)),
        LauncherJob("oom-gpu", script("oom-gpu"), ("failed",), ("oom-gpu",)),
        LauncherJob("hang", script("hang"), ("cancelled", "hanging", "failed"), ("hang", "cancelled"), cancel=True),
        LauncherJob("soft-success", script("soft-success"), ("completed", "failed"), ("soft-success",)),
        # The log's name is longer than a file system allows: slurmd cannot open it and kills the job.
        LauncherJob(
            "prolog-kill", script("success"), ("failed",), ("prolog-kill-no-log",), tag="prolog-kill-" + "x" * 240
        ),
    )
}
