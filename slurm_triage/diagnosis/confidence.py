"""How sure the verdict is. "high" is meant to be right at least 98 times in 100; the scorer measures it."""

from __future__ import annotations

from collections.abc import Sequence

from slurm_triage.diagnosis.cause import ONLY_CONSEQUENCES, UNANSWERED
from slurm_triage.diagnosis.classes import OUTCOMES, STOPS, SYMPTOMS, WITNESSES, level
from slurm_triage.diagnosis.completion import End
from slurm_triage.diagnosis.stall import Stall
from slurm_triage.model.diagnosis import Confidence, Finding


def confidence_of(cause: Finding, findings: Sequence[Finding], stall: Stall | None, end: End) -> Confidence:
    """From what the verdict stands on: a line that names the cause, a messenger, a silence, or mere absence."""
    rivals = {
        f.cls
        for f in findings
        if f is not cause and f.role in {"root", "contributor"} and f.cls != cause.cls and level(f.cls) == 0
    }
    if cause.cls == "hang" and cause.match is None:
        return (
            "high"
            if stall is not None and stall.measured and stall.silence_s > 3 * stall.limit_s
            else "medium"
            if stall and stall.measured
            else "low"
        )
    if cause.cls in STOPS or cause.cls == "soft-success":
        return "high" if end.ended else "medium"
    if cause.cls in OUTCOMES:
        return "medium" if cause.cls != "unknown-death" else "low"
    if cause.why in {ONLY_CONSEQUENCES, UNANSWERED}:
        return "low"
    if cause.cls in SYMPTOMS:
        return "medium" if stall is not None or rivals else "high" if end.ended else "medium"
    if cause.cls in WITNESSES:
        return "high"
    if level(cause.cls) == 1:
        return "medium" if rivals else "high"
    return "medium" if rivals else "high"
