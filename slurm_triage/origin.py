"""Where a job came from: launcher, attempt number, dashboards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slurm_triage.diagnosis.completion import LIVE_STATES
from slurm_triage.model import nodelist
from slurm_triage.model.facts import AttemptFacts, LogFacts
from slurm_triage.model.files import JobFiles
from slurm_triage.model.job import Job, Launcher
from slurm_triage.model.report import Dashboards


def known_job(job: Job, attempt: AttemptFacts, files: JobFiles) -> Job:
    """The job with what only the log knows filled in: id, name, nodes. Accounting's values are never replaced, but for
    the exit status 0:0 that it writes before there is one."""
    header = attempt.header
    if job.state is not None and not job.is_terminal:
        job = replace(job, exit_code=None, exit_signal=None, derived_exit_code=None)
    return replace(
        job,
        job_id=job.job_id or header.job_id or files.job_id,
        name=job.name or header.job_name,
        nodes=job.nodes or nodelist.expand(header.nodelist),
        node_count=job.node_count or header.nnodes,
    )


def launcher_of(job: Job, attempt: AttemptFacts, files: JobFiles) -> Launcher:
    """By the job id's form (``7877``, ``local_...``, ``k8s-...``), else by accounting."""
    job_id = attempt.header.job_id or files.job_id or ""
    if job_id.startswith("k8s-"):
        return "k8s"
    if job_id.startswith("local_"):
        return "local"
    if attempt.header.job_id or job.source != "none" or attempt.cancellations:
        return "slurm"
    return "other"


def attempt_number(job: Job, facts: LogFacts) -> int:
    """1 for the first start. Accounting's restart count decides; an appended log shows at least its own starts."""
    starts = (job.restarts or 0) + (not job.is_queued_again)
    return max(starts, len(facts.attempts), 1)


def dashboards_of(job: Job, attempt: AttemptFacts, files: JobFiles, fact_kind: Mapping[str, str]) -> Dashboards:
    """Ray jobs only. The tunnel line is printed even when Prometheus never started; a later line has the real port."""
    ray = attempt.header.ray_port is not None
    tunnel = head = port = None
    for fact in attempt.facts:
        kind = fact_kind.get(fact.rule)
        if kind == "tunnel":
            tunnel = tunnel or fact.captures.get("command")
            head = head or fact.captures.get("node")
            port = port or fact.captures.get("port")
        elif kind == "ray_head":
            head = fact.captures.get("node") or head
        elif kind == "prometheus":
            port = fact.captures.get("port") or port
    return Dashboards(
        ray=ray,
        tunnel_command=tunnel if ray else None,
        head_node=head if ray else None,
        prometheus_port=int(port) if ray and port and port.isdigit() else None,
        live=ray and job.state in LIVE_STATES,
        tsdb_path=files.prometheus_dir,
    )
