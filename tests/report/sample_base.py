"""The completed run that every sample report is a variation of, and a match in its log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from slurm_triage.model.diagnosis import Diagnosis, Resubmit
from slurm_triage.model.facts import AttemptFacts, LogFacts, Match, Place, Stage
from slurm_triage.model.files import JobFiles, LogFile
from slurm_triage.model.job import Job
from slurm_triage.model.progress import Cost, Progress, RankProgress, Throughput
from slurm_triage.model.report import Dashboards, Report

START = 1_796_000_000.0
NODES = tuple(f"gpu{n:03}" for n in range(1, 9))
OUTPUTS = "/shared/alice/outputs"
NAME = "JAX-llama2-70b-night-steps_200"


def diagnosis(**changes: Any) -> Diagnosis:
    healthy = Diagnosis(
        status="completed",
        primary=None,
        findings=(),
        suppressed=(),
        harmless=(("harmless-cuinit-probe", 8),),
        exits=(),
        suspects=(),
        resubmit=Resubmit(action="none", why="The job finished all its steps."),
        ranks=(),
        narrative="All 200 steps were completed in 1 h 47 min; every rank left with exit 0.",
        next_steps=(),
        notes=(),
    )
    return replace(healthy, **changes)


def report(job_id: str = "7877", **changes: Any) -> Report:
    """A completed training run of 8 nodes; ``changes`` make it another one."""
    log = f"{OUTPUTS}/{job_id}-{NAME}.log"
    nodes = changes.get("nodes", NODES)
    job = Job(
        job_id=job_id,
        name=NAME,
        user="alice",
        account="llm",
        partition="gpu",
        cluster="atlas",
        state="COMPLETED",
        exit_code=0,
        submit=START - 60,
        start=START,
        end=START + 6500,
        elapsed_s=6500.0,
        time_limit_s=86400.0,
        nodes=nodes,
        node_count=len(nodes),
        gpus=64,
        work_dir="/shared/alice/maxtext-slurm",
        stdout=log,
        submit_line=f"sbatch -J {NAME} -N 8 _job.sbatch llama2-70b night -- steps=200",
        source="pyslurm",
        final=True,
    )
    base = Report(
        version="0.1.0",
        rules_digest="5f2c9a01",
        generated_at=START + 6510,
        job=job,
        launcher="slurm",
        ray=False,
        attempt=1,
        nodes=nodes,
        node_count=len(nodes),
        files=JobFiles(
            job_id=job_id,
            job_dir=f"{OUTPUTS}/{job_id}-{NAME}",
            outputs_dir=OUTPUTS,
            logs=(LogFile(path=log, role="primary", size_bytes=1_482_113),),
        ),
        facts=LogFacts(attempts=(AttemptFacts(index=1),), bytes_scanned=1_482_113, size_bytes=1_482_113),
        diagnosis=diagnosis(),
        stages=(
            Stage("Preflight", "ok", 21.0, 900.0),
            Stage("Docker pull", "ok", 4.0, 900.0),
            Stage("ECC check", "ok", 3.0, 300.0),
            Stage("Training", "ok", 6460.0, None),
        ),
        progress=Progress(
            start="fresh",
            first_step=0,
            last_step=199,
            last_step_min=199,
            total_steps=200,
            steps_this_run=200,
            percent=100.0,
            step_time_s=30.12,
            checkpointing=True,
            checkpoint_period=50,
            last_checkpoint=150,
            last_checkpoint_confirmed=True,
            checkpoint_cost_s=41.5,
            lost_steps=0,
            lost_s=0.0,
            remaining_s=0.0,
            sum_step_s=6190.4,
            wall_s=6500.0,
            unaccounted_s=309.6,
            setup_s=240.0,
            source=log,
            ranks=tuple(RankProgress(rank, 0, 199) for rank in range(8)),
        ),
        throughput=Throughput(early=3290.4, recent=3285.1, change=-0.0016, unit="tokens/s/device"),
        cost=Cost(gpus=64, gpu_hours=115.6, gpu_hours_lost=0.0),
        dashboards=Dashboards(),
        log_path=log,
        now=START + 6510,
    )
    return replace(base, **changes)


def match(
    rule: str,
    line: int,
    text: str,
    *,
    rank: int | None = None,
    node: str | None = None,
    step: int | None = None,
    count: int = 1,
    block: tuple[str, ...] = (),
    captures: Mapping[str, str] | None = None,
) -> Match:
    place = Place(file=0, offset=line * 97, text=text, line=line)
    last = replace(place, line=line + count - 1, offset=(line + count - 1) * 97)
    return Match(
        rule=rule,
        rank=rank,
        node=node,
        count=count,
        first=place,
        last=last,
        seq=line,
        last_seq=line + count - 1,
        step=step,
        captures=captures or {},
        block=block,
    )
