"""The job's status, by the seed's table: progress and accounting decide, never the exit code or a time stamp alone."""

from __future__ import annotations

from collections.abc import Sequence

from slurm_triage.diagnosis.classes import GENERIC, OUTCOMES, STOPS
from slurm_triage.diagnosis.completion import End
from slurm_triage.diagnosis.stall import Stall
from slurm_triage.model.diagnosis import Finding, Status

#: Found in runs that finished: the result is there, but something about it deserves a look.
REMARKS = frozenset({"nan-loss", "tgs-degradation", "ray-start-fail", "soft-success"})
_SCHEDULER_STOPS = frozenset({"cancelled", "time-limit", "preempted", "requeued"})
#: Slurm itself cancels or requeues these jobs, because it could not start them.
_NEVER_RAN = frozenset({"prolog-fail", "prolog-kill-no-log"})


def decide(
    end: End,
    primary: Finding | None,
    found: Sequence[Finding],
    stall: Stall | None,
    *,
    finished_text: bool,
    asked_to_stop: bool,
) -> Status:
    """``found``: all findings with final roles. ``finished_text``: the program itself says it is done.
    ``asked_to_stop``: SIGTERM shows in the log."""
    cls = primary.cls if primary is not None else None
    if end.live:
        if cls is None or cls in REMARKS:
            return "hanging" if stall is not None else "running"
        if cls in {"hang", "restore-straggler"} or stall is not None:
            return "hanging"
        return "running"
    if cls == "soft-success":
        return "completed"
    if end.waiting:
        return "unknown" if cls is None else "cancelled" if cls in STOPS else "failed"
    if end.claims_success:
        if cls is None or cls in REMARKS:
            return "completed"
        return "cancelled" if cls == "incomplete-success" and asked_to_stop else "failed"
    if end.stop in _SCHEDULER_STOPS:
        return "failed" if cls in _NEVER_RAN else "cancelled"
    if end.claims_success is False:
        return "failed"
    if cls in STOPS:
        return "cancelled" if cls != "train-timeout" else "failed"
    if cls == "unknown-death":
        return "unknown"
    broke_off = cls in {"nan-loss", "ray-start-fail"} and (
        end.reached_last_step is False or any(f.cls in GENERIC | OUTCOMES and f.role == "consequence" for f in found)
    )
    if cls is not None and (cls not in REMARKS or broke_off):
        return "cancelled" if asked_to_stop and cls == "hang" else "failed"
    if end.reached_last_step or finished_text:
        return "completed"
    return "unknown"
