"""When to ask accounting again. Pure: the caller sleeps."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waiting times that double up to a limit.

    A record is final 0 to 0.2 s after the hook (CommitDelay=0) or 1.0 s after it (CommitDelay=1); a job whose processes
    ignore SIGTERM takes KillWait longer (30 s by default). After a restart of slurmdbd the daemons need a minute.
    """

    first_s: float = 0.5
    factor: float = 2.0
    longest_s: float = 60.0

    def delay_s(self, attempt: int) -> float:
        """Time to wait after the ``attempt``-th failure (0, 1, ...)."""
        # The exponent is capped: a float overflows at 2.0 ** 1024.
        return min(self.longest_s, self.first_s * self.factor ** min(attempt, 64))
