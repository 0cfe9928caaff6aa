"""Reports in the making: whose turn it is, which child makes them, and what is tried again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace

from slurm_triage.errors import TriageError
from slurm_triage.service import outcome, pool
from slurm_triage.service.outcome import Outcome
from slurm_triage.service.pool import Finished, Pool
from slurm_triage.service.rates import FairQueue
from slurm_triage.service.task import Task

log = logging.getLogger("slurm-triage")

#: A job that costs its child is tried again; after this many times it gets a record without a diagnosis.
TRIES = 3
TRY_AGAIN_S = 5.0
#: For so long after one of his jobs cost its child a user gets no share that others may soon want.
DISTRUST_S = 3600.0


@dataclass(frozen=True, slots=True)
class Made:
    """A report that is on disk, or cannot be, and waits for its record to be durable."""

    task: Task
    outcome: Outcome

    def as_last(self) -> Made:
        """It stays as it is, also if it could not be written for a reason that may pass."""
        record = replace(self.outcome.record, provisional=not self.task.job.final)
        return replace(self, outcome=replace(self.outcome, record=record, passing=False))


@dataclass
class Making:
    """``clock``: monotonic seconds; ``wall``: seconds since the epoch."""

    pool: Pool
    queue: FairQueue[Task]
    clock: Callable[[], float]
    wall: Callable[[], float]
    failures: int = 0
    _again: list[tuple[float, Task]] = field(default_factory=list)
    _not_before: float = 0.0
    _failed_at: dict[Hashable, float] = field(default_factory=dict)
    """By user."""

    def __len__(self) -> int:
        """How many children are at work."""
        return len(self.pool)

    def put(self, task: Task) -> None:
        self.queue.put(task.job.uid, task)

    def start(self) -> None:
        """Give every child that may be started something to do."""
        now = self.clock()
        while self.pool.free > 0 and now >= self._not_before and (tasks := self._next(now)):
            try:
                self.pool.start(tasks)
            except OSError as error:
                log.warning("no process can be started: %s", error.strerror)
                self._not_before = now + TRY_AGAIN_S
                self._again += [(self._not_before, task) for task in tasks]

    def _next(self, now: float) -> list[Task]:
        """What has failed before gets a child of its own, so that it cannot be another job's fault."""
        for entry in [entry for entry in self._again if entry[0] <= now]:
            self._again.remove(entry)
            self.put(entry[1])
        may = lambda uid, task: self._may(uid, task, now)  # noqa: E731
        tasks = self.queue.take(now, pool.MIN_BATCH, pool.MAX_BATCH, self.pool.size, may)
        fresh = next((number for number, task in enumerate(tasks) if task.failures), len(tasks))
        for task in reversed(tasks[fresh or 1 :]):
            self.queue.give_back(task.job.uid, task)
        return tasks[: fresh or 1]

    def _may(self, uid: Hashable, task: Task, now: float) -> bool:
        """One child is kept for others, unless nobody waits and this user's children get on: endless logs would
        keep the first small job of somebody else waiting for as long as a child may take. Of two children none can be
        spared before that has happened once: a long job would keep its own user's other jobs waiting."""
        if self.pool.children_of(task.job.uid) < max(1, self.pool.size - 1):
            return True
        failed = now - self._failed_at.get(uid, -DISTRUST_S) < DISTRUST_S
        if self.queue.users > 1 or task.failures or failed:
            return False
        return self.pool.size == 2 or not self.pool.is_slow(task.job.uid)

    def collect(self, timeout_s: float) -> list[Made]:
        """Wait at most ``timeout_s`` for something to happen; what is made by then."""
        return [made for one in self.pool.collect(timeout_s) if (made := self._judge(one)) is not None]

    def _judge(self, one: Finished) -> Made | None:
        task, failure = one.task, one.failure
        self.queue.charge(task.job.uid, one.took_s, self.clock())
        if one.answer is not None:
            try:
                return Made(task, outcome.decode(one.answer, task.job, now=self.wall()))
            except TriageError as error:
                failure = str(error)
        if failure is None:
            self.queue.give_back(task.job.uid, task)
            return None
        self.failures += 1
        self._failed_at[task.job.uid] = self.clock()
        task = replace(task, failures=task.failures + 1)
        log.warning("job %s: triage failed (%s), try %d of %d", task.job.job_id, failure, task.failures, TRIES)
        if task.failures < TRIES:
            self._again.append((self.clock() + TRY_AGAIN_S * task.failures, task))
            return None
        record = outcome.minimal_record(task.job, now=self.wall())
        return Made(task, Outcome(record, "unknown: this job could not be triaged", failure))
