"""The lines to show when the verdict explains little: what looks like trouble in the log and no rule knows."""

from __future__ import annotations

from slurm_triage.diagnosis.cause import STALL_RULE
from slurm_triage.diagnosis.classes import GENERIC, OUTCOMES
from slurm_triage.model.diagnosis import Finding, Primary, Status
from slurm_triage.model.facts import AttemptFacts, TellingLine

MAX_LINES = 3


def telling_lines(
    status: Status, primary: Primary | None, cause: Finding | None, attempt: AttemptFacts, teardown_seq: int | None
) -> tuple[TellingLine, ...]:
    """At most three lines in log order, the culprit rank's first choice; none where the cause is known."""
    if not _needed(status, primary, cause):
        return ()
    lines = [line for line in attempt.telling if teardown_seq is None or line.seq < teardown_seq]
    rank = primary.rank if primary is not None and primary.rank is not None else -1
    if cause is not None and cause.rank is not None and cause.said_by == rank:
        rank = cause.rank
    best = sorted(lines, key=lambda line: (line.rank != rank, -line.score, -line.seq))
    chosen: dict[str, TellingLine] = {}
    for line in best:
        # What all ranks print alike is worth one line.
        chosen.setdefault(line.place.text, line)
        if len(chosen) == MAX_LINES:
            break
    return tuple(sorted(chosen.values(), key=lambda line: line.seq))


def _needed(status: Status, primary: Primary | None, cause: Finding | None) -> bool:
    if primary is None or cause is None:
        return status in {"failed", "unknown"}
    if primary.cls in OUTCOMES - {"incomplete-success"}:
        return primary.confidence != "high"
    return primary.confidence == "low" and cause.rule != STALL_RULE and primary.cls in GENERIC | {"oom-host"}
