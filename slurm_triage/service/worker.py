"""The one worker of a cluster: from spool files to reports, ledger records and empty spool.

Order of every job: report on disk (child), record durable in the ledger, spool file removed. Killed between any two of
these, the next worker finds the spool file, recognises what the ledger has, and goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from slurm_triage.errors import AccountingError, LedgerError, TriageError
from slurm_triage.ledger.append import Writer
from slurm_triage.ledger.record import LedgerRecord
from slurm_triage.model.job import Job
from slurm_triage.service import outcome, pending
from slurm_triage.service.child import Task
from slurm_triage.service.comments import Comments
from slurm_triage.service.done import Done
from slurm_triage.service.lookup import Lookup
from slurm_triage.service.pending import Pending, decide
from slurm_triage.service.pool import Finished, Pool
from slurm_triage.service.rates import FairQueue
from slurm_triage.service.reconcile import Reconciler
from slurm_triage.service.spool import Arrived, Spool
from slurm_triage.service.switches import off_reason
from slurm_triage.settings import Settings
from slurm_triage.slurm import hook_env

log = logging.getLogger("slurm-triage")

#: How often the spool is looked at when nothing else happens.
POLL_S = 0.5
#: Records are made durable together: at most this many, or as old as this.
COMMIT_RECORDS, COMMIT_S = 64, 0.25
#: A child that fails is tried again; after this many times the job gets a record without a diagnosis.
TRIES = 3
TRY_AGAIN_S = 5.0
#: Above this many records that the ledger could not take, no more jobs are triaged.
MAX_UNWRITTEN = 2000
_SWEEP_S = 3600.0


@dataclass(slots=True)
class _Made:
    """One report that waits for its record to be durable. ``pending`` is None for reports nobody waits for."""

    record: LedgerRecord
    job: Job
    headline: str
    pending: Pending


@dataclass(slots=True)
class Counts:
    """What has happened since the start; printed at the end and by the tests."""

    events: int = 0
    reports: int = 0
    failures: int = 0
    off: int = 0
    dropped: int = 0


@dataclass
class Worker:
    """``step`` does what can be done now and returns; ``run`` calls it until told to stop."""

    settings: Settings
    spool: Spool
    lookup: Lookup
    pool: Pool
    ledger: Writer
    done: Done
    reconciler: Reconciler
    comments: Comments | None = None
    own_uid: int | None = None
    """Set for a worker that is not root: only this user's jobs are reported."""
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self._pending: dict[str, Pending] = {}
        self._queue: FairQueue[tuple[Task, str, Pending]] = FairQueue(self.settings.reports_per_minute)
        self._running: dict[int, tuple[str, Pending]] = {}
        self._tries: dict[str, int] = {}
        self._again: list[tuple[float, str, tuple[Task, str, Pending]]] = []
        self._made: list[_Made] = []
        self._made_at = 0.0
        self._commit_not_before = 0.0
        self._next_poll = 0.0
        self._next_sweep = 0.0
        self._early: set[str] = set()
        self._noted: dict[str, str] = {}

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
        return bool(self._pending or self._made or len(self.pool))

    def step(self) -> bool:
        """One round; True if something was done."""
        did = self._receive()
        did = self._look_up() or did
        did = self._reconcile() or did
        self._start_children()
        wait_s = POLL_S if not self._made else COMMIT_S
        if len(self.pool):
            finished = self.pool.collect(wait_s)
            did = self._take(finished) or did
        elif not did and not self._made:
            time.sleep(min(POLL_S, 0.1))
        self._commit()
        if self.comments is not None:
            self.comments.work()
        return did

    def drain(self, patience_s: float = 30.0) -> None:
        """Take no more work; finish and record what runs. What does not finish in time stays in the spool."""
        until = self.clock() + patience_s
        while len(self.pool) and self.clock() < until:
            self._take(self.pool.collect(0.2))
            self._commit()
        self.pool.stop()
        self._commit(force=True)
        if self.comments is not None:
            self.comments.finish(5.0)

    # ---- spool ----------------------------------------------------------------------------------------------------

    def _receive(self) -> bool:
        now = self.clock()
        if now < self._next_poll:
            return False
        self._next_poll = now + POLL_S
        try:
            if now >= self._next_sweep:
                self._next_sweep = now + _SWEEP_S
                self.spool.sweep()
                self._queue.forget_idle(now)
            arrived = self.spool.arrivals()
        except TriageError as error:
            # A file system that is away comes back; until then accounting is asked for ended jobs.
            self._note("spool", str(error))
            return False
        self._noted.pop("spool", None)
        self.counts.events += len(arrived)
        starts = [item.name for item in arrived if item.event.is_start]
        self.spool.remove(starts)
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

    def _look_up(self) -> bool:
        if len(self._made) > MAX_UNWRITTEN:
            return False
        due = self.lookup.due([p for p in self._pending.values() if not p.busy])
        if not due:
            return False
        jobs = self.lookup.ask(due)
        if jobs is None:
            self._note("accounting", f"accounting cannot be asked: {self.lookup.last_error}")
            self._report_early(due)
            return True
        self._noted.pop("accounting", None)
        now = self.clock()
        for one in due:
            self._decide(one, jobs.get(one.job_id), now)
        return True

    def _reconcile(self) -> bool:
        window = self.reconciler.window(self.wall())
        if window is None or self.lookup.is_down or self.lookup.accounting.name == "hook":
            return False
        self.lookup.queries += 1
        try:
            ended = [job for job in self.lookup.accounting.recent(*window) if job.job_id is not None]
        except AccountingError as error:
            self.lookup.failed(error)
            self.reconciler.next_ask = self.wall() + 60.0
            return True
        now = self.clock()
        missing: dict[str, Job] = {}
        for job in ended:
            keys = [outcome.minimal_record(run, now=0.0).key for run in (*job.earlier, job) if _ended(run, *window)]
            if job.job_id not in self._pending and not all(map(self.done.is_final, keys)):
                missing[job.job_id or ""] = job
        for job_id, job in missing.items():
            self._pending[job_id] = Pending(job_id, now - self.settings.settle_s, now, record=job)
        if missing:
            log.info("%d ended jobs were reported by no hook", len(missing))
        self.reconciler.begin(window[1], set(missing))
        for job_id in missing:
            one = self._pending[job_id]
            self._decide(one, one.record, now)
        return bool(missing)

    def _decide(self, one: Pending, job: Job | None, now: float) -> None:
        hook_only = self.lookup.accounting.name == "hook"
        if job is not None and hook_only:
            # Nothing better will ever come.
            job = replace(job, final=True, state=job.state or "COMPLETED", end=job.end or self._event_time(one))
        # Slurm 22.05 first writes a job that never started as root's, and completes the record seconds later.
        reliable = job is not None and (job.final or now - one.first > self.settings.final_wait_s)
        if job is not None and reliable and (reason := self._off(job, one)) is not None:
            self.counts.off += 1
            log.info("job %s: no report, %s", one.job_id, reason)
            for run in (*job.earlier, job):
                if run.is_terminal:
                    self.done.ignore(outcome.minimal_record(run, now=0.0).key)
            self._settle(one, [item.name for item in one.arrived])
            return
        decision = decide(one, job, self.done, self.settings, now)
        kernel = one.kernel()
        for report in decision.reports:
            one.busy.add(report.key)
            task = Task(report.job, kernel, self.settings.report_dir, report.log_is_its_own)
            self._queue.put(report.job.user or str(report.job.uid), (task, report.key, one))
        one.kernel_used = one.kernel_used or bool(decision.reports and kernel)
        if decision.settled:
            one.settles.update(item.name for item in one.arrived)
            if not one.busy:
                if job is None:
                    self.counts.dropped += 1
                    log.info("job %s: event dropped, %s", one.job_id, decision.why)
                self._settle(one, list(one.settles))
            return
        one.tries += 1
        one.next_try = now + pending.RETRY.delay_s(one.tries - 1)

    def _off(self, job: Job, one: Pending) -> str | None:
        if self.own_uid is not None and job.uid != self.own_uid:
            return "it belongs to somebody else, and this worker is not root's"
        if self.own_uid is None and job.uid == 0:
            return "it is root's own"
        return off_reason(job, one.wishes(), self.settings)

    def _report_early(self, due: Iterable[Pending]) -> None:
        """Accounting has been away for long: reports from what the hooks said, to be made again when it is back. They
        are not recorded, because the attempt's key needs accounting."""
        now = self.clock()
        for one in due:
            one.next_try = now + pending.RETRY.delay_s(one.tries)
            one.tries += 1
            if now - one.first <= self.settings.final_wait_s or one.job_id in self._early:
                continue
            told = [item for item in one.arrived if item.trusted and item.event.kind != "node"]
            job = hook_env.job(told[-1].event.env) if told else None
            if job is None or job.uid is None or self._off(job, one) is not None:
                continue
            self._early.add(one.job_id)
            key = f"early/{one.job_id}"
            one.busy.add(key)
            self._queue.put(job.user or str(job.uid), (Task(job, one.kernel(), self.settings.report_dir), key, one))

    # ---- children -------------------------------------------------------------------------------------------------

    def _start_children(self) -> None:
        now = self.clock()
        for item in [entry for entry in self._again if entry[0] <= now]:
            self._again.remove(item)
            self._queue.put(item[1], item[2])
        while self.pool.free > 0 and len(self._made) <= MAX_UNWRITTEN:
            taken = self._queue.take(now)
            if taken is None:
                return
            task, key, one = taken
            self._running[id(task)] = (key, one)
            try:
                self.pool.start(task)
            except OSError as error:
                del self._running[id(task)]
                self._note("fork", f"no process can be started: {error.strerror}")
                self._again.append((now + TRY_AGAIN_S, task.job.user or "", taken))
                return

    def _take(self, finished: list[Finished]) -> bool:
        for one in finished:
            key, waiting = self._running.pop(id(one.task))
            self._take_one(one, key, waiting)
        return bool(finished)

    def _take_one(self, one: Finished, key: str, waiting: Pending) -> None:
        job, failure, result = one.task.job, one.failure, None
        if one.answer is not None:
            try:
                result = outcome.decode(one.answer, job, now=self.wall())
            except TriageError as error:
                failure = str(error)
        if result is None:
            self.counts.failures += 1
            tries = self._tries[key] = self._tries.get(key, 0) + 1
            log.warning("job %s: triage failed (%s), try %d of %d", job.job_id, failure, tries, TRIES)
            if tries < TRIES:
                retry = (self.clock() + TRY_AGAIN_S * tries, job.user or "", (one.task, key, waiting))
                self._again.append(retry)
                return
            record = outcome.minimal_record(job, now=self.wall())
            result = outcome.Outcome(record, "unknown: this job could not be triaged", failure)
        self._tries.pop(key, None)
        if result.problem:
            log.info("job %s: no report on disk: %s", job.job_id, result.problem)
        self.counts.reports += 1
        if key.startswith("early/"):
            waiting.busy.discard(key)
            return
        if not self._made:
            self._made_at = self.clock()
        self._made.append(_Made(result.record, job, result.headline, waiting))

    # ---- ledger, and the end ---------------------------------------------------------------------------------------

    def _commit(self, *, force: bool = False) -> None:
        now = self.clock()
        enough = len(self._made) >= COMMIT_RECORDS or now - self._made_at >= COMMIT_S or not len(self.pool)
        if not self._made or not (enough or force) or now < self._commit_not_before:
            return
        made = self._made
        try:
            self.ledger.append(one.record for one in made)
        except LedgerError as error:
            self._note("ledger", str(error))
            if "another writer" in str(error) or "closed or was replaced" in str(error):
                raise
            self._commit_not_before = now + 5.0
            return
        self._noted.pop("ledger", None)
        self._made = []
        self.done.add(one.record for one in made)
        for one in made:
            one.pending.busy.discard(one.record.key)
            self._comment(one)
        for waiting in {id(one.pending): one.pending for one in made}.values():
            if waiting.busy:
                continue
            # The reconciler's jobs have no file to remove, but their record may have been incomplete.
            final = all(self.done.is_final(one.record.key) for one in made if one.pending is waiting)
            if waiting.settles or (not waiting.arrived and final):
                self._settle(waiting, list(waiting.settles))

    def _settle(self, one: Pending, names: list[str]) -> None:
        """These files are dealt with. Others of the same job that came meanwhile begin anew."""
        self.spool.remove(names)
        gone = set(names)
        rest = [item for item in one.arrived if item.name not in gone]
        del self._pending[one.job_id]
        self._early.discard(one.job_id)
        self.reconciler.settled(one.job_id)
        for item in rest:
            self._add(item, self.clock())

    def _comment(self, one: _Made) -> None:
        wish = self.settings.admin_comment
        failed = one.record.status not in ("completed", "running") or one.record.cls is not None
        last_run = not one.record.provisional and one.job.state not in ("REQUEUED", "PREEMPTED")
        if self.comments is not None and last_run and (wish == "all" or (wish == "failures" and failed)):
            text = f"{one.record.cls or one.record.status}: {one.headline}".replace(" · ", " - ")
            self.comments.put(one.job, text)

    def _event_time(self, one: Pending) -> float:
        return max((item.event.time for item in one.arrived), default=self.wall())

    def _note(self, what: str, text: str) -> None:
        """Log a lasting trouble once, not every time."""
        if self._noted.get(what) != text:
            self._noted[what] = text
            log.warning("%s", text)


def _ended(run: Job, since: float, until: float) -> bool:
    return run.is_terminal and run.end is not None and since <= run.end <= until
