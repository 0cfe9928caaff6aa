"""The spool: a directory into which anyone may be able to write. Files are read with suspicion, in bounded number."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from slurm_triage.errors import TriageError
from slurm_triage.service import batch_file
from slurm_triage.service.batch_file import Batch, parse_file
from slurm_triage.service.spool_event import COMPLETION_KIND, MAX_EVENT_BYTES, BadEventError, CutOffError, Event

log = logging.getLogger("slurm-triage")

NEW, TMP, BAD = "new", "tmp", "bad"

#: As many files are looked at in one go: 10 000 array tasks leave up to three events each.
MAX_LISTED = 50_000
#: More of Slurm's own events are not read while these wait: accounting may be away for days.
MAX_READ = 200_000
#: Refused files are kept for the admin, but a flood of them must not fill the disk.
MAX_BAD = 100
#: So many untrusted events of one user are held at a time, and of those so many about one job; the others stay unread
#: until some of them are dealt with. Beyond the last number they are removed: jobs are found through accounting, too.
MAX_OF_USER, MAX_OF_JOB, MAX_UNREAD = 10_000, 8, 100_000

#: A hook writes an event in one go, and is killed after five seconds. What is not whole by then was cut off. More at a
#: time are no hook's, and are not waited for.
PATIENCE_S, MAX_CUT_OFF = 10.0, 1000

#: For so long the untrusted events of one user are read in one go; then it is others' turn. 10 000 of the longest, full
#: of escapes, took minutes.
READ_S = 0.2
#: And of all users together: one may have 65 536 subordinate uids.
READ_ALL_S, MAX_OF_ALL = 1.0, 50_000
_ALL = -1

#: A link, a socket, a device without driver, or something that may not be read: no hook of ours makes one.
_ODD = frozenset({errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.EACCES, errno.EPERM})
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Arrived:
    """One event and the file it came in. ``name``: of the file, with a slash and a number where it holds several.
    ``trusted``: the file belongs to root or to Slurm's own user; ``uid``: whose it is."""

    name: str
    event: Event
    trusted: bool
    uid: int


