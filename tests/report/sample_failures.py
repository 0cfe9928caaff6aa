"""The two longest sample reports: ranks that tell different stories, and a hang."""

from __future__ import annotations

from dataclasses import replace

from slurm_triage.model.diagnosis import Finding, Primary, RankView, Resubmit, Suspect
from slurm_triage.model.facts import ExitRecord, Stage
from slurm_triage.model.history import Advice, Difference, History, LastGood, Outbreak, Recurrence, Shared
from slurm_triage.model.progress import Cost, RankProgress, Throughput
from slurm_triage.model.report import Dashboards, Report

from .sample_base import NAME, NODES, OUTPUTS, START, diagnosis, match, report

HISTORY = History(
    recurrence=Recurrence(3, 172_800.0, ("7870", "7861"), ("gpu004",), False, ("gpu004",)),
    outbreak=Outbreak(
        "00d1ce00d1ce00d1", "oom-gpu", ("7870", "7873", "7875", "7876", "7877"), 4, START + 900, START + 3801,
        (Shared("node", "gpu004", 5),),
    ),
    last_good=LastGood(
        "7859", START - 90_000, f"{OUTPUTS}/7859-{NAME}/triage.json",
        (Difference("nodes", "gpu099", "gpu004"), Difference("image", "rocm/jax:1", "rocm/jax:2")),
    ),
    advice=(Advice("gpu004", "gpu-hw-fault in job 7861; 2 failures in 9 jobs", START + 600_000, "direct"),),
)  # fmt: skip


def failed() -> Report:
    """GPU out of memory on one rank of eight; the others wait for it, then are stopped."""
    base = report()
    oom = match(
        "gpu-oom-xla-allocate",
        4312,
        "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 221.71GiB.",
        rank=3,
        node="gpu004",
        step=118,
        block=("E0601 22:14:54.123456 4711 pjrt_stream_executor_client.cc:3077] Execution of replica 0 failed",),
        captures={"bytes": "221.71GiB"},
    )
    beat = "UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):"
    findings = [
        Finding("oom-gpu", "root", oom.rule, "XLA could not allocate 221.71GiB on the GPU", 3, "gpu004", 118, 1, oom),
    ]
    for rank in (0, 1, 2, 4, 5, 6, 7):
        seen = match("jax-heartbeat-unhealthy", 4390 + rank, beat, rank=rank, node=NODES[rank], step=118)
        findings.append(
            Finding(
                "heartbeat-timeout",
                "consequence",
                seen.rule,
                "JAX coordination service lost a task",
                rank,
                NODES[rank],
                118,
                1,
                seen,
                "Rank 3 had already failed.",
            )
        )
    stopped = match("launcher-stage-failed", 4501, "== Training FAILED (exit=143, 3710s) ==")
    findings.append(Finding("stage-fail", "consequence", stopped.rule, "Stage Training failed", match=stopped))
    others = tuple(rank for rank in range(8) if rank != 3)
    return replace(
        base,
        job=replace(
            base.job, state="FAILED", exit_code=1, end=START + 3801, elapsed_s=3801.0, reason="NonZeroExitCode"
        ),
        stages=(*base.stages[:3], Stage("Training", "failed", 3710.0, None, 143)),
        progress=replace(
            base.progress,
            last_step=118,
            last_step_min=117,
            steps_this_run=119,
            percent=59.5,
            last_checkpoint=100,
            lost_steps=18,
            lost_s=542.2,
            remaining_s=2439.7,
            sum_step_s=3510.2,
            wall_s=3801.0,
            unaccounted_s=290.8,
            silence_s=42.0,
            ranks=tuple(RankProgress(rank, 0, 117 if rank == 3 else 118) for rank in range(8)),
        ),
        throughput=Throughput(early=3290.4, recent=3279.9, change=-0.0032, unit="tokens/s/device"),
        cost=Cost(gpus=64, gpu_hours=67.6, gpu_hours_lost=9.6),
        history=HISTORY,
        diagnosis=diagnosis(
            status="failed",
            primary=Primary(
                cls="oom-gpu",
                title="XLA could not allocate 221.71GiB on the GPU",
                stage="Training",
                domain="config",
                rank=3,
                ranks=(3,),
                node="gpu004",
                step=118,
                confidence="high",
                retry="after-fix",
            ),
            findings=tuple(findings),
            suppressed=(("signal-kill-sigterm", "The rank was stopped because rank 3 had failed first."),),
            exits=(
                ExitRecord(3, "gpu004", 1, None, False, "node_exit", "NODE_EXIT host=gpu004 exit=1", 4400, True),
                *(
                    ExitRecord(r, NODES[r], 143, 15, True, "node_exit", f"NODE_EXIT host={NODES[r]} exit=143", 4410 + r)
                    for r in others
                ),
            ),
            resubmit=Resubmit(
                action="after-fix",
                why="The same settings will run out of memory again.",
                command=(
                    "./submit.sh llama2-70b:night -N 8 --time=24:00:00 "
                    "-- steps=200 enable_checkpointing=true _env_XLA_PYTHON_CLIENT_MEM_FRACTION=.93"
                ),
                changes=("_env_XLA_PYTHON_CLIENT_MEM_FRACTION=.85 → .93",),
                args={"_env_XLA_PYTHON_CLIENT_MEM_FRACTION": ".93"},
            ),
            ranks=(
                RankView(
                    (3,),
                    ("gpu004",),
                    117,
                    "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 221.71GiB.",
                    None,
                    "1",
                ),
                RankView(others, tuple(NODES[r] for r in others), 118, beat, None, "143 (SIGTERM, stopped)"),
            ),
            narrative=(
                "Rank 3 on gpu004 ran out of GPU memory after step 118. The other 7 ranks waited for it until the "
                "coordination service gave up, and were then stopped."
            ),
            chain=(
                "Rank 3 (gpu004) could not allocate 221.71GiB at step 118.",
                "The other ranks waited in a collective and lost the heartbeat of rank 3.",
                "Slurm stopped the remaining ranks (exit 143).",
            ),
            next_steps=(
                "Raise `XLA_PYTHON_CLIENT_MEM_FRACTION` from .85 to .93: the log shows .85, too low for this model.",
                "If it is .93 already, reduce `per_device_batch_size` or `max_target_length`.",
                "Then try `remat_policy=full`.",
            ),
            notes=("The step time was steady until the end; this is no leak.",),
        ),
    )


