"""Verdicts for AdminComment, written by a process of their own: sacctmgr takes 0.1 s, reports must not wait for it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import deque
from collections.abc import Callable
from itertools import islice

from slurm_triage.model.job import Job
from slurm_triage.service.forked import fork
from slurm_triage.service.making import Made
from slurm_triage.settings import CommentWish
from slurm_triage.slurm import admin_comment

Write = Callable[[Job, str], None]

#: What waits beyond this is forgotten, oldest first: the comment is a convenience, the report is on disk.
MAX_WAITING = 2000
_AT_ONCE = 20
#: A site that does not allow it is asked again this much later.
PAUSE_S = 600.0
_NO_PROCESS_S = 5.0


class Comments:
    def __init__(
        self, wish: CommentWish, write: Write = admin_comment.write, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._wish = wish
        self._write = write
        self._clock = clock
        self._waiting: deque[tuple[Job, str]] = deque(maxlen=MAX_WAITING)
        self._pid: int | None = None
        self._not_before = 0.0
        self.failures = 0

    def put(self, made: Made) -> None:
        """The verdict on a job's last run, if the site wants it."""
        record, job = made.outcome.record, made.task.job
        failed = record.status not in ("completed", "running") or record.cls is not None
        last_run = not record.provisional and job.state not in ("REQUEUED", "PREEMPTED")
        if last_run and (self._wish == "all" or (self._wish == "failures" and failed)):
            text = f"{record.cls or record.status}: {made.outcome.headline}".replace(" · ", " - ")
            self._waiting.append((job, text))

    def work(self) -> None:
        """Start the next batch if the last one is through. Never waits."""
        if self._pid is not None and not self._collect(os.WNOHANG):
            return
        if self._waiting and self._clock() >= self._not_before:
            batch = list(islice(self._waiting, _AT_ONCE))
            try:
                self._pid = fork(lambda: self._run(batch))
            except OSError:
                self._not_before = self._clock() + _NO_PROCESS_S
                return
            for _ in batch:
                self._waiting.popleft()

    def _run(self, batch: list[tuple[Job, str]]) -> None:
        for job, text in batch:
            self._write(job, text)

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
