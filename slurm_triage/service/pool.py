"""Children, forked from the worker with the rules already loaded, bounded in number and time.

A child is one user's from its first step on and works through a batch of his jobs, because becoming a user and touching
the first pages of everything costs more than a small log. Its answers come through a pipe, one line per job and in
order, so whatever happens to it is known to have happened at its first unanswered job: that one has failed, and the
others, which it had not begun with, are given back.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from slurm_triage.errors import TriageError
from slurm_triage.service import outcome, privilege
from slurm_triage.service.forked import fork
from slurm_triage.service.task import Task

#: Jobs of one child, if so many wait. The first costs three times as much as one that follows (tests/bench/worker.py).
MIN_BATCH, MAX_BATCH = 8, 64
#: A child begins with no other job when it is this old, so a long log keeps few others waiting, and not for long.
BATCH_S = 1.0
#: A child that has one job in hand for longer may have it until the wall limit.
SLOW_S = 2.0

_READ_BYTES = 1 << 16
_FAILED = b"!"
#: How soon to look again for the end of a child that has closed its pipe.
_ENDING_S = 0.005
_STOP_S = 5.0

Work = Callable[[Task], bytes]


@dataclass(frozen=True, slots=True)
class Finished:
    """``answer`` as it came from the child, or ``failure`` in one sentence; neither if no child began with the task.
    ``took_s``: how long the child had it in hand."""

    task: Task
    answer: bytes | None = None
    failure: str | None = None
    took_s: float = 0.0


@dataclass(slots=True)
class _Child:
    """``tasks``: those without answer; the first of them is in hand since ``since``. Times are monotonic seconds."""

    pid: int
    uid: int | None
    fd: int
    since: float
    tasks: deque[Task]
    begins_until: float
    deadline: float
    has_answered: bool = False
    has_ended: bool = False
    unread: bytes = b""
    killed: str | None = None


class Pool:
    """``work`` runs in the child, as the owner, and returns the encoded outcome, a line without its end."""

    def __init__(self, work: Work, *, size: int, wall_s: float, memory_bytes: int) -> None:
        self._work = work
        self._wall_s = wall_s
        self._memory_bytes = memory_bytes
        self._children: dict[int, _Child] = {}
        self._selector = selectors.DefaultSelector()
        self.size = size

    @property
    def free(self) -> int:
        return self.size - len(self._children)

    def __len__(self) -> int:
        return len(self._children)

    def children_of(self, uid: int | None) -> int:
        return sum(child.uid == uid for child in self._children.values())

    def is_slow(self, uid: int | None) -> bool:
        """A child of this user has not shown yet that it gets on, or no longer does."""
        latest = time.monotonic() - SLOW_S
        return any(
            child.uid == uid and child.tasks and (not child.has_answered or child.since < latest)
            for child in self._children.values()
        )

    def start(self, tasks: Sequence[Task]) -> None:
        """Fork a child for these tasks of one user. Raises OSError when no process or pipe can be had."""
        read, write = os.pipe2(os.O_CLOEXEC)
        parent, now = os.getpid(), time.monotonic()
        try:
            pid = fork(lambda: self._serve(tasks, write, parent, now + BATCH_S), keep=write)
        except OSError:
            os.close(read)
            raise
        finally:
            os.close(write)
        os.set_blocking(read, False)
        self._children[pid] = _Child(pid, tasks[0].job.uid, read, now, deque(tasks), now + BATCH_S, now + self._wall_s)
        self._selector.register(read, selectors.EVENT_READ)

    # ---- in the child ---------------------------------------------------------------------------------------------

    def _serve(self, tasks: Sequence[Task], write: int, parent: int, begins_until: float) -> None:
        try:
            _apart()
            privilege.limit(self._wall_s * len(tasks), self._memory_bytes)
            privilege.drop(tasks[0].job.uid, parent)
            for number, task in enumerate(tasks):
                if number and time.monotonic() > begins_until:
                    return
                privilege.limit_cpu(self._wall_s)
                os.chdir("/")
                with contextlib.suppress(OSError):
                    # Ids are looked for in the working directory, too.
                    os.chdir(task.job.work_dir or "/")
                _send(write, self._work(task) + b"\n")
        except BaseException as error:
            # What broke this job may have left something behind, so the others get another child.
            kind = "" if isinstance(error, TriageError) else f"{type(error).__name__}: "
            _send(write, _FAILED + f"{kind}{error}".encode("utf-8", "replace")[:1000].replace(b"\n", b" ") + b"\n")

    # ---- in the worker --------------------------------------------------------------------------------------------

    def collect(self, timeout_s: float) -> list[Finished]:
        """Wait at most ``timeout_s`` for something to happen; what is finished, or given back, by then."""
        children = self._children.values()
        until = min((child.deadline for child in children), default=float("inf"))
        if any(child.fd < 0 for child in children):
            timeout_s = min(timeout_s, _ENDING_S)
        self._selector.select(max(0.0, min(timeout_s, until - time.monotonic())))
        return [finished for child in list(children) for finished in self._look(child)]

    def _look(self, child: _Child) -> Iterator[Finished]:
        # In this order: an answer written before the child ended, or before it was too old to begin with another job,
        # has been read when that is decided.
        now = time.monotonic()
        pid, status = os.waitpid(child.pid, os.WNOHANG)
        child.has_ended = pid != 0
        for line in self._lines(child):
            if not child.tasks:
                self._kill(child, "it answered more than it was asked")
                break
            took_s, child.since = now - child.since, now
            child.has_answered, child.deadline = True, now + self._wall_s
            if line.startswith(_FAILED):
                yield Finished(child.tasks.popleft(), None, line[1:].decode("utf-8", "replace"), took_s)
            else:
                yield Finished(child.tasks.popleft(), line, took_s=took_s)
        while now > child.begins_until and len(child.tasks) > 1:
            yield Finished(child.tasks.pop())
        if child.has_ended:
            self._close(child)
            del self._children[child.pid]
            yield from self._left(child, status)
        elif now >= child.deadline:
            self._kill(child, f"it took longer than {self._wall_s:.0f} s")

    def _left(self, child: _Child, status: int) -> Iterator[Finished]:
        """What a child that is gone did not answer. One that never answered has failed, whatever its status."""
        if child.tasks and (child.killed or status or not child.has_answered):
            code = os.waitstatus_to_exitcode(status)
            why = child.killed or f"it ended with {'signal' if code < 0 else 'status'} {abs(code)}"
            yield Finished(child.tasks.popleft(), None, why, time.monotonic() - child.since)
        yield from map(Finished, reversed(child.tasks))

    def _lines(self, child: _Child) -> list[bytes]:
        """All whole lines that are in the pipe. A process that the child left behind may hold it open."""
        most = outcome.MAX_BYTES * (len(child.tasks) + 1)
        while child.fd >= 0 and len(child.unread) <= most:
            try:
                data = os.read(child.fd, _READ_BYTES)
            except BlockingIOError:
                break
            child.unread += data
            if not data:
                self._close(child)
        *lines, child.unread = child.unread.split(b"\n")
        if len(child.unread) > outcome.MAX_BYTES:
            self._kill(child, "it answered more than it may")
        return lines

    def _close(self, child: _Child) -> None:
        if child.fd >= 0:
            self._selector.unregister(child.fd)
            os.close(child.fd)
            child.fd = -1

    def _kill(self, child: _Child, why: str) -> None:
        child.killed = child.killed or why
        # Its own process group: whatever it may have started goes with it.
        for kill in () if child.has_ended else (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(child.pid, signal.SIGKILL)

    def end(self, task: Task, why: str) -> None:
        """Kill the child that has this in hand."""
        for child in self._children.values():
            if child.tasks and child.tasks[0] is task:
                self._kill(child, why)

    def stop(self) -> None:
        """Kill what still runs. A child that hangs in a file system dies when that lets it go."""
        for child in self._children.values():
            self._kill(child, "the worker was stopped")
        until = time.monotonic() + _STOP_S
        while self._children and time.monotonic() < until:
            self.collect(0.1)
        self._selector.close()


def _apart() -> None:
    """A process group of its own. A session would have a share of the processors of its own as well (session_nice), so
    it is one only where the worker has a terminal, into which the job's owner could put commands (TIOCSTI)."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        os.setpgid(0, 0)
    else:
        os.setsid()


def _send(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
