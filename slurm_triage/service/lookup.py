"""Asking accounting about many jobs with few questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slurm_triage.errors import AccountingError
from slurm_triage.model.job import Job
from slurm_triage.service.pending import Pending
from slurm_triage.slurm.accounting import Accounting
from slurm_triage.slurm.hook_env import HookAccounting
from slurm_triage.slurm.retry import Backoff

#: One question takes this many ids; more would exceed what one command line holds.
MAX_IDS = 8000
#: Few jobs are asked for at once. When many end together the first question waits for the others: 10 000 jobs that end
#: within four minutes cost 17 questions instead of 250.
MANY = 100
WINDOW_FEW_S, WINDOW_MANY_S = 0.5, 15.0
#: With few ids the whole history is searched (an index finds them); with many a window is cheaper, and it has to reach
#: back to earlier runs of requeued jobs.
FEW_IDS = 200
HISTORY_S = 8 * 86400.0

#: slurmdbd is down or slow: not asked more often than this.
OUTAGE = Backoff(first_s=1.0, longest_s=60.0)


@dataclass(slots=True)
class Lookup:
    """``clock``: monotonic seconds; ``wall``: seconds since the epoch."""

    accounting: Accounting
    clock: Callable[[], float]
    wall: Callable[[], float]
    queries: int = 0
    failures: int = 0
    last_error: str | None = None
    _not_before: float = 0.0
    _last_count: int = 0

    @property
    def is_down(self) -> bool:
        return self.failures > 0

    def due(self, waiting: Sequence[Pending]) -> list[Pending]:
        """Those to ask about now; none while it is better to wait for more."""
        now = self.clock()
        if now < self._not_before:
            return []
        due = [pending for pending in waiting if pending.next_try <= now]
        if not due:
            return []
        # The waiting time is known from the last question: a storm that has begun goes on for a while.
        window_s = WINDOW_MANY_S if max(self._last_count, len(due)) > MANY else WINDOW_FEW_S
        oldest = min(pending.next_try for pending in due)
        if len(due) < MAX_IDS and now - oldest < window_s:
            return []
        return due[:MAX_IDS]

    def ask(self, due: Sequence[Pending]) -> dict[str, Job] | None:
        """Jobs by raw id; None if accounting cannot be asked now (and when to try again is noted)."""
        ids = [pending.job_id for pending in due]
        since = None
        if len(ids) > FEW_IDS:
            times = [arrived.event.time for pending in due for arrived in pending.arrived]
            now = self.wall()
            # A forged time must not make slurmdbd search everything.
            since = max(min([now, *times]), now - HISTORY_S) - HISTORY_S
        source = self.accounting
        if source.name == "hook":
            source = HookAccounting(a.event.env for p in due for a in p.arrived if a.trusted and not a.event.is_start)
        self.queries += 1
        self._last_count = len(ids)
        try:
            found = source.jobs(ids, since=since)
        except AccountingError as error:
            self.failed(error)
            return None
        self.failures, self.last_error = 0, None
        return found

    def failed(self, error: AccountingError) -> None:
        """Leave accounting in peace for a while."""
        self._not_before = self.clock() + OUTAGE.delay_s(self.failures)
        self.failures += 1
        self.last_error = str(error)
