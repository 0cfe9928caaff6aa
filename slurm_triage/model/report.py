"""The whole result of one triage, as it is written to ``triage.json`` and ``TRIAGE.md``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slurm_triage.model.diagnosis import Diagnosis
from slurm_triage.model.facts import LogFacts, Stage
from slurm_triage.model.files import JobFiles
from slurm_triage.model.history import History
from slurm_triage.model.job import Job, Launcher
from slurm_triage.model.progress import Cost, Progress, Throughput

SCHEMA = "slurm-triage/1"


@dataclass(frozen=True, slots=True)
class Dashboards:
    ray: bool = False
    tunnel_command: str | None = None
    head_node: str | None = None
    prometheus_port: int | None = None
    live: bool = False
    tsdb_path: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptSummary:
    """An earlier attempt found in the same log (or in accounting), oldest first."""

    index: int
    status: str
    cls: str | None
    title: str | None
    first_step: int | None
    last_step: int | None
    nodes: tuple[str, ...] = ()
    start: float | None = None
    end: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    version: str
    rules_digest: str
    generated_at: float
    job: Job
    launcher: Launcher
    ray: bool
    attempt: int
    nodes: tuple[str, ...]
    node_count: int | None
    files: JobFiles
    facts: LogFacts
    diagnosis: Diagnosis
    stages: tuple[Stage, ...]
    progress: Progress
    throughput: Throughput
    cost: Cost
    dashboards: Dashboards
    attempts: tuple[AttemptSummary, ...] = ()
    log_path: str = ""
    now: float | None = None
    evidence: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    history: History | None = None
    """None: nobody looked."""
