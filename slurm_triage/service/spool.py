"""The spool: a directory into which anyone may be able to write. Files are read with suspicion, in bounded number."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from slurm_triage.errors import TriageError
from slurm_triage.service.spool_event import MAX_EVENT_BYTES, BadEventError, Event, parse

NEW, TMP, BAD = "new", "tmp", "bad"

#: As many files are looked at in one go: 10 000 array tasks leave up to three events each.
MAX_LISTED = 50_000
#: Refused files are kept for the admin, but a flood of them must not fill the disk.
MAX_BAD = 100

#: A link, a socket, a device without driver, or something that may not be read: no hook of ours makes one.
_ODD = frozenset({errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.EACCES, errno.EPERM})
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Arrived:
    """One event and the file it came in. ``trusted``: the file belongs to root or to Slurm's own user; ``uid``: whose
    it is."""

    name: str
    event: Event
    trusted: bool
    uid: int


@dataclass(slots=True)
class Spool:
    """``known``: names that were read already and wait for their report; ``unremoved``: those that are dealt with and
    could not be removed yet; ``in_tmp``: what hooks were writing when ``sweep`` looked last."""

    directory: Path
    trusted_uids: frozenset[int]
    known: set[str] = field(default_factory=set)
    unremoved: set[str] = field(default_factory=set)
    in_tmp: set[str] = field(default_factory=set)

    def check(self) -> None:
        """Raises TriageError if the spool is not there. It is never made here: a worker that creates its own spool
        would hide that the hooks write to another one."""
        if not (self.directory / NEW).is_dir():
            raise TriageError(f"there is no spool at {self.directory}; run install.sh, or set spool in config.toml")

    def arrivals(self) -> list[Arrived]:
        """Events that have come since the last call, oldest name first. Raises TriageError if the spool is away."""
        self.remove(())
        try:
            folder = os.open(self.directory / NEW, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                with os.scandir(folder) as entries:
                    unknown = (entry.name for entry in entries if entry.name not in self.known)
                    names = sorted(islice(unknown, MAX_LISTED))
                return [arrived for name in names if (arrived := self._read(folder, name)) is not None]
            finally:
                os.close(folder)
        except OSError as error:
            raise TriageError(f"cannot read the spool {self.directory}: {error.strerror}; check it") from error

    def _read(self, folder: int, name: str) -> Arrived | None:
        try:
            found, data = self._content(folder, name)
            event = parse(data)
        except BadEventError:
            self._refuse(name)
            return None
        except OSError as error:
            if error.errno in _ODD:
                self._refuse(name)
            # What else can be wrong passes: a file system that is away, a file that somebody removed.
            return None
        self.known.add(name)
        trusted = found.st_uid in self.trusted_uids and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return Arrived(name, event, trusted and found.st_nlink == 1, found.st_uid)

    def _content(self, folder: int, name: str) -> tuple[os.stat_result, bytes]:
        handle = os.open(name, _READ, dir_fd=folder)
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            os.close(handle)
            raise BadEventError("the event is no file; remove it")
        with os.fdopen(handle, "rb") as file:
            return found, file.read(MAX_EVENT_BYTES + 1)

    def remove(self, names: Iterable[str]) -> None:
        """These events have been dealt with for good. What cannot be removed now is tried again later."""
        self.unremoved.update(names)
        for name in tuple(self.unremoved):
            try:
                (self.directory / NEW / name).unlink(missing_ok=True)
            except OSError:
                continue
            self.unremoved.discard(name)
            self.known.discard(name)

    def _refuse(self, name: str) -> None:
        """Out of the way: into ``bad``, or away altogether once that is full."""
        source, target = self.directory / NEW / name, self.directory / BAD
        try:
            if target.is_dir() and len(os.listdir(target)) < MAX_BAD:  # noqa: PTH208 (names are all that is needed)
                source.rename(target / name)
            else:
                source.unlink(missing_ok=True)
        except OSError:
            # A directory cannot be unlinked, and what it holds is nobody's business here.
            self.known.add(name)

    def sweep(self) -> None:
        """Remove from ``tmp`` what was there at the last call already. Called once an hour; a hook is killed after five
        seconds."""
        try:
            names = set(os.listdir(self.directory / TMP))  # noqa: PTH208 (names are all that is needed)
        except OSError as error:
            raise TriageError(f"cannot read {self.directory / TMP}: {error.strerror}; check it") from error
        for name in names & self.in_tmp:
            with contextlib.suppress(OSError):
                (self.directory / TMP / name).unlink()
        self.in_tmp = names
