"""The spool: a directory into which anyone may be able to write. Files are read with suspicion, in bounded number."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from slurm_triage.errors import TriageError
from slurm_triage.service.spool_event import MAX_EVENT_BYTES, BadEventError, Event, parse

NEW, TMP, BAD = "new", "tmp", "bad"

#: As many files are looked at in one go: 10 000 array tasks leave up to three events each.
MAX_LISTED = 50_000
#: Refused files are kept for the admin, but a flood of them must not fill the disk.
MAX_BAD = 100
#: A hook is killed after five seconds; what has lain in ``tmp`` for an hour has no writer any more.
STALE_TMP_S = 3600.0

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Arrived:
    """One event and the file it came in. ``trusted``: the file belongs to root or to Slurm's own user.
    ``at``: when the worker saw it first (its own clock; a file's times are its writer's)."""

    name: str
    event: Event
    trusted: bool
    uid: int
    at: float


@dataclass(slots=True)
class Spool:
    """``known``: names that were read already and are still waiting for their report."""

    directory: Path
    trusted_uids: frozenset[int]
    known: set[str] = field(default_factory=set)
    refused: int = 0

    def check(self) -> None:
        """Raises TriageError if the spool is not there. It is never made here: a worker that creates its own spool
        would hide that the hooks write to another one."""
        if not (self.directory / NEW).is_dir():
            raise TriageError(f"there is no spool at {self.directory}; run install.sh, or set spool in config.toml")

    def arrivals(self) -> list[Arrived]:
        """Events that have come since the last call, oldest name first."""
        fresh: list[Arrived] = []
        try:
            folder = os.open(self.directory / NEW, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise TriageError(f"cannot read the spool {self.directory}: {error.strerror}; check it") from error
        try:
            for name in self._names(folder):
                if name not in self.known:
                    arrived = self._read(folder, name)
                    if arrived is not None:
                        self.known.add(name)
                        fresh.append(arrived)
        finally:
            os.close(folder)
        return fresh

    def _names(self, folder: int) -> list[str]:
        names: list[str] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) >= MAX_LISTED:
                    break
        return sorted(names)

    def _read(self, folder: int, name: str) -> Arrived | None:
        try:
            handle = os.open(name, _READ, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError:
            # A link, a socket, or something that may not be read: no hook of ours makes one.
            self._refuse(name)
            return None
        found = os.fstat(handle)
        if stat.S_ISREG(found.st_mode):
            with os.fdopen(handle, "rb") as file:
                data: bytes | None = file.read(MAX_EVENT_BYTES + 1)
        else:
            os.close(handle)
            data = None
        try:
            if data is None:
                raise BadEventError("the event is no file; remove it")
            event = parse(data)
        except BadEventError:
            self._refuse(name)
            return None
        trusted = found.st_uid in self.trusted_uids and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return Arrived(name, event, trusted and found.st_nlink == 1, found.st_uid, time.time())

    def remove(self, names: Iterable[str]) -> None:
        """The events have been dealt with for good."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                (self.directory / NEW / name).unlink()
            self.known.discard(name)

    def _refuse(self, name: str) -> None:
        """Out of the way: into ``bad``, or away altogether once that is full."""
        self.refused += 1
        source, target = self.directory / NEW / name, self.directory / BAD
        with contextlib.suppress(FileNotFoundError):
            if target.is_dir() and len(os.listdir(target)) < MAX_BAD:  # noqa: PTH208 (names are all that is needed)
                source.rename(target / name)
            elif stat.S_ISDIR(source.lstat().st_mode):
                # A directory cannot be unlinked, and what it holds is nobody's business here.
                self.known.add(name)
            else:
                source.unlink()

    def sweep(self) -> None:
        """Remove what dead hooks left behind in ``tmp``."""
        limit = time.time() - STALE_TMP_S
        try:
            entries = list((self.directory / TMP).iterdir())
        except OSError as error:
            raise TriageError(f"cannot read {self.directory / TMP}: {error.strerror}; check it") from error
        for path in entries:
            with contextlib.suppress(FileNotFoundError, IsADirectoryError, PermissionError):
                if path.lstat().st_mtime < limit:
                    path.unlink()
