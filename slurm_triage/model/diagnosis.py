"""The verdict: what broke, how sure we are, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from slurm_triage.model.facts import ExitRecord, Match, TellingLine
from slurm_triage.model.rule import Role

Status = Literal["completed", "failed", "cancelled", "running", "hanging", "unknown"]
Confidence = Literal["high", "medium", "low"]
ResubmitAction = Literal["none", "same-nodes", "other-nodes", "after-fix"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One class of trouble seen by one rank (or by the job), with the role it plays in the story.

    ``match`` is None for findings that no line shows: a silent stall, a missing summary, a throughput drop.
    """

    cls: str
    role: Role
    rule: str
    title: str
    rank: int | None = None
    node: str | None = None
    step: int | None = None
    count: int = 1
    match: Match | None = None
    why: str | None = None
    """Why it has this role, one sentence (for ``explain``)."""
    guess: bool = False
    """The class is only the usual reason for what the line shows."""
    of_task: bool = False
    """``rank`` is the number of a task, which has several ranks."""

    @property
    def said_by(self) -> int | None:
        """The global rank: the one that the line names, else the label it stands behind. None where that is a task's,
        and nothing tells which of its ranks it was."""
        worker = self.match.worker if self.match is not None else None
        if worker is not None:
            return worker
        return None if self.of_task else self.rank


@dataclass(frozen=True, slots=True)
class Primary:
    """The cause of the job's end. ``rank`` is the culprit when one rank can be named."""

    cls: str
    title: str
    stage: str | None
    domain: str
    rank: int | None
    ranks: tuple[int, ...]
    node: str | None
    step: int | None
    confidence: Confidence
    retry: str


@dataclass(frozen=True, slots=True)
class Suspect:
    """A node that may be at fault. ``exclude`` only on direct evidence or corrected statistics."""

    node: str
    why: tuple[str, ...]
    confidence: Confidence
    exclude: bool


@dataclass(frozen=True, slots=True)
class Resubmit:
    """What to do about running the job again. ``args`` maps launcher arguments to add or replace to their values."""

    action: ResubmitAction
    why: str
    command: str | None = None
    exclude: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    args: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RankView:
    """One row of the per-rank table; ``ranks`` share the same story."""

    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    last_step: int | None
    first_error: str | None
    last_words: str | None
    exit: str | None
    last_time: float | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    status: Status
    primary: Primary | None
    findings: tuple[Finding, ...]
    suppressed: tuple[tuple[str, str], ...]
    """(rule id, reason) of matches that were dropped, for ``explain``."""
    harmless: tuple[tuple[str, int], ...]
    exits: tuple[ExitRecord, ...]
    suspects: tuple[Suspect, ...]
    resubmit: Resubmit
    ranks: tuple[RankView, ...]
    narrative: str
    next_steps: tuple[str, ...]
    notes: tuple[str, ...]
    chain: tuple[str, ...] = ()
    """The causal chain, first event first, one sentence each."""
    telling: tuple[TellingLine, ...] = ()
    """Lines that no rule knows, where the verdict explains little."""
