"""The story in one to three sentences, and the causal chain line by line."""

from __future__ import annotations

from collections.abc import Sequence

from slurm_triage.diagnosis.completion import End
from slurm_triage.diagnosis.stall import Stall
from slurm_triage.model.diagnosis import Finding, Primary, Status
from slurm_triage.model.duration import human
from slurm_triage.model.progress import Progress
from slurm_triage.model.rule import FailureClass

_STOP_TEXT = {
    "cancelled": "it was cancelled",
    "time-limit": "Slurm stopped it at its time limit",
    "preempted": "it was preempted",
    "requeued": "it was requeued",
    "node-fail": "Slurm lost a node",
    "oom-host": "Slurm recorded an out-of-memory kill",
}


def tell(
    status: Status,
    primary: Primary | None,
    cls: FailureClass | None,
    progress: Progress,
    stall: Stall | None,
    end: End,
) -> str:
    """One to three sentences in plain English."""
    where = _progress_text(progress)
    if primary is None:
        return _healthy(status, progress, where)
    sentences = []
    opening = primary.title[:1].upper() + primary.title[1:]
    place = _place_text(primary)
    sentences.append(f"{opening}{place}{' ' + where if where else ''}.".replace("..", "."))
    if cls is not None and cls.means and primary.confidence != "low":
        sentences.append(cls.means.rstrip(".") + ".")
    if stall is not None and primary.cls != "hang":
        sentences.append(f"Nothing completed for {human(stall.silence_s)} before the end.")
    if end.stop in _STOP_TEXT and primary.cls not in {end.stop, "soft-success"}:
        sentences.append(f"Afterwards {_STOP_TEXT[end.stop or '']}; that is how it ended, not why.")
    return " ".join(sentences[:3])


def _healthy(status: Status, progress: Progress, where: str) -> str:
    if status == "completed":
        if progress.last_step is not None and progress.total_steps is not None:
            return f"The job completed: step {progress.last_step} of {progress.total_steps - 1} (the last) was reached."
        return "The job completed; no failure was found."
    if status == "running":
        return f"The job is running{' ' + where if where else ''}; no failure was found."
    return f"No failure was found in the log{' ' + where if where else ''}, and nothing tells how the job ended."


def _progress_text(progress: Progress) -> str:
    if progress.last_step is None:
        return "before any step completed" if progress.total_steps else ""
    if progress.total_steps:
        return f"after step {progress.last_step} of {progress.total_steps - 1}"
    return f"after step {progress.last_step}"


def _place_text(primary: Primary) -> str:
    if primary.node and primary.node in primary.title:
        return ""
    if primary.rank is not None and f"rank {primary.rank}" not in primary.title:
        return f" on rank {primary.rank}" + (f" ({primary.node})" if primary.node else "")
    return f" on {primary.node}" if primary.node and primary.rank is None else ""


def chain(findings: Sequence[Finding], primary: Finding | None, stall: Stall | None) -> tuple[str, ...]:
    """Root first, then what followed from it, one line per class."""
    if primary is None:
        return ()
    lines = [f"{primary.cls}: {primary.title}"]
    if stall is not None and primary.cls not in {"hang", "restore-straggler"}:
        lines.append(f"stall: no step completed for {human(stall.silence_s)}")
    seen = {primary.cls}
    for role in ("contributor", "consequence", "teardown"):
        for finding in findings:
            if finding.role == role and finding.cls not in seen:
                seen.add(finding.cls)
                lines.append(f"{role}: {finding.cls}: {finding.title}" + (f" ({finding.why})" if finding.why else ""))
    return tuple(lines[:12])
