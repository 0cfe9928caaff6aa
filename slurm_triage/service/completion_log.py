"""Slurm's own log of ended jobs (``JobCompType=jobcomp/filetxt``): slurmctld appends a line about each and starts no
process. Its lines become events in the spool.

A job's name and directory stand in its line as they are, newlines included, so anybody can write a line about any job:
only the job id is taken, and the event is a hint like one that a user wrote.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from slurm_triage.errors import PartialResultError, TriageError
from slurm_triage.ledger.files import Files, put
from slurm_triage.service import event_file
from slurm_triage.service.batch_file import MAX_EVENTS
from slurm_triage.service.lookup import END_OF_IDS
from slurm_triage.service.spool_event import COMPLETION_KIND
from slurm_triage.service.trouble import Trouble

MARK = "completion-log"

#: In one go: about 2 500 lines of 400 bytes (measured with 22.05 and 26.05), so that other work is not kept waiting.
MAX_READ_BYTES = 1 << 20

#: A log of our own is emptied beyond that: some 160 000 jobs.
MAX_OWN_BYTES = 64 << 20

#: No line of Slurm's is shorter (about 290 bytes with every value at its shortest). What a user forges is bounded by
#: that: a name has at most 1 024 bytes.
MIN_LINE_BYTES = 200

#: So much before the place where reading stopped tells whether the file is still the same.
_ANCHOR_BYTES = 512

#: Not only where a line begins: 22.05 cuts off what is longer than 1 023 bytes, newline included (measured), and the
#: next job's line follows at once; the same when slurmctld was killed in the middle of one.
_JOB = re.compile(rb"JobId=([1-9][0-9]{0,9}) UserId=")
_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def lines(data: bytes) -> Iterator[tuple[int, str]]:
    """Where the line about a job begins, and the job. Those that are too close to their neighbours on both sides stand
    in another job's name; of the rest nobody can tell."""
    found = [match for match in _JOB.finditer(data) if int(match[1]) < END_OF_IDS]
    ends = [*(match.start() for match in found), len(data)][1:]
    last = -MIN_LINE_BYTES
    for match, end in zip(found, ends, strict=True):
        begin = match.start()
        if end - begin >= MIN_LINE_BYTES or begin - last >= MIN_LINE_BYTES:
            last = begin
            yield begin, match[1].decode()


