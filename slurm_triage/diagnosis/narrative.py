"""The story in a few sentences, and the causal chain line by line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slurm_triage.diagnosis.cause import ONLY_CONSEQUENCES, STALL_RULE, UNANSWERED
from slurm_triage.diagnosis.completion import End
from slurm_triage.diagnosis.stall import Stall
from slurm_triage.model.diagnosis import Finding, Primary, Status
from slurm_triage.model.duration import human
from slurm_triage.model.progress import Progress
from slurm_triage.model.sentence import capitalised, located, sentence

#: ``Finding.why`` of a verdict that rests on what is missing, in words.
_DOUBTS = {
    ONLY_CONSEQUENCES: "Only its consequences are in the log; the cause itself left no message.",
    UNANSWERED: "It is a warning that was never taken back, and nothing came after it.",
}
#: A link of the causal chain; the evidence has the whole line.
_MAX_TITLE_CHARS = 120
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
    cause: Finding | None,
    explanation: str | None,
    progress: Progress,
    stall: Stall | None,
    end: End,
    problem: str | None,
) -> str:
    """What happened, where, why, and how it ended, in a few sentences of plain English."""
    if (primary is None or cause is None) and problem is not None:
        return sentence(problem)
    if primary is None or cause is None:
        return _healthy(status, progress, _progress_text(progress))
    sentences = [_opening(primary, progress)]
    if cause.why in _DOUBTS:
        sentences.append(_DOUBTS[cause.why])
    elif explanation:
        sentences.append(explanation.rstrip(".") + ".")
    if stall is not None and not stall.measured and cause.rule == STALL_RULE:
        sentences.append(
            "No clock shows it: it is the wall time less the time of all steps and half an hour of set-up."
        )
    if stall is not None and primary.cls != "hang":
        sentences.append(f"No further step was completed in the last {human(stall.silence_s)}.")
    if end.stop in _STOP_TEXT and primary.cls not in {end.stop, "soft-success"}:
        sentences.append(f"Afterwards {_STOP_TEXT[end.stop or '']}; that is how it ended, not why.")
    return " ".join(sentences)


def _opening(primary: Primary, progress: Progress) -> str:
    """The title with what it leaves out: rank, node, the rank's own last step, and how far the job was."""
    rank = f"rank {primary.rank}" if primary.rank is not None and not _says(primary, f"rank {primary.rank}") else ""
    node = primary.node if primary.node and not _says(primary, primary.node) else ""
    place = f"{rank} on {node}" if rank and node else rank or node
    others = len(primary.ranks) - 1 if primary.rank in primary.ranks else 0
    more = f"the same on {others} other rank{'s' * (others > 1)}" if others > 0 else ""
    elsewhere = primary.rank is not None and primary.step is not None and primary.step != progress.last_step
    own = f"after its step {primary.step}" if elsewhere and not _says(primary, f"step {primary.step}") else ""
    inside = ", ".join(part for part in (place, own, more) if part)
    told = primary.cls == "soft-success" or _says(primary, f"step {progress.last_step}")
    reached = "" if told else _progress_text(progress)
    if own and reached:
        reached = f"; the job reached{reached.removeprefix('after')}"
    title = located(capitalised(primary.title.rstrip(".")), inside)
    return f"{title}{reached if reached[:1] in {'', ';'} else ' ' + reached}."


def _says(primary: Primary, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", primary.title, re.IGNORECASE) is not None


def _healthy(status: Status, progress: Progress, where: str) -> str:
    if status == "completed":
        if progress.last_step is not None and progress.total_steps is not None:
            return f"The job completed: {done(progress)} were done."
        return "The job completed; no failure was found."
    if status == "running":
        return f"The job is running{' ' + where if where else ''}; no failure was found."
    return f"No failure was found in the log{' ' + where if where else ''}, and nothing tells how the job ended."


def _progress_text(progress: Progress) -> str:
    if progress.last_step is None:
        return "before any step completed" if progress.total_steps else ""
    if progress.total_steps:
        return f"after step {progress.last_step} ({done(progress)})"
    return f"after step {progress.last_step}"


def done(progress: Progress) -> str:
    """``15 of 15 steps``: steps are numbered from 0 and counted from 1, and a report counts in this way only."""
    return f"{(progress.last_step or 0) + 1} of {progress.total_steps} steps" if progress.last_step is not None else ""


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
                title = (
                    finding.title if len(finding.title) <= _MAX_TITLE_CHARS else f"{finding.title[:_MAX_TITLE_CHARS]}…"
                )
                lines.append(f"{role}: {finding.cls}: {title}" + (f" ({finding.why})" if finding.why else ""))
    return tuple(lines[:12])
