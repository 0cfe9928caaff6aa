"""Children: one per job, forked from the worker with the rules already loaded, bounded in number and time.

A child is the owner's from its first step on. Its answer comes through a pipe, at most ``outcome.MAX_BYTES`` of it.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from slurm_triage.errors import TriageError
from slurm_triage.service import outcome, privilege
from slurm_triage.service.child import Task

_READ_BYTES = 1 << 16

#: Exit statuses of a child that did not answer.
EXIT_REFUSED = 71
EXIT_FAILED = 72

Work = Callable[[Task], bytes]


@dataclass(slots=True)
class _Child:
    task: Task
    pid: int
    fd: int
    deadline: float
    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    killed: str | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """``answer`` is None if the child gave none that can be used; then ``failure`` says why, in one sentence."""

    task: Task
    answer: bytes | None
    failure: str | None = None


class Pool:
    """``work`` runs in the child, as the owner, and returns the encoded outcome."""

    def __init__(self, work: Work, *, size: int, wall_s: float, memory_bytes: int) -> None:
        self._work = work
        self._size = size
        self._wall_s = wall_s
        self._memory_bytes = memory_bytes
        self._children: dict[int, _Child] = {}
        self._selector = selectors.DefaultSelector()
        self.started = 0

    @property
    def free(self) -> int:
        return self._size - len(self._children)

    def __len__(self) -> int:
        return len(self._children)

    def start(self, task: Task) -> None:
        """Fork a child for the task. Raises OSError when no process or pipe can be had."""
        read, write = os.pipe2(os.O_CLOEXEC)
        parent = os.getpid()
        # Unwritten output would be written twice.
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            pid = os.fork()
        except OSError:
            os.close(read)
            os.close(write)
            raise
        if pid == 0:
            self._run_child(task, write, parent)
        os.close(write)
        os.set_blocking(read, False)
        self._children[pid] = _Child(task, pid, read, time.monotonic() + self._wall_s)
        self._selector.register(read, selectors.EVENT_READ, pid)
        self.started += 1

    def _run_child(self, task: Task, write: int, parent: int) -> None:
        """Never returns."""
        status = EXIT_FAILED
        try:
            os.setsid()
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
                signal.signal(number, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            close_all_but(write)
            privilege.limit(self._wall_s, self._memory_bytes)
            uid = task.job.uid
            if uid is None:
                raise privilege.PrivilegeError("accounting does not say whose job this is")
            privilege.drop(uid, parent)
            os.chdir("/")
            if task.job.work_dir:
                # Ids are looked for in the working directory, too.
                with contextlib.suppress(OSError):
                    os.chdir(task.job.work_dir)
            _send(write, self._work(task))
            status = 0
        except TriageError as error:
            status = EXIT_REFUSED
            with contextlib.suppress(OSError):
                os.write(write, b"!" + str(error).encode("utf-8", "replace")[:1000])
        except BaseException as error:
            with contextlib.suppress(OSError):
                os.write(write, b"!" + f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:1000])
        finally:
            os._exit(status)

    def collect(self, timeout_s: float) -> list[Finished]:
        """Wait at most ``timeout_s`` for something to happen; what has finished by then."""
        if not self._children:
            return []
        now = time.monotonic()
        nearest = min(child.deadline for child in self._children.values())
        for key, _ in self._selector.select(max(0.0, min(timeout_s, nearest - now))):
            self._read(self._children[key.data])
        now = time.monotonic()
        for child in self._children.values():
            if child.deadline <= now and child.killed is None:
                self._kill(child, f"it took longer than {self._wall_s:.0f} s")
        return [done for child in list(self._children.values()) if (done := self._reap(child)) is not None]

    def _read(self, child: _Child) -> None:
        try:
            data = os.read(child.fd, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._selector.unregister(child.fd)
            os.close(child.fd)
            child.fd = -1
            return
        child.parts.append(data)
        child.size += len(data)
        if child.size > outcome.MAX_BYTES:
            self._kill(child, "it answered more than it may")

    def _kill(self, child: _Child, why: str) -> None:
        child.killed = why
        # Its own session: whatever it may have started goes with it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)

    def _reap(self, child: _Child) -> Finished | None:
        pid, status = os.waitpid(child.pid, os.WNOHANG)
        if pid == 0:
            return None
        while child.fd >= 0:
            before = child.size
            self._read(child)
            if child.fd >= 0 and child.size == before:
                # A process that the child left behind holds the pipe open; it does not speak for the job.
                self._selector.unregister(child.fd)
                os.close(child.fd)
                child.fd = -1
        del self._children[child.pid]
        data = b"".join(child.parts)
        if child.killed is not None:
            return Finished(child.task, None, child.killed)
        if status == 0 and not data.startswith(b"!"):
            return Finished(child.task, data)
        if data.startswith(b"!"):
            return Finished(child.task, None, data[1:].decode("utf-8", "replace"))
        code = os.waitstatus_to_exitcode(status)
        return Finished(child.task, None, f"it ended with {'signal ' if code < 0 else 'status '}{abs(code)}")

    def stop(self) -> None:
        """Kill what still runs and collect it."""
        for child in self._children.values():
            self._kill(child, "the worker was stopped")
        while self._children:
            self.collect(0.1)
        self._selector.close()


def _send(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def close_all_but(keep: int | None) -> None:
    """Locks, sockets and files of the worker are not the child's; standard streams lead nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 (names are all that is needed)
        if number > 2 and number != keep:
            # The listing's own descriptor is among them and closed already.
            with contextlib.suppress(OSError):
                os.close(number)