@dataclass(slots=True)
class CompletionLog:
    """``state``: directory of the mark, which says how far the file was read. The mark is written after the events, so
    a killed worker's successor writes some of them again, which is harmless.

    The log that the installer has made beside ``state`` is ours and does not grow without end; another one is its
    site's."""

    path: Path
    spool: Path
    state: Path
    _file: int = -1
    _offset: int | None = 0
    """None: where the file ends when it is opened."""
    _inode: int = 0
    """Of the file that ``_offset`` belongs to. A number is used again once its file is gone."""
    _anchor: int | None = None
    """Checksum of what stands before ``_offset``; None if nobody knows (a mark of an earlier version)."""
    _unended: tuple[int, int] = (0, 0)
    """Where the file ended, without a newline, when it was looked at last, and where reading had stopped."""
    _saved: str = ""
    """What the mark says."""
    _trouble: Trouble = field(default_factory=Trouble)

    def load(self) -> None:
        """Read the mark. Without one (first start) reading begins at the end of the site's file, at the beginning
        of ours: a line of it may be what has started us. Raises TriageError if the
        directory cannot be used."""
        mark = self.state / MARK
        try:
            self.state.mkdir(parents=True, exist_ok=True)
            text = mark.read_text(errors="replace") if mark.exists() else ""
            if (match := re.fullmatch(r"(\d{1,20}) (\d{1,18})(?: (\d{1,10}))?\n", text, re.ASCII)) is not None:
                self._inode, self._offset = int(match[1]), int(match[2])
                self._anchor = None if match[3] is None else int(match[3])
                self._saved = text.rstrip()
            elif os.path.lexists(self.path) and not self._is_ours:
                # A log of years.
                self._offset = None
            else:
                self._save()
        except PartialResultError as error:
            raise TriageError(str(error)) from error
        except OSError as error:
            raise TriageError(f"cannot use the state directory {self.state}: {error.strerror}; check it") from error

    def carry(self) -> None:
        """New lines into the spool. What is wrong with the file is logged; the reconciler finds those jobs."""
        try:
            if self._file < 0 and not self._open():
                self._trouble.note(f"there is no {self.path} yet; slurmctld makes it when it starts (JobCompLoc)")
                return
            begin, data = self._read()
            try:
                self._carry(begin, data)
                self._shorten()
            finally:
                self._save()
            self._trouble.over()
        except PartialResultError as error:
            self._trouble.note(str(error))
        except OSError as error:
            self._trouble.note(f"cannot read {self.path}: {error.strerror}; check it")

    @property
    def _is_ours(self) -> bool:
        """As install.sh lays it out."""
        return self.path == self.state.parent / "completed" / "jobs.log"

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _carry(self, offset: int, data: bytes) -> None:
        begins: dict[str, int] = {}
        for begin, job_id in lines(data):
            begins.setdefault(job_id, begin)
        job_ids = list(begins)
        for first in range(0, len(job_ids), MAX_EVENTS):
            try:
                event_file.record_many(self.spool, job_ids[first : first + MAX_EVENTS], kind=COMPLETION_KIND)
            except PartialResultError:
                # A spool that has room for some must not be given the same ones again and again.
                self._go_to(offset + begins[job_ids[first]])
                raise
        self._go_to(offset + len(data))

    def _open(self) -> bool:
        self.close()
        try:
            self._file = os.open(self.path, os.O_RDONLY | _OPEN)
        except FileNotFoundError:
            return False
        found = os.fstat(self._file)
        if not stat.S_ISREG(found.st_mode):
            self.close()
            raise OSError(errno.EINVAL, "it is no file")
        if self._offset is None:
            self._go_to(found.st_size)
        elif self._inode != found.st_ino:
            # Another file than last time is one that has been begun since.
            self._go_to(0)
        self._inode = found.st_ino
        return True

    def _read(self) -> tuple[int, bytes]:
        """Where reading stopped, and whole lines from there; from the next file once the old one is over."""
        # Asked first: what slurmctld wrote into the old one before it went on is there by then.
        is_over = self._is_over()
        begin, data = self._rest(is_over=is_over)
        if is_over and not data:
            if not self._open():
                raise FileNotFoundError(errno.ENOENT, "it is gone again")
            begin, data = self._rest()
        return begin, data

    def _rest(self, *, is_over: bool = False) -> tuple[int, bytes]:
        offset = self._offset or 0
        if os.fstat(self._file).st_size < offset or self._anchor not in (None, self._checksum(offset)):
            # Emptied and begun anew; by now it may be longer than it was.
            offset = 0
        data = os.pread(self._file, MAX_READ_BYTES, offset)
        whole = data[: data.rfind(b"\n") + 1]
        if data and not whole:
            # A line is written in one go (seen by strace): one that does not go on is cut off, and over.
            unended, self._unended = self._unended, (offset + len(data), offset)
            if is_over or unended == self._unended or len(data) == MAX_READ_BYTES:
                whole = data
        return offset, whole

    def _shorten(self) -> None:
        """slurmctld appends, so it goes on at the beginning. What it writes at this very moment is lost, and found by
        the reconciler."""
        if (self._offset or 0) < MAX_OWN_BYTES or not self._is_ours:
            return
        # The directory is SlurmUser's: by the time it is emptied, another file may lie there, or a link to one.
        own = os.open(self.path, os.O_WRONLY | _OPEN)
        try:
            found = os.fstat(own)
            if found.st_ino == self._inode and found.st_nlink == 1 and found.st_size == self._offset:
                os.ftruncate(own, 0)
                self._go_to(0)
        finally:
            os.close(own)

    def _go_to(self, offset: int) -> None:
        self._offset, self._anchor = offset, self._checksum(offset)

    def _checksum(self, offset: int) -> int:
        length = min(offset, _ANCHOR_BYTES)
        return zlib.crc32(os.pread(self._file, length, offset - length))

    def _save(self) -> None:
        """Raises PartialResultError."""
        mark = " ".join(str(value) for value in (self._inode, self._offset or 0, self._anchor) if value is not None)
        if mark == self._saved:
            return
        try:
            put(Files(), self.state / MARK, f"{mark}\n".encode(), 0o644)
        except OSError as error:
            raise PartialResultError(f"cannot write {self.state / MARK}: {error.strerror}; check it") from error
        self._saved = mark

    def _is_over(self) -> bool:
        """Another file lies there (logrotate), and slurmctld, which writes into the old one until it is told, has gone
        on to it."""
        try:
            found = self.path.lstat()
        except FileNotFoundError:
            return False
        return found.st_ino != self._inode and (found.st_size > 0 or not stat.S_ISREG(found.st_mode))
