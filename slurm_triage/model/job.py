"""What accounting says about a job: one typed record, whatever the source was."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

AccountingSource = Literal["pyslurm", "sacct", "hook", "file", "none"]
Launcher = Literal["slurm", "k8s", "local", "other"]

#: Job states after which nothing more happens to this attempt (Slurm's names).
TERMINAL_STATES = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REQUEUED",
        "REVOKED",
        "TIMEOUT",
    }
)
#: States of a job that has yet to start, for the first time or again.
WAITING_STATES = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
)


@dataclass(frozen=True, slots=True)
class JobStep:
    """One step of a job as accounting recorded it (``batch``, ``extern``, ``0`` ...)."""

    step_id: str
    name: str | None = None
    state: str | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    start: float | None = None
    end: float | None = None
    nodes: tuple[str, ...] = ()
    max_rss_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt of one job. Times are seconds since the epoch, UTC; unknown is None."""

    job_id: str | None = None
    array_job_id: str | None = None
    array_task_id: str | None = None
    het_job_id: str | None = None
    restarts: int | None = None
    name: str | None = None
    user: str | None = None
    uid: int | None = None
    gid: int | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    reservation: str | None = None
    cluster: str | None = None
    state: str | None = None
    reason: str | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    derived_exit_code: int | None = None
    derived_exit_signal: int | None = None
    submit: float | None = None
    start: float | None = None
    end: float | None = None
    elapsed_s: float | None = None
    time_limit_s: float | None = None
    nodes: tuple[str, ...] = ()
    node_count: int | None = None
    failed_node: str | None = None
    gpus: int | None = None
    work_dir: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    submit_line: str | None = None
    comment: str | None = None
    admin_comment: str | None = None
    requested_nodes: str | None = None
    excluded_nodes: str | None = None
    steps: tuple[JobStep, ...] = ()
    source: AccountingSource = "none"
    final: bool = False
    earlier: tuple[Job, ...] = field(default=())
    """Earlier attempts of the same job id (requeued, preempted), oldest first."""
    cancelled_by_uid: int | None = None
    """Who cancelled it, as far as accounting says."""

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL_STATES

    @property
    def is_queued_again(self) -> bool:
        """Slurm itself will run it once more; a held job waits for somebody to release it."""
        held = "held" in (self.reason or "").lower() or (self.state or "").endswith("HOLD")
        return bool(self.restarts) and self.state in WAITING_STATES - TERMINAL_STATES and not held

    @property
    def never_started(self) -> bool:
        """The job ended without ever getting a node (cancelled while pending)."""
        return self.is_terminal and self.start is None and not self.nodes


NO_JOB = Job()
