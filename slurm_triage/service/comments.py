"""Verdicts for AdminComment, written by a process of their own: sacctmgr takes 0.1 s, reports must not wait for it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import deque
from collections.abc import Callable

from slurm_triage.errors import AccountingError
from slurm_triage.model.job import Job
from slurm_triage.service.pool import close_all_but
from slurm_triage.slurm import admin_comment

Write = Callable[[Job, str], None]

#: What waits beyond this is forgotten, oldest first: the comment is a convenience, the report is on disk.
MAX_WAITING = 2000
_AT_ONCE = 20
#: A site that does not allow it is asked again this much later.
PAUSE_S = 600.0
_EXIT_NOT_ALLOWED = 3


class Comments:
    def __init__(self, write: Write = admin_comment.write, clock: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._clock = clock
        self._waiting: deque[tuple[Job, str]] = deque(maxlen=MAX_WAITING)
        self._pid: int | None = None
        self._not_before = 0.0
        self.failures = 0

    def put(self, job: Job, text: str) -> None:
        self._waiting.append((job, text))

    def work(self) -> None:
        """Start the next batch if the last one is through. Never waits."""
        if self._pid is not None and not self._collect(os.WNOHANG):
            return
        if self._waiting and self._clock() >= self._not_before:
            batch = [self._waiting.popleft() for _ in range(min(_AT_ONCE, len(self._waiting)))]
            self._pid = os.fork()
            if self._pid == 0:
                self._run(batch)

    def _run(self, batch: list[tuple[Job, str]]) -> None:
        """Never returns."""
        status = 1
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            close_all_but(None)
            for job, text in batch:
                self._write(job, text)
            status = 0
        except AccountingError:
            status = _EXIT_NOT_ALLOWED
        finally:
            os._exit(status)

    def _collect(self, options: int) -> bool:
        pid = self._pid
        if pid is None:
            return True
        done, status = os.waitpid(pid, options)
        if done == 0:
            return False
        self._pid = None
        if status != 0:
            self.failures += 1
            self._not_before = self._clock() + PAUSE_S
            self._waiting.clear()
        return True

    def finish(self, patience_s: float) -> None:
        """Write what waits, for at most ``patience_s``."""
        until = self._clock() + patience_s
        while (self._waiting or self._pid is not None) and self._clock() < until:
            self.work()
            if self._waiting and self._clock() < self._not_before:
                break
            time.sleep(0.02)
        if self._pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._collect(0)
