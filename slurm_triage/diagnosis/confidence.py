"""How sure the verdict is. "high" is meant to be right at least 98 times in 100; the scorer measures it."""

from __future__ import annotations

from collections.abc import Sequence

from slurm_triage.diagnosis.cause import ONLY_CONSEQUENCES, STALL_RULE, UNANSWERED
from slurm_triage.diagnosis.classes import GENERIC, OUTCOMES, STOPS, SYMPTOMS, WITNESSES, level
from slurm_triage.diagnosis.completion import End
from slurm_triage.diagnosis.last_resort import SUGGESTED
from slurm_triage.diagnosis.stall import Stall
from slurm_triage.diagnosis.traceback import final_exception
from slurm_triage.model.diagnosis import Confidence, Finding
from slurm_triage.model.facts import AttemptFacts

#: Silence this many times as long as healthy training can be silent leaves no doubt.
_SURE_STALL = 3
#: Signals that a process does not bring upon itself.
_FROM_OUTSIDE = ("SIGKILL", "Killed", "SIGTERM", "Terminated")


def confidence_of(
    cause: Finding,
    findings: Sequence[Finding],
    stall: Stall | None,
    end: End,
    attempt: AttemptFacts,
    *,
    may_be_resolved: bool = False,
) -> Confidence:
    """From what the verdict stands on: a line that names the cause, a messenger, a silence, or mere absence.
    ``may_be_resolved``: a later line can take the cause back."""
    found = _by_evidence(cause, findings, stall, end)
    if found == "high" and cause.guess and not any(f.cls == cause.cls and not f.guess for f in findings):
        return "medium"
    if found == "high" and (end.live or _may_go_on(cause, end, attempt, may_be_resolved)):
        # What is not over may still turn out to have been survived.
        return "medium"
    return found


def _by_evidence(cause: Finding, findings: Sequence[Finding], stall: Stall | None, end: End) -> Confidence:
    rivals = {
        f.cls
        for f in findings
        if f is not cause and f.role in {"root", "contributor"} and f.cls != cause.cls and level(f.cls) == 0
    }
    if cause.why == SUGGESTED:
        return "low"
    if cause.rule == STALL_RULE:
        if stall is None or not stall.measured:
            return "low"
        return "high" if stall.silence_s > _SURE_STALL * stall.limit_s else "medium"
    if cause.cls in STOPS or cause.cls == "soft-success":
        # Whoever stopped a job that had touched its memory limit may have done it for that.
        touched = any(f.cls == "oom-host" and f.role == "context" for f in findings)
        return "high" if end.ended and not touched else "medium"
    if cause.cls in OUTCOMES:
        return "medium" if cause.cls != "unknown-death" else "low"
    if cause.why in {ONLY_CONSEQUENCES, UNANSWERED}:
        return "low"
    if cause.cls in SYMPTOMS:
        return "medium" if stall is not None or rivals or not end.ended else "high"
    if cause.cls in WITNESSES:
        return "high"
    block = cause.match.block if cause.match is not None else ()
    if cause.cls == "python-exception" and block and final_exception(block) is None:
        # The line that says what went wrong is missing.
        return "low"
    return "medium" if rivals else "high"


def _may_go_on(cause: Finding, end: End, attempt: AttemptFacts, may_be_resolved: bool) -> bool:
    """Nothing tells that the job is over, and what takes the cause back, or explains it, may only be missing: there are
    lines that resolve it; it is a signal from outside, or an exception as the last thing that its rank wrote; or the
    log was cut in the middle of its message."""
    match = cause.match
    if end.ended or attempt.exits or match is None:
        return False
    if may_be_resolved or (cause.cls == "signal-kill" and any(word in cause.title for word in _FROM_OUTSIDE)):
        return True
    last = next((t.text.strip() for t in attempt.tails if t.rank == cause.rank), "")
    exception = final_exception(match.block)
    stands_last = last == match.last.text.strip() or (exception is not None and last.endswith(exception))
    return stands_last and (cause.cls in GENERIC or attempt.ends_mid_line)
