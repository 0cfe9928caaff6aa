"""The child's work on one running job: follows its log as the owner, and leaves a live report when it hangs."""

from __future__ import annotations

import time
from collections.abc import Callable

from slurm_triage.diagnosis.stall import Stall
from slurm_triage.errors import NotFoundError
from slurm_triage.ledger.memory import Memory
from slurm_triage.pipeline import Engine
from slurm_triage.service.child import report_on
from slurm_triage.service.follow import Follower
from slurm_triage.service.job_files import files_of
from slurm_triage.service.notify import notify
from slurm_triage.service.task import Task
from slurm_triage.service.watch import Look, look
from slurm_triage.settings import Settings
from slurm_triage.slurm.accounting import display_id


def watch(
    task: Task,
    engine: Engine,
    settings: Settings,
    memory: Memory | None = None,
    *,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> bytes:
    """Until the log says that the job is over; the worker ends it when accounting says so. The answer is for the
    worker's log. ``memory``: of other jobs, as it was when this child began."""
    name = display_id(task.job) or ""
    follower: Follower | None = None
    status, hangs = "running", 0
    while True:
        follower = follower or _follower(task, engine)
        seen = _look(follower, task, engine, settings, clock()) if follower is not None else None
        if seen is None:
            follower = None
        elif seen.status != status:
            status = seen.status
            hangs += status == "hanging"
            report_on(task, engine, memory, stall=_stall(seen))
            if settings.watch_notify:
                notify(settings.watch_notify, name, seen)
        if follower is not None and follower.attempt().summaries:
            return f"hung {hangs} times".encode()
        sleep(settings.watch_interval_s)


def _follower(task: Task, engine: Engine) -> Follower | None:
    """None while there is no log."""
    log = files_of(task.job).primary
    return Follower(log.path, engine) if log is not None else None


def _look(follower: Follower, task: Task, engine: Engine, settings: Settings, now: float) -> Look | None:
    """None if the log is not there (any more)."""
    try:
        follower.poll(now)
    except NotFoundError:
        return None
    kinds, limit_s = engine.ruleset.fact_kinds, settings.watch_limit_s or None
    return look(follower, task.job, kinds, now, limit_s, engine.least_silence_s)


def _stall(seen: Look) -> Stall | None:
    """What was measured by looking, instead of what the log's clocks and arithmetic say."""
    if seen.status != "hanging":
        return None
    return Stall(seen.silence_s, seen.limit_s, seen.phase, seen.after, measured=True)
