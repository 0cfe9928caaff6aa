"""Running jobs that asked to be watched (``sbatch --triage=watch``): one child for each, the owner's, until it ends.

The event of the job's start stays in the spool as long, so the next worker goes on after a crash or a restart.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from slurm_triage.diagnosis.completion import LIVE_STATES, WAITING_STATES
from slurm_triage.errors import AccountingError
from slurm_triage.model.job import Job
from slurm_triage.service.lookup import Lookup
from slurm_triage.service.pending import UNKNOWN_WAIT_S
from slurm_triage.service.pool import Pool
from slurm_triage.service.spool import Arrived, Spool
from slurm_triage.service.switches import off_reason
from slurm_triage.service.task import Task
from slurm_triage.settings import Settings
from slurm_triage.slurm import hook_env
from slurm_triage.slurm.retry import Backoff

log = logging.getLogger("slurm-triage")

#: How often accounting is asked whether watched jobs still run: their end events tell sooner, if there are any.
ASK_EVERY_S = 60.0
#: A job that has just started is not in accounting yet.
RETRY = Backoff(first_s=1.0, longest_s=ASK_EVERY_S)
#: Jobs that wait for their turn; anybody may be able to write events.
MAX_WAITING = 1000
#: No job runs longer than this, and no child lives longer.
WALL_S = 60 * 86400.0
TRIES = 3


@dataclass(slots=True)
class _Watched:
    """Times are monotonic seconds."""

    start: Arrived
    first: float
    next_ask: float
    asks: int = 0
    failures: int = 0
    task: Task | None = None
    """Set while a child has it in hand."""


@dataclass
class WatchJobs:
    settings: Settings
    spool: Spool
    lookup: Lookup
    pool: Pool
    own_uid: int | None
    clock: Callable[[], float]
    _jobs: dict[str, _Watched] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._jobs)

    def take(self, starts: Iterable[Arrived]) -> None:
        """Events of starting jobs. Those that ask for nothing are dealt with by this."""
        now = self.clock()
        for item in starts:
            known = self._jobs.get(item.event.job_id)
            if item.event.wish != "watch" or (known is None and len(self._jobs) >= MAX_WAITING) or not self.pool.size:
                self.spool.remove([item.name])
            elif known is None or item.event.time >= known.start.event.time:
                # If known, this is the next run of a requeued job.
                self._leave(item.event.job_id)
                self._jobs[item.event.job_id] = _Watched(item, now, now)
            else:
                self.spool.remove([item.name])

    def seen(self, job_id: str, job: Job) -> None:
        """What accounting says about a job that may be watched."""
        known = self._jobs.get(job_id)
        if known is not None and job.is_terminal and (job.end or known.start.event.time) >= known.start.event.time:
            self._leave(job_id)

    def _leave(self, job_id: str) -> None:
        if (known := self._jobs.pop(job_id, None)) is not None:
            self.spool.remove([known.start.name])
            self.pool.end(job_id, "the job has ended")

    def step(self) -> None:
        """One round."""
        now = self.clock()
        due = {job_id: one for job_id, one in self._jobs.items() if one.next_ask <= now}
        if due:
            self._ask(due, now)
        for finished in self.pool.collect(0.0):
            job_id = finished.task.job.job_id or ""
            one = self._jobs.get(job_id)
            if one is None or one.task is not finished.task:
                continue
            one.task, one.failures = None, one.failures + 1
            if finished.failure is None or one.failures >= TRIES:
                said = (finished.answer or b"").decode("utf-8", "replace")
                log.info("job %s: not watched any more (%s)", job_id, finished.failure or said)
                self._leave(job_id)

    def _ask(self, due: dict[str, _Watched], now: float) -> None:
        self.lookup.queries += 1
        try:
            jobs = self._jobs_of(due)
        except AccountingError as error:
            log.debug("watched jobs: %s", error)
            for one in due.values():
                one.next_ask = now + ASK_EVERY_S
            return
        for job_id, one in due.items():
            one.next_ask = now + (ASK_EVERY_S if one.task is not None else RETRY.delay_s(one.asks))
            one.asks += 1
            self._decide(job_id, one, jobs.get(job_id), now)

    def _jobs_of(self, due: dict[str, _Watched]) -> dict[str, Job]:
        if self.lookup.accounting.name == "hook":
            return {i: hook_env.job(one.start.event.env) for i, one in due.items() if one.start.trusted}
        return self.lookup.accounting.jobs(list(due))

    def _decide(self, job_id: str, one: _Watched, job: Job | None, now: float) -> None:
        waited = now - one.first
        if one.task is None and waited <= UNKNOWN_WAIT_S and (job is None or job.state in WAITING_STATES):
            return
        if job is None:
            self._leave(job_id)
            return
        believed = one.start.trusted or one.start.uid == job.uid
        off = off_reason(job, [one.start.event.wish], self.settings, self.own_uid)
        if not believed or off is not None or (job.state or "RUNNING") not in LIVE_STATES:
            self._leave(job_id)
        elif one.task is None and self.pool.free > 0:
            refined = hook_env.refine(job, one.start.event.env) if one.start.trusted else job
            one.task = Task(refined, None, report_dir=self.settings.report_dir)
            try:
                self.pool.start([one.task])
            except OSError as error:
                one.task = None
                log.warning("job %s cannot be watched now: %s", job_id, error.strerror)

    def stop(self) -> None:
        """The children end; the events stay for the next worker."""
        self.pool.stop()
