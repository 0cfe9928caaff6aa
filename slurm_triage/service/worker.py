"""The one worker of a cluster: from spool files to reports, ledger records and an empty spool.

Order of every job: report on disk (child), record durable in the ledger, spool file removed. Killed between any two of
these, the next worker finds the spool file, recognises what the ledger has, and goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from slurm_triage.errors import AccountingError, TriageError
from slurm_triage.model.job import Job
from slurm_triage.service import outcome, pending
from slurm_triage.service.comments import Comments
from slurm_triage.service.completion_log import CompletionLog
from slurm_triage.service.done import Done
from slurm_triage.service.lookup import Lookup
from slurm_triage.service.making import Made, Making
from slurm_triage.service.pending import Pending, decide
from slurm_triage.service.reconcile import Reconciler
from slurm_triage.service.recording import COMMIT_S, Recording
from slurm_triage.service.spool import Arrived, Spool
from slurm_triage.service.switches import off_reason
from slurm_triage.service.tallies import Tallies
from slurm_triage.service.task import Task
from slurm_triage.service.trouble import Trouble
from slurm_triage.service.watch_jobs import WatchJobs
from slurm_triage.session_nice import SessionNice
from slurm_triage.settings import Settings
from slurm_triage.slurm import hook_env

log = logging.getLogger("slurm-triage")

#: Above this many records that the ledger could not take, no more jobs are triaged.
MAX_UNRECORDED = 2000
_SWEEP_S = 3600.0

#: Above this many events, Slurm's log is read on later: it waits better than events in memory.
MAX_WAITING = 20_000

#: While so many jobs wait for their reports, Slurm goes first: one second of a storm of 60 jobs/s. A few reports take a
#: tenth of a second of processor time.
STORM_JOBS = 50

#: Runs that ended so long before the time up to which accounting was asked for ends have their report, or are to have
#: none. A name with a line of Slurm's log in it must not have them reported again. So long, because a record may be
#: late.
HEARSAY_S = 3600.0


@dataclass(slots=True)
class Counts:
    """What has happened since the start; printed at the end and by the tests."""

    events: int = 0
    reports: int = 0
    off: int = 0
    dropped: int = 0


@dataclass
class Worker:
    """``step`` does what can be done now and returns; ``run`` calls it until told to stop."""

    settings: Settings
    spool: Spool
    lookup: Lookup
    making: Making
    recording: Recording
    done: Done
    reconciler: Reconciler
    comments: Comments
    tallies: Tallies
    watching: WatchJobs
    completion_log: CompletionLog | None = None
    own_uid: int | None = None
    """Set for a worker that is not root: only this user's jobs are reported."""
    poll_s: float = 0.5
    """How often the spool is looked at, and accounting is asked."""
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self._pending: dict[str, Pending] = {}
        self._next_poll = 0.0
        self._next_sweep = 0.0
        self._spool_trouble, self._accounting_trouble = Trouble(), Trouble()
        self._session_nice = SessionNice()

    # ---- the loop -------------------------------------------------------------------------------------------------

    def run(self, should_stop: Callable[[], bool], *, idle_exit_s: float | None = None) -> None:
        """Until ``should_stop``, or until nothing has happened for ``idle_exit_s``. Finishes running children."""
        last_work = self.clock()
        while not should_stop():
            if self.step():
                last_work = self.clock()
            elif idle_exit_s is not None and self.clock() - last_work > idle_exit_s and not self.busy:
                break
        self.drain()

    @property
    def busy(self) -> bool:
        return bool(self._pending or self.recording or self.making or self.watching)

    def step(self) -> bool:
        """One round; True if something was done."""
        now, did = self.clock(), False
        if now >= self._next_poll:
            self._next_poll = now + self.poll_s
            did = self._receive(now)
            self._session_nice.step_back(len(self._pending) >= STORM_JOBS)
            if len(self.recording) <= MAX_UNRECORDED:
                did = self._look_up(now) or did
                did = self._reconcile(now) or did
        if len(self.recording) <= MAX_UNRECORDED:
            self.making.start()
        wait_s = self._next_poll - self.clock()
        did = self._take(min(wait_s, COMMIT_S) if self.recording else wait_s) or did
        self._record(now_or_never=not self.making)
        self.comments.work()
        self.tallies.save(now)
        self.watching.step()
        return did

    def drain(self, patience_s: float = 30.0) -> None:
        """Take no more work; finish and record what runs. What does not finish in time stays in the spool."""
        until = self.clock() + patience_s
        while self.making and self.clock() < until:
            self._take(0.2)
            self._record()
        self.making.pool.stop()
        self.watching.stop()
        self._record(now_or_never=True)
        self.tallies.save(self.clock(), at_once=True)
        self.comments.finish(5.0)

    # ---- spool ----------------------------------------------------------------------------------------------------

    def _receive(self, now: float) -> bool:
        try:
            if now >= self._next_sweep:
                self._next_sweep = now + _SWEEP_S
                self.spool.sweep()
                self.making.queue.forget_idle(now)
            if self.completion_log is not None and self.spool.waiting < MAX_WAITING:
                self.completion_log.carry()
            arrived = self.spool.arrivals()
        except TriageError as error:
            # A file system that is away comes back; until then accounting is asked for ended jobs.
            self._spool_trouble.note(str(error))
            return False
        self._spool_trouble.over()
        self.counts.events += len(arrived)
        self.watching.take([item for item in arrived if item.event.is_start])
        for item in arrived:
            if not item.event.is_start:
                self._add(item, now)
        return bool(arrived)

    def _add(self, item: Arrived, now: float) -> None:
        found = self._pending.get(item.event.job_id)
        if found is None:
            found = Pending(item.event.job_id, now, now + self.settings.settle_s)
            self._pending[found.job_id] = found
        found.arrived.append(item)
        if found.tries:
            # News about a job that waits for its record: worth another look soon.
            found.tries = 0
            found.next_try = min(found.next_try, now + self.settings.settle_s)

    # ---- accounting -----------------------------------------------------------------------------------------------

    def _look_up(self, now: float) -> bool:
        due = self.lookup.due([one for one in self._pending.values() if not one.busy])
        if not due:
            return False
        jobs = self.lookup.ask(due)
        if jobs is None:
            self._accounting_trouble.note(f"accounting cannot be asked: {self.lookup.last_error}")
            self._report_early(due, now)
            return True
        self._accounting_trouble.over()
        for one in due:
            self._decide(one, jobs.get(one.job_id), now)
        return True

    def _reconcile(self, now: float) -> bool:
        if self.lookup.is_down or self.lookup.accounting.name == "hook":
            return False
        span = self.reconciler.due(now, self.wall())
        if span is None:
            return False
        self.lookup.queries += 1
        try:
            jobs = list(self.lookup.accounting.recent(span.since, span.until))
        except AccountingError as error:
            self.lookup.failed(error)
            self.reconciler.failed(now)
            return True
        missing: dict[str, Job] = {}
        for job in jobs:
            if job.job_id in self._pending:
                self._pending[job.job_id].missed = True
            elif job.job_id is not None and self._is_missing(span.ended(job)):
                missing[job.job_id] = job
        if missing:
            log.info("%d ended jobs were reported by no hook", len(missing))
        self.reconciler.begin(span, missing)
        for job_id, job in missing.items():
            self._pending[job_id] = Pending(job_id, now - self.settings.settle_s, now)
            self._decide(self._pending[job_id], job, now)
        return bool(missing)

    def _is_missing(self, runs: Iterable[Job]) -> bool:
        return not all(self.done.is_final(outcome.minimal_record(run, now=0.0).key) for run in runs)

    def _decide(self, one: Pending, job: Job | None, now: float) -> None:
        if job is not None and self.lookup.accounting.name == "hook":
            # Nothing better will ever come.
            told = max((item.event.time for item in one.arrived if item.trusted), default=self.wall())
            job = replace(job, final=True, state=job.state or "COMPLETED", end=job.end or min(told, self.wall()))
        # Slurm 22.05 first writes a job that never started as root's, and completes the record seconds later.
        reliable = job is not None and (job.final or now - one.first > self.settings.final_wait_s)
        if job is not None and reliable and (reason := self._off(job, one)) is not None:
            for run in (*job.earlier, job):
                if run.is_terminal:
                    self.done.ignore(outcome.minimal_record(run, now=0.0).key)
            hearsay = one.is_only_hearsay(job.uid)
            give_up_s = self.settings.final_wait_s if hearsay else self.settings.give_up_s
            if not job.is_terminal and now - one.first <= give_up_s:
                # The wish may be told once, in the middle of the job (TaskEpilog), and must hold at its end.
                one.try_later(now)
                return
            self.counts.off += 1
            log.info("job %s: no report, %s", one.job_id, reason)
            one.settle_all()
            self._settle(one, now)
            return
        if job is not None:
            self.watching.seen(one.job_id, job)
        decision = decide(
            one, job, self.done, self.settings, now, hearsay_since=self.reconciler.asked_until - HEARSAY_S
        )
        for task in decision.tasks:
            self._make(task, one)
        if not decision.settled:
            one.try_later(now)
            return
        one.settle_all()
        if not one.busy:
            if job is None:
                self.counts.dropped += 1
                log.info("job %s: event dropped, %s", one.job_id, decision.why)
            self._settle(one, now)

    def _off(self, job: Job, one: Pending) -> str | None:
        return off_reason(job, one.wishes(job.uid), self.settings, self.own_uid)

    def _make(self, task: Task, one: Pending) -> None:
        one.busy.add(task.key)
        one.kernel_used = one.kernel_used or bool(task.kernel)
        self.making.put(task)

    def _report_early(self, due: Iterable[Pending], now: float) -> None:
        """Accounting has been away for long: reports from what the hooks said, to be made again when it is back. They
        are not recorded, because the attempt's key needs accounting."""
        for one in due:
            one.next_try = now + pending.RETRY.delay_s(one.tries)
            one.tries += 1
            if now - one.first <= self.settings.final_wait_s or one.early:
                continue
            told = [item for item in one.arrived if item.trusted and item.event.kind != "node"]
            job = hook_env.job(told[-1].event.env) if told else None
            if job is None or job.uid is None or self._off(job, one) is not None:
                continue
            one.early = True
            self._make(Task(replace(job, job_id=one.job_id), None, one.kernel(), self.settings.report_dir), one)

    # ---- reports, ledger, and the end ------------------------------------------------------------------------------

    def _take(self, timeout_s: float) -> bool:
        made = self.making.collect(timeout_s)
        for one in made:
            self.counts.reports += 1
            self.tallies.add(one.outcome.scan)
            waiting, found = self._pending[one.task.job.job_id or ""], one.outcome
            if found.problem:
                log.info("job %s: no report on disk: %s", waiting.job_id, found.problem)
            if one.task.key is None:
                waiting.busy.discard(None)
                continue
            given_up = self.clock() - waiting.first > self.settings.give_up_s
            self.recording.add(one.as_last() if given_up else one)
        return bool(made)

    def _record(self, *, now_or_never: bool = False) -> None:
        durable: dict[str, list[Made]] = {}
        for one in self.recording.commit(now_or_never=now_or_never):
            durable.setdefault(one.task.job.job_id or "", []).append(one)
            self.comments.put(one)
        now = self.clock()
        for job_id, made in durable.items():
            waiting = self._pending[job_id]
            waiting.busy.difference_update(one.task.key for one in made)
            if any(one.outcome.passing for one in made):
                waiting.settles.clear()
                waiting.next_try = now + pending.UNWRITTEN.delay_s(waiting.unwritten)
                waiting.unwritten += 1
                # It is in the ledger; other jobs that no hook reported must not wait for a full disk.
                self.reconciler.settled(job_id)
            # The reconciler's jobs have no file to remove, but their record may have been incomplete.
            final = not any(one.outcome.record.provisional for one in made)
            if not waiting.busy and (waiting.settles or (not waiting.arrived and final)):
                self._settle(waiting, now)

    def _settle(self, one: Pending, now: float) -> None:
        """Its events are dealt with. Others of the same job that came meanwhile begin anew."""
        self.spool.remove(one.settles)
        del self._pending[one.job_id]
        self.reconciler.settled(one.job_id)
        for item in one.arrived:
            if item.name not in one.settles:
                self._add(item, now)
