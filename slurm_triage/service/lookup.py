"""Asking accounting about many jobs with few questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from slurm_triage.errors import AccountingError
from slurm_triage.model.job import Job
from slurm_triage.service.pending import Pending
from slurm_triage.slurm.accounting import Accounting
from slurm_triage.slurm.hook_env import HookAccounting
from slurm_triage.slurm.retry import Backoff

#: One question takes this many ids; more would exceed what one command line holds.
MAX_IDS = 8000
#: No job's number is as high (MaxJobId, and the cluster in a federation). Anybody can name one in an event, and sacct
#: 26.05 does not answer at all if it is asked about one from 0xFFFFFFFD on, nor pyslurm from 2^32 on (measured).
END_OF_IDS = 0xFFFFFFF0
#: A single job is asked for almost at once. The faster jobs end, the longer a question waits for more of them: no more
#: than 36 are asked in a minute, and from 5 jobs/s on a question waits for so many, as long as more come, that 10 000
#: jobs cost 25 at most if they end within 20 minutes (within five, if pyslurm needs a second one for exit codes).
WINDOW_S, LONGEST_WINDOW_S = 0.5, 60.0
WINDOW_PER_RATE_S2 = 3.0
STORM_PER_S, STORM_IDS, STORM_WINDOW_S, STORM_OVER_S = 5.0, 600, 30.0, 5.0
#: A storm seems to be over whenever slurmctld does not get on for some seconds (measured: 35 questions for 10 000 jobs
#: in 14 minutes on a machine with ten times as much to do as it can). So that is believed a few times, then seldom.
OVERS, OVER_AGAIN_S = 3.0, 240.0
#: With few ids the whole history is searched (an index finds them); with many a window is cheaper, and it has to reach
#: back to earlier runs of requeued jobs.
FEW_IDS = 200
HISTORY_S = 8 * 86400.0

#: slurmdbd is down or slow: not asked more often than this.
OUTAGE = Backoff(first_s=1.0, longest_s=60.0)


@dataclass(slots=True)
class Pace:
    """How long questions wait for more jobs to ask about. Times are monotonic seconds."""

    _asked_at: float = 0.0
    _rate: float = 0.0
    _overs: float = OVERS
    _overs_at: float = 0.0

    def is_time(self, waiting_since: Sequence[float], now: float) -> bool:
        """``waiting_since``: for each job that waits."""
        count = len(waiting_since)
        # Jobs per second now, or when last asked: a storm that has begun goes on for a while.
        quiet_s = now - self._asked_at
        before = self._rate if quiet_s < STORM_WINDOW_S else 0.0
        rate = max(before, count / max(quiet_s, 1.0))
        if rate < STORM_PER_S:
            window_s = max(WINDOW_S, WINDOW_PER_RATE_S2 * rate)
        else:
            window_s = max(STORM_WINDOW_S, STORM_IDS / rate)
        if count >= MAX_IDS or now - min(waiting_since) >= min(LONGEST_WINDOW_S, window_s):
            return True
        return now - max(waiting_since) >= STORM_OVER_S and self._is_over(now)

    def _is_over(self, now: float) -> bool:
        self._overs = min(OVERS, self._overs + (now - self._overs_at) / OVER_AGAIN_S)
        self._overs_at = now
        if self._overs < 1.0:
            return False
        self._overs -= 1.0
        return True

    def asked(self, count: int, now: float) -> None:
        self._rate = count / max(now - self._asked_at, 1.0)
        self._asked_at = now


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
    _pace: Pace = field(default_factory=Pace)

    @property
    def is_down(self) -> bool:
        return self.failures > 0

    def due(self, waiting: Sequence[Pending]) -> list[Pending]:
        """Those to ask about now; none while it is better to wait for more."""
        now = self.clock()
        if now < self._not_before:
            return []
        due = [pending for pending in waiting if pending.next_try <= now]
        if not due or not self._pace.is_time([pending.next_try for pending in due], now):
            return []
        return due[:MAX_IDS]

    def ask(self, due: Sequence[Pending]) -> dict[str, Job] | None:
        """Jobs by raw id; None if accounting cannot be asked now (and when to try again is noted)."""
        ids = [pending.job_id for pending in due if int(pending.job_id) < END_OF_IDS]
        if not ids:
            return {}
        since = None
        # The window is as right as the clocks of this host and of the events'; no job is given up for its sake.
        if len(ids) > FEW_IDS and not any(pending.is_last_chance(self.clock()) for pending in due):
            times = [arrived.event.time for pending in due for arrived in pending.arrived]
            now = self.wall()
            # A forged time must not make slurmdbd search everything.
            since = max(min([now, *times]), now - HISTORY_S) - HISTORY_S
        source = self.accounting
        if source.name == "hook":
            source = HookAccounting(a.event.env for p in due for a in p.arrived if a.trusted and not a.event.is_start)
        self.queries += 1
        self._pace.asked(len(ids), self.clock())
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