@dataclass(slots=True)
class Spool:
    """``known``: names that were read already and wait for their report, or must not be read yet; ``unremoved``: those
    that are dealt with and could not be removed yet; ``in_tmp``: what hooks were writing when ``sweep`` looked last;
    ``stuck``: what is no event and cannot be moved away."""

    directory: Path
    trusted_uids: frozenset[int]
    known: set[str] = field(default_factory=set)
    unremoved: set[str] = field(default_factory=set)
    in_tmp: set[str] = field(default_factory=set)
    stuck: set[str] = field(default_factory=set)
    clock: Callable[[], float] = time.monotonic
    _cut_off: dict[int, dict[str, float]] = field(default_factory=dict)
    """By user, names of events that are not whole yet, and until when they may become so; trusted ones by ``_ALL``."""
    _read_s: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    """By user, how long his untrusted events have been read in this go."""
    _untrusted: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Whose an event is, by its name, and which job it speaks of."""
    _parts: dict[str, set[str]] = field(default_factory=dict)
    """By file that holds several events, the names of those that wait."""
    _of_user: Counter[int] = field(default_factory=Counter)
    _of_job: Counter[tuple[int, str]] = field(default_factory=Counter)
    _unread: dict[int, dict[str, None]] = field(default_factory=dict)
    """Names by user, in order of arrival, of whom enough is known for now."""

    def check(self) -> None:
        """Raises TriageError if the spool is not there. It is never made here: a worker that creates its own spool
        would hide that the hooks write to another one."""
        if not (self.directory / NEW).is_dir():
            raise TriageError(f"there is no spool at {self.directory}; run install.sh, or set spool in config.toml")

    def arrivals(self) -> list[Arrived]:
        """Events that have come since the last call, oldest first. Raises TriageError if the spool is away."""
        self.remove(())
        try:
            folder = os.open(self.directory / NEW, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                with os.scandir(folder) as entries:
                    names = (entry.name for entry in entries)
                    unknown = (name for name in names if name not in self.known and name not in self.stuck)
                    listed = sorted(islice(unknown, MAX_LISTED))
                self._read_s.clear()
                present = set(listed)
                for whose, cut_off in tuple(self._cut_off.items()):
                    self._cut_off[whose] = {name: until for name, until in cut_off.items() if name in present}
                    if not self._cut_off[whose]:
                        del self._cut_off[whose]
                found: list[Arrived] = []
                room = MAX_READ - self.waiting
                for name in listed:
                    if len(found) >= room:
                        break
                    found += self._read(folder, name)
                return sorted(found, key=lambda arrived: arrived.event.time)
            finally:
                os.close(folder)
        except OSError as error:
            raise TriageError(f"cannot read the spool {self.directory}: {error.strerror}; check it") from error

    @property
    def waiting(self) -> int:
        """Events that were read already and are not dealt with, but for those that strangers wrote."""
        strangers = sum(count for uid, count in self._of_user.items() if uid not in self.trusted_uids)
        held = sum(map(len, self._unread.values()))
        return len(self.known) - len(self._parts) + sum(map(len, self._parts.values())) - held - strangers

    def _read(self, folder: int, name: str) -> list[Arrived]:
        try:
            found, batch = self._batch(folder, name)
        except BadEventError:
            self._refuse(name)
            return []
        except OSError as error:
            if error.errno in _ODD:
                self._refuse(name)
            # What else can be wrong passes: a file system that is away, a file that somebody removed.
            return []
        if batch is None:
            self.hold(name, found.st_uid)
            return []
        if not batch.events:
            self._refuse(name)
            return []
        if batch.refused:
            log.info("spool: %d of the events in %s are none of our hooks'", batch.refused, ascii(name))
        taken = list(self._taken(name, batch, found.st_uid, trusted=self._is_trusted(found)))
        if not taken:
            self.hold(name, found.st_uid)
            return []
        self.known.add(name)
        if len(batch.events) > 1:
            self._parts[name] = {arrived.name for arrived in taken}
        return taken

    def _taken(self, file: str, batch: Batch, uid: int, *, trusted: bool) -> Iterator[Arrived]:
        """Its events, but for those about a job of which this user has told often enough."""
        for number, event in enumerate(batch.events):
            name = f"{file}/{number}" if len(batch.events) > 1 else file
            if trusted and event.kind != COMPLETION_KIND:
                yield Arrived(name, event, True, uid)
                continue
            about = (uid, event.job_id)
            if self._of_job[about] >= MAX_OF_JOB:
                continue
            self._untrusted[name] = about
            self._of_user[uid] += 1
            self._of_job[about] += 1
            yield Arrived(name, event.hint(), False, uid)

    def _may_become_whole(self, name: str, whose: int) -> bool:
        now, cut_off = self.clock(), self._cut_off.setdefault(whose, {})
        if name not in cut_off and len(cut_off) < MAX_CUT_OFF:
            cut_off[name] = now + PATIENCE_S
        return now < cut_off.get(name, now)

    def _is_trusted(self, found: os.stat_result) -> bool:
        writable = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return found.st_uid in self.trusted_uids and not writable and found.st_nlink == 1

    def _batch(self, folder: int, name: str) -> tuple[os.stat_result, Batch | None]:
        """No events where their owner has too many others here."""
        handle = os.open(name, _READ, dir_fd=folder)
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            os.close(handle)
            raise BadEventError("the event is no file; remove it")
        uid, trusted = found.st_uid, self._is_trusted(found)
        with os.fdopen(handle, "rb") as file:
            if self._of_user[uid] >= MAX_OF_USER and not trusted:
                return found, None
            is_full = len(self._untrusted) >= MAX_OF_ALL or self._read_s[_ALL] >= READ_ALL_S
            if not trusted and (self._read_s[uid] >= READ_S or is_full):
                raise BlockingIOError(errno.EAGAIN, "it is others' turn")
            began = self.clock()
            try:
                data = file.read(MAX_EVENT_BYTES + 1)
                if data.startswith(batch_file.BEGIN):
                    data += file.read(batch_file.MAX_BYTES + 1 - len(data))
                    if len(data) > batch_file.MAX_BYTES:
                        raise BadEventError(f"the batch has more than {batch_file.MAX_BYTES} bytes; remove it")
                most = MAX_EVENT_BYTES if trusted else batch_file.MAX_UNTRUSTED_EVENT_BYTES
                return found, parse_file(data, found.st_mtime, most)
            except CutOffError:
                if not self._may_become_whole(name, _ALL if trusted else uid):
                    raise
                raise BlockingIOError(errno.EAGAIN, "it is being written") from None
            finally:
                took_s = 0.0 if trusted else self.clock() - began
                self._read_s[uid] += took_s
                self._read_s[_ALL] += took_s

    def hold(self, name: str, uid: int) -> None:
        """This untrusted event stays where it is and is read again once another one of its owner is dealt with."""
        self._discount(name)
        held = self._unread.setdefault(uid, {})
        if len(held) < MAX_UNREAD:
            held[name] = None
            self.known.add(name)
        else:
            self.known.discard(name)
            self.unremoved.add(name)

    def _discount(self, name: str) -> int | None:
        """Whose it is, if it counted."""
        about = self._untrusted.pop(name, None)
        if about is None:
            return None
        uid = about[0]
        self._of_user[uid] -= 1
        self._of_job[about] -= 1
        if not self._of_job[about]:
            del self._of_job[about]
        if not self._of_user[uid]:
            del self._of_user[uid]
        return uid

    def _forget(self, name: str) -> None:
        self.known.discard(name)
        self._make_room(self._discount(name))

    def _make_room(self, uid: int | None) -> None:
        if uid is None or uid not in self._unread:
            return
        held = self._unread[uid]
        # One makes room for one. After the last one nothing would be left to make room for the others.
        for freed in list(islice(held, 1 if uid in self._of_user else None)):
            del held[freed]
            self.known.discard(freed)
        if not held:
            del self._unread[uid]

    def remove(self, names: Iterable[str]) -> None:
        """These events have been dealt with for good. What cannot be removed now is tried again later."""
        for name in names:
            file = name.partition("/")[0]
            if (parts := self._parts.get(file)) is not None:
                parts.discard(name)
                if parts:
                    self._make_room(self._discount(name))
                    continue
                del self._parts[file]
                # The last one counts until its file is gone.
                if name in self._untrusted:
                    self._untrusted[file] = self._untrusted.pop(name)
            self.unremoved.add(file)
        for name in tuple(self.unremoved):
            try:
                (self.directory / NEW / name).unlink(missing_ok=True)
            except OSError:
                continue
            self.unremoved.discard(name)
            self._forget(name)

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
            self.stuck.add(name)

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
        # Forgotten once an hour: anybody can make more of them, and remove them.
        self.stuck.clear()
