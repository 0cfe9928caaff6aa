"""A job as the accounting record that ``slurm-triage log --accounting`` reads: the inverse of slurm/record_file.py."""

from __future__ import annotations

from typing import Any

from slurm_triage.model.duration import iso
from slurm_triage.model.job import Job, JobStep

_PLAIN = (
    *("job_id", "array_job_id", "array_task_id", "het_job_id", "restarts", "name", "user", "uid", "gid", "account"),
    *("partition", "qos", "reservation", "cluster", "state", "reason", "exit_signal", "derived_exit_signal"),
    *("elapsed_s", "time_limit_s", "node_count", "failed_node", "gpus", "work_dir", "stdout", "stderr", "submit_line"),
    *("comment", "admin_comment", "requested_nodes", "excluded_nodes"),
)


def job_record(job: Job) -> dict[str, Any]:
    """Everything that is known; unknown is left out. Times are ISO 8601 where they are whole seconds."""
    record: dict[str, Any] = {name: getattr(job, name) for name in _PLAIN}
    record |= {
        "exit_code": _exit(job.exit_code, job.exit_signal),
        "derived_exit_code": _exit(job.derived_exit_code, job.derived_exit_signal),
        "submit": _time(job.submit),
        "start": _time(job.start),
        "end": _time(job.end),
        "nodes": list(job.nodes) or None,
        "steps": [_step(step) for step in job.steps] or None,
        "earlier": [job_record(attempt) for attempt in job.earlier] or None,
    }
    return {name: value for name, value in record.items() if value is not None}


def _step(step: JobStep) -> dict[str, Any]:
    record = {
        "step_id": step.step_id,
        "name": step.name,
        "state": step.state,
        "exit_code": _exit(step.exit_code, step.exit_signal),
        "exit_signal": step.exit_signal,
        "start": _time(step.start),
        "end": _time(step.end),
        "nodes": list(step.nodes) or None,
        "max_rss_bytes": step.max_rss_bytes,
    }
    return {name: value for name, value in record.items() if value is not None}


def _exit(code: int | None, signal: int | None) -> str | None:
    return None if code is None else f"{code}:{signal or 0}"


def _time(epoch_s: float | None) -> str | float | None:
    return iso(epoch_s) if epoch_s is None or epoch_s == int(epoch_s) else epoch_s
