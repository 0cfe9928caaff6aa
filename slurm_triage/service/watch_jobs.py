"""Running jobs that asked to be watched (``sbatch --triage=watch``): one child for each, the owner's, until it ends.

The event of the job's start stays in the spool as long, so the next worker goes on after a crash or a restart.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from slurm_triage.diagnosis.completion import LIVE_STATES
from slurm_triage.errors import AccountingError
from slurm_triage.model.job import WAITING_STATES, Job
from slurm_triage.service.lookup import MAX_IDS, Lookup, Pace
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
#: Jobs of one user that only files of his own speak of; the others wait in the spool. Slurm's own events are as many
#: as jobs run, and none of them is put aside.
MAX_UNTRUSTED = 50
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

    @property
    def key(self) -> tuple[str, int | None]:
        """Of its entry."""
        return self.start.event.job_id, None if self.start.trusted else self.start.uid


@dataclass
class WatchJobs:
    settings: Settings
    spool: Spool
    lookup: Lookup
    pool: Pool
    own_uid: int | None
    clock: Callable[[], float]
    _jobs: dict[tuple[str, int | None], _Watched] = field(default_factory=dict)
    """By job and who says so: None for Slurm, else whose the file is. Nobody's word replaces another's."""
    _of_user: Counter[int] = field(default_factory=Counter)
    _paces: dict[bool, Pace] = field(default_factory=lambda: {True: Pace(), False: Pace()})
    """For Slurm's own events and for the others: a flood of these does not keep those waiting."""

    def __len__(self) -> int:
        return len(self._jobs)

    def take(self, starts: Iterable[Arrived]) -> None:
        """Events of starting jobs. Those that ask for nothing are dealt with by this."""
        now = self.clock()
        for item in starts:
            new = _Watched(item, now, now)
            known = self._jobs.get(new.key)
            if item.event.wish != "watch" or not self.pool.size:
                self.spool.remove([item.name])
            elif known is None and not item.trusted and self._of_user[item.uid] >= MAX_UNTRUSTED:
                self.spool.hold(item.name, item.uid)
            elif known is None or item.event.time >= known.start.event.time:
                # If known, this is the next run of a requeued job.
                self._leave(new.key)
                self._jobs[new.key] = new
                self._of_user[item.uid] += not item.trusted
            else:
                self.spool.remove([item.name])

    def seen(self, job_id: str, job: Job) -> None:
        """What accounting says about a job that may be watched."""
        for key in ((job_id, None), (job_id, job.uid)):
            known = self._jobs.get(key)
            if known is not None and job.is_terminal and (job.end or known.start.event.time) >= known.start.event.time:
                self._leave(key)

    def _leave(self, key: tuple[str, int | None]) -> None:
        known = self._jobs.pop(key, None)
        if known is None:
            return
        if not known.start.trusted:
            self._of_user[known.start.uid] -= 1
        self.spool.remove([known.start.name])
        if known.task is not None:
            self.pool.end(known.task, "the job has ended")

    def step(self) -> None:
        """One round."""
        now = self.clock()
        for trusted, pace in self._paces.items():
            due = [one for one in self._jobs.values() if one.next_ask <= now and one.start.trusted is trusted]
            if due and pace.is_time([one.next_ask for one in due], now):
                pace.asked(len(due), now)
                self._ask(due[:MAX_IDS], now)
        for finished in self.pool.collect(0.0):
            job_id = finished.task.job.job_id or ""
            one = next((one for one in self._jobs.values() if one.task is finished.task), None)
            if one is None:
                continue
            one.task, one.failures = None, one.failures + 1
            if finished.failure is None or one.failures >= TRIES:
                said = (finished.answer or b"").decode("utf-8", "replace")
                log.info("job %s: not watched any more (%s)", job_id, finished.failure or said)
                self._leave(one.key)

    def _ask(self, due: list[_Watched], now: float) -> None:
        self.lookup.queries += 1
        try:
            jobs = self._jobs_of(due)
        except AccountingError as error:
            log.debug("watched jobs: %s", error)
            for one in due:
                one.next_ask = now + ASK_EVERY_S
            return
        for one in due:
            one.next_ask = now + (ASK_EVERY_S if one.task is not None else RETRY.delay_s(one.asks))
            one.asks += 1
            self._decide(one, jobs.get(one.key[0]), now)

    def _jobs_of(self, due: list[_Watched]) -> dict[str, Job]:
        if self.lookup.accounting.name == "hook":
            return {one.key[0]: hook_env.job(one.start.event.env) for one in due if one.start.trusted}
        return self.lookup.accounting.jobs(sorted({one.key[0] for one in due}))

    def _decide(self, one: _Watched, job: Job | None, now: float) -> None:
        waited = now - one.first
        if one.task is None and waited <= UNKNOWN_WAIT_S and (job is None or job.state in WAITING_STATES):
            return
        if job is None:
            self._leave(one.key)
            return
        believed = one.start.trusted or one.start.uid == job.uid
        off = off_reason(job, [one.start.event.wish], self.settings, self.own_uid)
        if not believed or off is not None or (job.state or "RUNNING") not in LIVE_STATES:
            self._leave(one.key)
        elif one.task is None and self.pool.free > 0 and not self._is_watched(one, job):
            refined = hook_env.refine(job, one.start.event.env) if one.start.trusted else job
            one.task = Task(refined, None, report_dir=self.settings.report_dir)
            try:
                self.pool.start([one.task])
            except OSError as error:
                one.task = None
                log.warning("job %s cannot be watched now: %s", job.job_id, error.strerror)

    def _is_watched(self, one: _Watched, job: Job) -> bool:
        """Slurm and the owner may both have asked."""
        other = self._jobs.get((one.key[0], job.uid if one.start.trusted else None))
        return other is not None and other.task is not None

    def stop(self) -> None:
        """The children end; the events stay for the next worker."""
        self.pool.stop()
