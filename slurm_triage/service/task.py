"""One attempt of one job to report on: what the worker hands to the child that becomes the job's owner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slurm_triage.model.job import Job
from slurm_triage.service.spool_event import KernelMessage


@dataclass(frozen=True, slots=True)
class Task:
    """``key``: the attempt's key in the ledger; None for a report from a hook's word alone, which is not recorded.
    ``kernel``: by host, what the nodes' epilogs brought. ``failures``: children that it has cost already."""

    job: Job
    key: str | None = None
    kernel: Mapping[str, tuple[KernelMessage, ...]] = field(default_factory=dict)
    report_dir: str = ""
    log_is_its_own: bool = True
    """False: a later run of the job writes the same log already, so it tells nothing reliable about this one."""
    failures: int = 0
