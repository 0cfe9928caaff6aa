"""Being in the background where the kernel shares processor time between sessions first (``sched(7)``, "The autogroup
feature"): policy and nice value of a process count within its own session only, and a worker with
``CPUSchedulingPolicy=idle`` takes as much as all of slurmctld. Measured with three busy processes and three of
SCHED_IDLE on two cores: in one session 7.9 s and 0.3 s of processor time in 4 s, each in its own 4.0 s and 4.0 s.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from pathlib import Path

#: Without CAP_SYS_ADMIN, as under our unit, one such change is allowed on the whole host in a tenth of a second.
_TRIES, _PAUSE_S = 10, 0.11

log = logging.getLogger("slurm-triage")


def share_as_nice(pid: int | None = None) -> None:
    """If process ``pid`` (None: ours) leads its session, give that the nice value of the process. A session that
    somebody else leads, such as a terminal's, is his; and a value below 1 would ask for more than others have."""
    pid = pid or os.getpid()
    nice = os.getpriority(os.PRIO_PROCESS, pid)
    if os.getsid(pid) != pid or nice < 1:
        return
    for tries_left in reversed(range(_TRIES)):
        try:
            Path(f"/proc/{pid}/autogroup").write_text(str(nice))
            return
        except FileNotFoundError:
            # A kernel without it: nice values count everywhere.
            return
        except OSError as error:
            if error.errno != errno.EAGAIN or not tries_left:
                log.info("this session takes its full share of the processors: autogroup: %s", error.strerror)
                return
            time.sleep(_PAUSE_S)
