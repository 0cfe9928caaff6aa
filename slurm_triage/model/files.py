"""The files that belong to one job, found by ``locate``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FileRole = Literal["primary", "rank", "ray-worker", "stderr", "node"]


@dataclass(frozen=True, slots=True)
class LogFile:
    """One log of a job. ``path`` is ``-`` for standard input.

    ``ranks`` is empty when the file holds every rank (or the rank is unknown).
    ``host`` is set when the whole file comes from one node (Ray workers).
    """

    path: str
    role: FileRole
    ranks: tuple[int, ...] = ()
    host: str | None = None
    size_bytes: int | None = None
    inode: int | None = None
    mtime: float | None = None


@dataclass(frozen=True, slots=True)
class CheckpointDir:
    """One step directory below a checkpoint directory."""

    step: int
    committed: bool
    path: str


@dataclass(frozen=True, slots=True)
class JobFiles:
    """Everything on disk that the analysis of one job may read.

    ``problem`` says in one sentence why there is no log, when there is none.
    """

    job_id: str | None = None
    job_dir: str | None = None
    outputs_dir: str | None = None
    logs: tuple[LogFile, ...] = ()
    prometheus_dir: str | None = None
    ray_logs_dir: str | None = None
    artifact_dir: str | None = None
    submit_cmd: str | None = None
    """Content of ``artifact/submit_cmd.txt``."""
    core_dumps: tuple[str, ...] = ()
    checkpoints: tuple[CheckpointDir, ...] = ()
    coord_ranks: tuple[int, ...] = ()
    """k8s only: ranks that reached the start barrier (``.coord/ready-N``)."""
    node_snapshots: tuple[str, ...] = ()
    problem: str | None = None
    notes: tuple[str, ...] = ()
    """What could not be looked at (unreadable directories, limits), one sentence each."""

    @property
    def primary(self) -> LogFile | None:
        return next((f for f in self.logs if f.role == "primary"), None)


NO_FILES = JobFiles()
