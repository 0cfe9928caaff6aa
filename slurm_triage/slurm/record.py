"""Rows of accounting, as sacct names their columns, turned into jobs. Every source that is not the hook goes through
here, so that what a row means is decided once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from slurm_triage.model import nodelist
from slurm_triage.model.exit_status import parse_slurm_exit
from slurm_triage.model.job import TERMINAL_STATES, AccountingSource, Job, JobStep
from slurm_triage.slurm import expand, fields

#: Columns that are asked for where the version has them. Rows are keyed by these names.
# fmt: off
COLUMNS = (
    "jobid", "jobidraw", "jobname", "user", "uid", "gid", "account", "partition", "qos", "reservation", "cluster",
    "state", "reason", "exitcode", "derivedexitcode", "submit", "start", "end", "elapsedraw", "timelimitraw",
    "nodelist", "failednode", "alloctres", "maxrss", "workdir", "stdout", "stderr", "submitline", "comment",
    "admincomment", "restarts",
)
# fmt: on

#: A run that follows another of the same job id and user within this time is the same job, requeued. Slurm hands out
#: an id again only after all others (67 million), or after its state was lost.
SAME_JOB_S = 7 * 86400.0

Row = Mapping[str, str]


def build(rows: Iterable[Row], source: AccountingSource) -> dict[str, Job]:
    """Jobs by raw id. ``rows``: each job's row is followed by the rows of its steps; several runs of a job are several
    such groups, in any order."""
    groups: list[tuple[Row, list[Row]]] = []
    for row in rows:
        if "." in row["jobidraw"]:
            if groups and row["jobidraw"].partition(".")[0] == groups[-1][0]["jobidraw"]:
                groups[-1][1].append(row)
        else:
            groups.append((row, []))
    runs: dict[str, list[Job]] = {}
    for row, steps in groups:
        runs.setdefault(row["jobidraw"], []).append(_job(row, steps, source))
    return {raw: _with_attempts(attempts) for raw, attempts in runs.items()}


def _with_attempts(runs: list[Job]) -> Job:
    """The last run of a job id, with the earlier runs of the same job in ``earlier``."""
    ordered = sorted(runs, key=lambda run: (run.submit or 0.0, run.start or float("inf")))
    last = ordered[-1]
    earlier: list[Job] = []
    follower = last
    for run in reversed(ordered[:-1]):
        gap_s = (follower.submit or 0.0) - (run.end or run.submit or 0.0)
        if run.uid != last.uid or gap_s > SAME_JOB_S:
            break
        earlier.insert(0, run)
        follower = run
    # Versions before 24.11 have no Restarts column: the runs are counted.
    numbered = tuple(
        replace(run, restarts=index if run.restarts is None else run.restarts) for index, run in enumerate(earlier)
    )
    return replace(last, earlier=numbered, restarts=len(earlier) if last.restarts is None else last.restarts)


def _job(row: Row, steps: list[Row], source: AccountingSource) -> Job:
    state, cancelled_by = fields.state(row.get("state"))
    exit_code, exit_signal = parse_slurm_exit(row.get("exitcode"))
    derived_code, derived_signal = parse_slurm_exit(row.get("derivedexitcode"))
    array_id, array_task, het_id = _ids(row["jobid"])
    start, end = fields.epoch(row.get("start")), fields.epoch(row.get("end"))
    nodes = nodelist.expand(row.get("nodelist"))
    if not nodes and state in TERMINAL_STATES:
        # Cancelled while pending: 22.05 gives Start = End instead of none.
        start = None
    job_steps = tuple(_step(step) for step in steps)
    elapsed = fields.number(row.get("elapsedraw"))
    if start is None:
        elapsed = None
    elif elapsed is None and end is not None:
        elapsed = int(end - start)
    job = Job(
        job_id=row["jobidraw"],
        array_job_id=array_id,
        array_task_id=array_task,
        het_job_id=het_id,
        restarts=fields.number(row.get("restarts")),
        name=fields.text(row.get("jobname")),
        user=fields.text(row.get("user")),
        uid=fields.number(row.get("uid")),
        gid=fields.number(row.get("gid")),
        account=fields.text(row.get("account")),
        partition=fields.text(row.get("partition")),
        qos=fields.text(row.get("qos")),
        reservation=fields.text(row.get("reservation")),
        cluster=fields.text(row.get("cluster")),
        state=state,
        # Of a job that has run, accounting only tells why it had waited.
        reason=fields.text(row.get("reason")) if start is None else None,
        exit_code=exit_code,
        exit_signal=exit_signal,
        derived_exit_code=derived_code,
        derived_exit_signal=derived_signal,
        submit=fields.epoch(row.get("submit")),
        start=start,
        end=end,
        elapsed_s=None if elapsed is None else float(elapsed),
        time_limit_s=fields.time_limit_s(row.get("timelimitraw")),
        nodes=nodes,
        node_count=len(nodes) or None,
        failed_node=fields.text(row.get("failednode")),
        gpus=fields.gpus(row.get("alloctres")),
        work_dir=fields.text(row.get("workdir")),
        submit_line=fields.text(row.get("submitline")),
        comment=fields.text(row.get("comment")),
        admin_comment=fields.text(row.get("admincomment")),
        steps=job_steps,
        source=source,
        cancelled_by_uid=cancelled_by,
    )
    job = replace(job, final=_is_final(job))
    # sacct stores what the user wrote; pyslurm has expanded it.
    path = expand.absolute if source == "pyslurm" else expand.path
    return replace(
        job, stdout=path(fields.text(row.get("stdout")), job), stderr=path(fields.text(row.get("stderr")), job)
    )


def _is_final(job: Job) -> bool:
    """True when nothing more will change in the record.

    Steps may outlive the job's own end (processes that ignore SIGTERM), and 22.05 writes the working directory and the
    submit line up to five seconds after the end of a short job.
    """
    steps_ended = all(step.end is not None for step in job.steps)
    return job.is_terminal and job.end is not None and steps_ended and job.work_dir is not None


def _ids(job_id: str) -> tuple[str | None, str | None, str | None]:
    """(array id, array task, het leader) of ``25_3``, ``25_[4-9%2]`` and ``29+1``."""
    array, underscore, task = job_id.partition("_")
    if underscore:
        return array, task.strip("[]"), None
    leader, plus, _ = job_id.partition("+")
    return (None, None, leader) if plus else (None, None, None)


def _step(row: Row) -> JobStep:
    state, _ = fields.state(row.get("state"))
    code, signal = parse_slurm_exit(row.get("exitcode"))
    return JobStep(
        step_id=row["jobidraw"].partition(".")[2],
        name=fields.text(row.get("jobname")),
        state=state,
        exit_code=code,
        exit_signal=signal,
        start=fields.epoch(row.get("start")),
        end=fields.epoch(row.get("end")),
        nodes=nodelist.expand(row.get("nodelist")),
        max_rss_bytes=fields.size_bytes(row.get("maxrss")),
    )
