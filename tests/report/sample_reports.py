"""Whole reports built by hand, one per kind of ending."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from slurm_triage.model.diagnosis import Finding, Primary, Resubmit
from slurm_triage.model.facts import LogFacts, Place, Stage, TellingLine
from slurm_triage.model.files import JobFiles
from slurm_triage.model.job import NO_JOB
from slurm_triage.model.progress import Cost, Progress, RankProgress, Throughput
from slurm_triage.model.report import AttemptSummary, Dashboards, Report

from .sample_base import NAME, NODES, OUTPUTS, START, diagnosis, match, report
from .sample_failures import failed, hang


def soft_success() -> Report:
    base = report("13006")
    died = match("node-exit-nonzero", 9120, "NODE_EXIT host=gpu002 exit=1", rank=1, node="gpu002", step=199)
    return replace(
        base,
        job=replace(base.job, state="FAILED", exit_code=1),
        diagnosis=diagnosis(
            primary=Primary(
                "soft-success",
                "All 200 steps were done; rank 1 failed during teardown",
                "Training",
                "unknown",
                1,
                (1,),
                "gpu002",
                199,
                "high",
                "not-needed",
            ),
            findings=(
                Finding(
                    "soft-success",
                    "root",
                    died.rule,
                    "Rank left with exit 1 after the last step",
                    1,
                    "gpu002",
                    199,
                    1,
                    died,
                ),
            ),
            resubmit=Resubmit("none", "Training reached its last step; nothing was lost."),
            narrative=(
                "Training reached its last step (199). Rank 1 left with exit 1 four minutes later, while it was being "
                "taken down."
            ),
            next_steps=("Do not run it again: the loss curve, step times and checkpoint are complete.",),
        ),
    )


def healthy() -> Report:
    return report()


def running() -> Report:
    base = report("8001")
    return replace(
        base,
        job=replace(base.job, state="RUNNING", exit_code=None, end=None, elapsed_s=3100.0, final=False),
        stages=(*base.stages[:3], Stage("Training", "running", None, None)),
        progress=replace(
            base.progress,
            last_step=92,
            last_step_min=92,
            steps_this_run=93,
            percent=46.5,
            expected_step=93,
            last_checkpoint=50,
            lost_steps=42,
            lost_s=1265.0,
            remaining_s=3223.0,
            sum_step_s=2801.2,
            wall_s=3100.0,
            unaccounted_s=298.8,
            ranks=tuple(RankProgress(rank, 0, 92) for rank in range(8)),
        ),
        throughput=Throughput(
            early=3290.0,
            recent=2520.3,
            change=-0.234,
            degraded=True,
            pattern="constant",
            from_step=60,
            to_step=92,
            unit="tokens/s/device",
            hints=("The drop began without a checkpoint or profiler step near it.",),
        ),
        cost=Cost(gpus=64, gpu_hours=55.1, gpu_hours_lost=None),
        diagnosis=diagnosis(
            status="running",
            resubmit=Resubmit("none", "The job is running."),
            narrative="The job is running: step 92 of 200 is done, 23 % slower than in the beginning.",
            notes=("Throughput fell by 23 % at step 60 and stayed there: look for RDMA retransmits.",),
        ),
    )


def unknown() -> Report:
    """A local run that was cut off; no accounting."""
    base = report("local_20261130_020406_3fa1")
    lines = ("E0000 lost contact with the mesh", "restoring: giving up on shard 3", "warning: something odd")
    telling = tuple(
        TellingLine(Place(0, 9000 + 80 * i, text, 500 + i), 0, None, 9000 + 80 * i, 3) for i, text in enumerate(lines)
    )
    return replace(
        base,
        launcher="local",
        job=replace(NO_JOB, job_id="local_20261130_020406_3fa1"),
        nodes=(),
        node_count=None,
        stages=(),
        progress=Progress(),
        throughput=Throughput(),
        cost=Cost(),
        diagnosis=diagnosis(
            status="unknown",
            primary=Primary(
                "unknown-death",
                "The log ends without a summary and without an error",
                None,
                "unknown",
                None,
                (),
                None,
                None,
                "low",
                "same-nodes",
            ),
            telling=telling,
            resubmit=Resubmit("same-nodes", "Nothing points to the settings."),
            narrative="The log ends in the middle of start-up, without a summary and without an error.",
            next_steps=("Look for kernel OOM kills: `dmesg -T | grep -i oom`.",),
        ),
    )


def prolog_kill() -> Report:
    """Slurm killed the job before its script could write a line: there is no log."""
    base = report("13011")
    return replace(
        base,
        job=replace(
            base.job,
            state="FAILED",
            reason="RaisedSignal:53",
            exit_code=0,
            exit_signal=53,
            elapsed_s=1.0,
            end=START + 1,
        ),
        files=JobFiles(
            job_id="13011",
            job_dir=f"{OUTPUTS}/13011-{NAME}",
            problem="The job directory has no log: it was never opened.",
        ),
        facts=LogFacts(),
        log_path="",
        stages=(),
        progress=Progress(),
        throughput=Throughput(),
        cost=Cost(gpus=64, gpu_hours=0.02, gpu_hours_lost=0.02),
        diagnosis=diagnosis(
            status="failed",
            primary=Primary(
                "prolog-kill-no-log",
                "Slurm could not start the batch script (signal 53)",
                "Slurm prolog",
                "scheduler",
                None,
                (),
                None,
                None,
                "high",
                "after-fix",
            ),
            findings=(
                Finding(
                    "prolog-kill-no-log",
                    "root",
                    "accounting-signal-53",
                    "Accounting says 0:53 after 1 s",
                    why="Accounting says exit 0:53 after 1 s, and no log was opened.",
                ),
            ),
            resubmit=Resubmit("after-fix", "The log's path could not be opened.", changes=("a shorter job name",)),
            narrative="slurmd killed the job before its script ran: the output file could not be opened.",
            next_steps=("Shorten the job name: the path segment of `--output` may have 255 bytes.",),
        ),
    )


def requeued() -> Report:
    """A second attempt after a node failure, with Ray ended and metrics kept."""
    base = failed()
    return replace(
        base,
        attempt=2,
        ray=True,
        job=replace(base.job, job_id="9104", array_job_id="9100", array_task_id="3", restarts=1),
        attempts=(
            AttemptSummary(1, "failed", "node-fail", "Node gpu007 went down", 0, 64, NODES, START - 9000, START - 4000),
        ),
        dashboards=Dashboards(
            ray=True, head_node="gpu001", prometheus_port=9191, tsdb_path=f"{OUTPUTS}/9104-{NAME}/prometheus"
        ),
    )


SAMPLES: dict[str, Callable[[], Report]] = {
    f.__name__: f for f in (failed, hang, soft_success, healthy, running, unknown, prolog_kill, requeued)
}
