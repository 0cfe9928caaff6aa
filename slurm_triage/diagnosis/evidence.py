"""What the verdict is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slurm_triage.diagnosis.stall import Stall
from slurm_triage.model.facts import AttemptFacts, LogFacts, Match
from slurm_triage.model.files import JobFiles
from slurm_triage.model.job import Job
from slurm_triage.model.progress import Progress, Throughput
from slurm_triage.model.rule import RuleSet


@dataclass(frozen=True, slots=True)
class Evidence:
    """``fact_kind`` maps rule ids to kinds of fact."""

    job: Job
    files: JobFiles
    facts: LogFacts
    attempt: AttemptFacts
    progress: Progress
    throughput: Throughput
    ruleset: RuleSet
    fact_kind: Mapping[str, str]
    stall: Stall | None = None
    """Measured by watching the job, so nothing has to be concluded from clocks."""

    def of_kind(self, *kinds: str) -> tuple[Match, ...]:
        return tuple(f for f in self.attempt.facts if self.fact_kind.get(f.rule) in kinds)
