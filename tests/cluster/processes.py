"""Daemons of our own, known by pid and start time: nothing else is ever signalled."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import SIGKILL, SIGTERM


class ClusterError(RuntimeError):
    """The test cluster did not do what it was told."""


def start_time(pid: int) -> str | None:
    """Clock ticks since boot at which this process started; None if it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else fields[19]


class Processes:
    """Daemons by name; their pid files lie in ``directory``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def _pid_file(self, name: str) -> Path:
        return self.directory / f"{name}.pid"

    def names(self) -> list[str]:
        return sorted(path.stem for path in self.directory.glob("*.pid"))

    def pid(self, name: str) -> int | None:
        """Pid of the daemon if it runs and is the very process that was started, else None."""
        try:
            pid, started = self._pid_file(name).read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return int(pid) if start_time(int(pid)) == started else None

    def spawn(self, name: str, argv: Sequence[str], env: Mapping[str, str], log: Path) -> int:
        """Start a daemon in its own session, without our descriptors, output to ``log``."""
        actions: list[tuple[object, ...]] = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        # What our caller left open for us, such as a lock, must not stay open for as long as the daemon lives.
        for number in sorted(int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2):  # noqa: PTH208
            with contextlib.suppress(OSError):  # the descriptor that listed the directory
                if os.get_inheritable(number):
                    actions.append((os.POSIX_SPAWN_CLOSE, number))
        pid = os.posix_spawnp(argv[0], list(argv), dict(env), file_actions=actions, setsid=True)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._pid_file(name).write_text(f"{pid} {start_time(pid)}\n")
        return pid

    def kill(self, name: str, number: int) -> None:
        pid = self.pid(name)
        if pid is not None:
            os.kill(pid, number)

    def stop(self, names: Sequence[str], number: int = SIGTERM, patience_s: float = 15.0) -> None:
        """End daemons together: ``number`` first, SIGKILL for those that are still there after ``patience_s``."""
        pids = {name: self.pid(name) for name in names}
        for name in names:
            self.kill(name, number)
        deadline = time.monotonic() + patience_s
        while any(self.pid(name) for name in names):
            if time.monotonic() > deadline:
                for name in names:
                    self.kill(name, SIGKILL)
                deadline += 5.0
            time.sleep(0.02)
        for name, pid in pids.items():
            _reap(pid)
            self._pid_file(name).unlink(missing_ok=True)


def _reap(pid: int | None) -> None:
    """Collect our own child; a daemon that an earlier process started is init's to collect."""
    if pid is not None:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return