def hang() -> Report:
    """A silent stall in a Ray job that is still running."""
    base = report("7962")
    beats = match("ray-tunnel", 611, "ssh -J alice@login.atlas.example -L 9190:localhost:9190 root@gpu001")
    return replace(
        base,
        ray=True,
        job=replace(base.job, state="RUNNING", exit_code=None, end=None, elapsed_s=7300.0, final=False),
        stages=(*base.stages[:3], Stage("Training", "running", None, None)),
        progress=replace(
            base.progress,
            start="restored",
            restored_from=100,
            first_step=101,
            last_step=139,
            last_step_min=139,
            steps_this_run=39,
            percent=70.0,
            expected_step=231,
            last_checkpoint=None,
            last_checkpoint_confirmed=None,
            lost_steps=39,
            lost_s=1175.0,
            remaining_s=1807.2,
            sum_step_s=1190.1,
            wall_s=7300.0,
            unaccounted_s=6109.9,
            silence_s=5870.0,
            last_step_time=START + 1430,
            ranks=tuple(RankProgress(rank, 101, 139) for rank in range(8)),
        ),
        throughput=Throughput(early=3290.4),
        cost=Cost(gpus=64, gpu_hours=129.8, gpu_hours_lost=125.5),
        dashboards=Dashboards(
            ray=True,
            tunnel_command=(
                "ssh -J alice@login.atlas.example -L 8265:localhost:8265 -L 6006:localhost:6006 "
                "-L 9190:localhost:9190 root@gpu001"
            ),
            head_node="gpu001",
            prometheus_port=9190,
            live=True,
            tsdb_path=f"{OUTPUTS}/7962-{NAME}/prometheus",
        ),
        evidence={
            "GPU telemetry": (
                "gpu[001-008]: utilization 100 % on 61 of 64 GPUs, power 268 W (training: 900 W)",
                "gpu006: GPUs 1 and 7 busy where the other nodes have 4 and 7",
            ),
        },
        diagnosis=diagnosis(
            status="hanging",
            primary=Primary(
                "hang",
                "Training stopped advancing after step 139",
                "Training",
                "fabric",
                None,
                (),
                None,
                139,
                "high",
                "same-nodes",
            ),
            findings=(
                Finding(
                    "hang",
                    "root",
                    "silent-stall",
                    "No step was completed for 1 h 38 min",
                    step=139,
                    why=(
                        "All 8 ranks completed step 139 at the same time and none has said anything since; "
                        "a step takes 30.1 s."
                    ),
                ),
                Finding("ray-start-fail", "context", beats.rule, "Ray dashboard tunnel", match=beats),
            ),
            suspects=(Suspect("gpu006", ("another set of busy GPUs than the other nodes",), "low", False),),
            resubmit=Resubmit(
                "same-nodes",
                "First hang on these nodes: most are transient.",
                "RAY=1 ./submit.sh llama2-70b:night -N 8 -w 'gpu[001-008]' -- steps=200 enable_checkpointing=true",
            ),
            ranks=(
                RankView(
                    tuple(range(8)),
                    NODES,
                    139,
                    None,
                    "completed step: 139, seconds: 30.118, loss: 2.101",
                    None,
                    START + 1430,
                ),
            ),
            narrative=(
                "All 8 ranks completed step 139 and then went silent 1 h 38 min ago, while the job is still running."
            ),
            next_steps=(
                "Open the Ray Dashboard (port 8265) and look at the actors' stack traces.",
                "Stop the job: `scancel 7962`.",
                "Run it again on the same nodes; exclude `gpu006` only if the hang comes back.",
            ),
        ),
    )
