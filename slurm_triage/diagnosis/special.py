"""Verdicts that rest on what did not happen: finished anyway, stopped short, nothing to do, never ran."""

from __future__ import annotations

from slurm_triage.diagnosis.cause import PRINT_LAG_STEPS
from slurm_triage.diagnosis.classes import LOST_RESULTS, SYMPTOMS, level
from slurm_triage.diagnosis.completion import End
from slurm_triage.model.diagnosis import Finding
from slurm_triage.model.facts import AttemptFacts, Match
from slurm_triage.model.files import JobFiles
from slurm_triage.model.job import Job
from slurm_triage.model.progress import Progress

#: Slurm's "signal" for a batch script that could not even be launched (output file not openable, prolog failed).
_LAUNCH_SIGNAL = 53


def soft_success(attempt: AttemptFacts, progress: Progress, end: End, cause: Finding | None) -> Finding | None:
    """Training reached its last step, only the end went wrong (the seed's three signatures).

    The failing rank itself must have got there (within the print lag): one rank at T-1 proves nothing about another.
    Where nobody reports success or failure, a rank that died or lost its peer after the last step is the failure.
    """
    total = progress.total_steps
    if total is None or end.claims_success or not end.reached_last_step:
        return None
    if cause is not None and cause.cls in LOST_RESULTS:
        return None
    if cause is not None and cause.cls == "python-exception" and not attempt.summaries and len(attempt.exits) < 2:
        # What a program does behind its last step (evaluation, export) is work as well; no rank only came down badly.
        return None
    if end.claims_success is None and (cause is None or level(cause.cls) == 0 or cause.cls == "hang"):
        return None
    last = total - 1
    if cause is not None:
        at_step = cause.match.step if cause.match is not None else cause.step
        by_rank = {r.rank: r.last for r in progress.ranks}
        own = by_rank.get(cause.rank, progress.last_step)
        if own is None or own < last - PRINT_LAG_STEPS:
            return None
        if at_step is not None and at_step < last - PRINT_LAG_STEPS and cause.cls not in {"cancelled", "time-limit"}:
            return None
    failing = [e.rank if e.worker is None else e.worker for e in attempt.exits if e.first_bad]
    stop = {"time-limit": "at the time limit", "cancelled": "when the job was cancelled"}.get(end.stop or "")
    if stop is not None:
        how = f"the job ended {stop} during teardown"
    elif failing and failing[0] is not None:
        how = f"rank {failing[0]} ended badly during teardown"
    else:
        how = "teardown went wrong"
    rank = failing[0] if failing and stop is None else None
    return Finding("soft-success", "root", "completion", f"all {total} steps were completed; {how}", rank, step=last)


def incomplete_success(progress: Progress, end: End, sigterm: bool) -> Finding | None:
    """Exit 0, but the last step was never reached: SUCCESS is not to be believed."""
    if end.claims_success is not True or end.reached_last_step is not False or progress.total_steps is None:
        return None
    if progress.last_step is not None and progress.last_step >= progress.total_steps - 1 - PRINT_LAG_STEPS:
        return None
    if progress.last_step is None:
        return None
    done = f"step {progress.last_step} ({progress.last_step + 1} of {progress.total_steps} steps)"
    title = (
        f"asked to stop (SIGTERM) after {done} and reported success" if sigterm else f"reported success after {done}"
    )
    return Finding("incomplete-success", "root", "completion", title, step=progress.last_step)


def fell_short(cause: Finding | None, progress: Progress) -> bool:
    """The rank that shows the cause stopped before the last step. That others got there, and that all exited 0, does
    not make up for it: a rank that leaves the training loop early exits 0 as well."""
    if cause is None or cause.rank is None or cause.cls in SYMPTOMS or progress.total_steps is None:
        return False
    own = next((r.last for r in progress.ranks if r.rank == cause.rank), None)
    return own is not None and own < progress.total_steps - 1 - PRINT_LAG_STEPS


def nothing_left_to_do(progress: Progress, restores: tuple[Match, ...]) -> bool:
    """The run had been finished before: restored from its last step, no step line, exit 0."""
    if progress.last_step is not None or progress.total_steps is None:
        return False
    steps = [int(m.captures["step"]) for m in restores if m.captures.get("step", "").isdigit()]
    return bool(steps) and max(steps) >= progress.total_steps - 1


def without_log(job: Job, files: JobFiles) -> tuple[Finding | None, str | None]:
    """(finding, note) for a job that left no log."""
    if job.exit_signal == _LAUNCH_SIGNAL and not job.exit_code:
        title = "Slurm ended the job before the script could write anything (exit code 0:53)"
        return Finding("prolog-kill-no-log", "root", "accounting-state", title), None
    never = _never_launched(job)
    if never is not None:
        return Finding("prolog-fail", "root", "accounting-state", never, node=job.nodes[0]), None
    if job.state in {"REQUEUED", "PREEMPTED"}:
        cls = job.state.lower()
        return Finding(cls, "root", "accounting-state", f"the run was {cls}"), files.problem
    if job.state == "PENDING" and (job.reason or "").lower().replace("_", " ").startswith("launch failed"):
        return Finding(
            "launch-fail", "root", "accounting-state", "launch failed; Slurm requeued and held the job"
        ), None
    if job.state in {"PENDING", "CONFIGURING"}:
        return None, "the job is waiting and has not started"
    if job.state == "CANCELLED" and (job.start is None or not job.elapsed_s):
        return Finding("cancelled", "root", "accounting-state", "cancelled before it started"), None
    if job.state == "DEADLINE" and job.start is None:
        return Finding("time-limit", "root", "accounting-state", "its deadline passed before it could start"), None
    if job.state in {"BOOT_FAIL", "NODE_FAIL"}:
        return Finding("node-fail", "root", "accounting-state", "a node failed before the job could write a log"), None
    if job.is_terminal and job.state not in {"COMPLETED", "CANCELLED"} and (job.elapsed_s or 0) <= 1:
        title = f"Slurm ended the job within a second ({job.state}) and there is no log"
        return Finding("prolog-kill-no-log", "root", "accounting-state", title), None
    return None, files.problem


def _never_launched(job: Job) -> str | None:
    """How it shows that a prolog failed. Slurm (root) cancels such a job or sends it back to the queue; its batch step
    has no exit status at all, and there is no step when the controller's own prolog failed (22.05 to 26.05)."""
    by_slurm = job.state == "REQUEUED" or (job.state == "CANCELLED" and job.cancelled_by_uid == 0)
    if not by_slurm or not job.nodes:
        return None
    if any(s.step_id == "batch" and s.exit_code is None and s.exit_signal is None and s.end for s in job.steps):
        return "the batch script was never launched: the node's prolog failed"
    if not job.steps and job.state == "CANCELLED" and (job.elapsed_s or 0) <= 2:
        return "the job got its nodes and nothing was started on them: slurmctld's prolog failed"
    return None
