"""What the log and accounting say about the end, before any cause is looked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from slurm_triage.diagnosis.cause import PRINT_LAG_STEPS
from slurm_triage.model.diagnosis import Finding
from slurm_triage.model.facts import AttemptFacts, Match, Summary
from slurm_triage.model.job import WAITING_STATES, Job
from slurm_triage.model.progress import Progress

#: States of a job whose processes may still run.
LIVE_STATES = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT"})

#: Exit statuses of a batch script that was asked to stop (128 + SIGINT, 128 + SIGTERM).
STOP_EXIT_CODES = frozenset({130, 143})

StopCause = Literal["cancelled", "time-limit", "preempted", "requeued", "node-fail", "oom-host", "deadline"]

#: Accounting state -> what stopped the job from outside.
_STATE_CAUSES: dict[str, StopCause] = {
    "CANCELLED": "cancelled",
    "TIMEOUT": "time-limit",
    "DEADLINE": "time-limit",
    "PREEMPTED": "preempted",
    "REQUEUED": "requeued",
    "NODE_FAIL": "node-fail",
    "BOOT_FAIL": "node-fail",
    "OUT_OF_MEMORY": "oom-host",
    "REVOKED": "cancelled",
}


@dataclass(frozen=True, slots=True)
class End:
    """How the attempt ended, as told by scheduler and launcher.

    ``reached_last_step``: the last of ``total_steps`` was logged (None: not known). ``stop``: what ended the job from
    outside, ``stop_seq`` the log position where that shows. ``claims_success``: exit 0 was reported.
    """

    live: bool
    waiting: bool
    ended: bool
    summary: Summary | None
    claims_success: bool | None
    reached_last_step: bool | None
    stop: StopCause | None
    stop_seq: int | None
    by_accounting: bool = False
    """``stop`` (also None) is what accounting's final state says."""


def read_end(job: Job, attempt: AttemptFacts, progress: Progress) -> End:
    summary = worst_summary(attempt)
    # A run that ended by being requeued is over, whatever becomes of the job.
    waiting = job.state in WAITING_STATES and not job.is_terminal
    stop, stop_seq = _stop(job, attempt, summary)
    # Without accounting, a projection to the present was asked for: the job is alive unless the log shows an end.
    open_end = job.state is None and summary is None and stop is None and not attempt.exits
    live = job.state in LIVE_STATES or (open_end and progress.expected_step is not None)
    success: bool | None = None
    if job.is_terminal:
        success = job.state == "COMPLETED" and not job.exit_code and not job.exit_signal
    elif summary is not None:
        success = summary.success
    if summary is not None and not summary.success:
        success = False
    return End(
        live=live,
        waiting=waiting,
        ended=job.is_terminal or summary is not None or stop is not None,
        summary=summary,
        claims_success=success,
        reached_last_step=_reached(progress),
        stop=stop,
        stop_seq=stop_seq,
        by_accounting=job.is_terminal,
    )


def stopped_for(end: End, cause: Finding | None) -> End:
    """Slurm cancels the job itself when it loses a node, also where its line does not say what for."""
    if end.stop == "cancelled" and not end.by_accounting and cause is not None and cause.cls == "node-fail":
        return replace(end, stop="node-fail", claims_success=False)
    return end


def obeyed_stop(
    attempt: AttemptFacts, signals: Sequence[Match], clean_ends: Sequence[Match], *, reached_last_step: bool | None
) -> bool:
    """Whether the processes were asked to stop (SIGTERM) and did not train on to a regular end. JAX swallows the
    signal; a loop that stops for it finishes the steps on their way, and may say that it is done as well."""
    for asked in signals:
        place = asked.last.file
        ended = any(e.last.file != place or e.last_seq > asked.last_seq for e in clean_ends)
        last_step = max((s.last_step or 0 for s in attempt.series if s.file == place), default=0)
        if asked.step is None and last_step > 0:  # a helper process at the start was meant: the training only begins
            continue
        if not (reached_last_step or ended) or last_step - (asked.step or 0) <= PRINT_LAG_STEPS:
            return True
    return False


def worst_summary(attempt: AttemptFacts) -> Summary | None:
    """k8s writes one block per rank into one file: a single failure makes the job failed."""
    return max(
        attempt.summaries, key=lambda s: (not s.success, s.exit_code not in STOP_EXIT_CODES, s.seq), default=None
    )


def _reached(progress: Progress) -> bool | None:
    if progress.total_steps is None:
        return None
    return progress.last_step is not None and progress.last_step >= progress.total_steps - 1


def _stop(job: Job, attempt: AttemptFacts, summary: Summary | None) -> tuple[StopCause | None, int | None]:
    """Accounting's state decides; then Slurm's DUE TO; then the wall time against the limit; then exit 143 alone."""
    # Lines of an earlier start of a requeued job may stand before this one's: no stage begins in a job that is stopped.
    begun = max((s.seq for s in attempt.stages), default=-1)
    cancellations = [c for c in attempt.cancellations if c.seq > begun]
    job_line = next((c for c in cancellations if c.kind == "JOB"), None)
    seq = job_line.seq if job_line is not None else None
    from_state = _STATE_CAUSES.get(job.state or "")
    if from_state is not None:
        return from_state, seq
    if job.state in {"COMPLETED", "FAILED"}:
        return None, seq
    lines = [c for c in cancellations if c.cause is not None] or ([job_line] if job_line else [])
    for line in lines:
        cause = line.cause or ""
        if "TIME LIMIT" in cause:
            return "time-limit", line.seq
        if "PREEMPT" in cause:
            return "preempted", line.seq
        if "NODE FAIL" in cause:
            return "node-fail", line.seq
        if "REQUEUE" in cause:
            return "requeued", line.seq
    if job_line is not None or (summary is not None and summary.exit_code in STOP_EXIT_CODES):
        wall = summary.wall_s if summary is not None else None
        if wall is not None and job.time_limit_s and wall >= job.time_limit_s:
            return "time-limit", seq
        return "cancelled", seq
    return None, None
