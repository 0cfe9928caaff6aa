"""A process of our own making: it has none of the worker's descriptors, handlers and unwritten output."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable


def fork(run: Callable[[], None], keep: int | None = None) -> int:
    """Start a process that does ``run`` and ends, with status 0 unless that raised; returns its pid. Of the open files
    it has ``keep`` alone. Raises OSError if no process can be had."""
    # Unwritten output would be written twice.
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        _close_all_but(keep)
        run()
        status = 0
    finally:
        os._exit(status)


def _close_all_but(keep: int | None) -> None:
    """Locks, sockets and files of the worker are not the child's; standard streams lead nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 (names are all that is needed)
        if number > 2 and number != keep:
            # The listing's own descriptor is among them and closed already.
            with contextlib.suppress(OSError):
                os.close(number)
