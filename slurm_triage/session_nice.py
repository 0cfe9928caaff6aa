"""Stepping back where the kernel shares processor time between sessions first (``sched(7)``, "The autogroup feature").
There, policy and nice value of a process count within its own session only, and a worker with
``CPUSchedulingPolicy=idle`` takes as much as all of slurmctld. Measured with three busy processes and three of
SCHED_IDLE on two cores: in one session 7.9 s and 0.3 s of processor time in 4 s, each in its own 4.0 s and 4.0 s.
"""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

log = logging.getLogger("slurm-triage")

_FULL, _LEAST = "0", "19"


class SessionNice:
    """The nice value of this process's session. It is left alone where the process does not lead its session, such as
    in somebody's terminal, and where it was not put into the background by whoever started it."""

    def __init__(self) -> None:
        pid = os.getpid()
        own = os.getsid(0) == pid and os.getpriority(os.PRIO_PROCESS, pid) > 0
        self._path = Path(f"/proc/{pid}/autogroup") if own else None
        self._value = _FULL

    def step_back(self, much_to_do: bool) -> None:
        """While there is much to do, others go first; reports on a few jobs are made at once. Both ways are anybody's
        right, but without CAP_SYS_ADMIN, as under our unit, one change is taken on the whole host in a tenth of a
        second: what is refused is tried again at the next call."""
        value = _LEAST if much_to_do else _FULL
        if self._path is None or value == self._value:
            return
        try:
            self._path.write_text(value)
            self._value = value
        except FileNotFoundError:
            # A kernel without it: policy and nice value count everywhere.
            self._path = None
        except OSError as error:
            if error.errno != errno.EAGAIN:
                log.info("the worker cannot step back for Slurm: %s: %s", self._path, error.strerror)
                self._path = None
