"""Slurm's own log of ended jobs (``JobCompType=jobcomp/filetxt``): slurmctld appends a line about each and starts no
process. Its lines become events in the spool.

A job's name stands in its line as it is, newlines included, so anybody can write a line about any job: only the job id
is taken, and the event is a hint like one that a user wrote.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from slurm_triage.errors import PartialResultError, TriageError
from slurm_triage.ledger.files import Files, put
from slurm_triage.service import event_file
from slurm_triage.service.spool_event import COMPLETION_KIND
from slurm_triage.service.trouble import Trouble

MARK = "completion-log"

#: In one go: about 2 500 lines of 400 bytes (measured with 22.05 and 26.05), so that other work is not kept waiting.
MAX_READ_BYTES = 1 << 20

#: A log of our own is emptied beyond that: some 160 000 jobs.
MAX_OWN_BYTES = 64 << 20

_JOB = re.compile(rb"^JobId=([1-9][0-9]{0,9}) ", re.MULTILINE)
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(slots=True)
class CompletionLog:
    """``state``: directory of the mark, which says how far the file was read. The mark is written after the events, so
    a killed worker's successor writes some of them again, which is harmless.

    A log in a directory beside ``state`` is ours and does not grow without end; another one is its site's."""

    path: Path
    spool: Path
    state: Path
    _file: int = -1
    _offset: int | None = 0
    """None: where the file ends when it is opened."""
    _inode: int = 0
    """Of the file that ``_offset`` belongs to."""
    _trouble: Trouble = field(default_factory=Trouble)

    def load(self) -> None:
        """Read the mark. Without one (first start) reading begins at the end of the file. Raises TriageError if the
        directory cannot be used."""
        mark = self.state / MARK
        try:
            self.state.mkdir(parents=True, exist_ok=True)
            text = mark.read_text() if mark.exists() else ""
            if (match := re.fullmatch(r"(\d+) (\d+)\n", text)) is not None:
                self._inode, self._offset = int(match[1]), int(match[2])
            elif os.path.lexists(self.path):
                self._offset = None
            else:
                self._save(0)
        except OSError as error:
            raise TriageError(f"cannot use the state directory {self.state}: {error.strerror}; check it") from error

    def carry(self) -> None:
        """New lines into the spool. What is wrong with the file is logged; the reconciler finds those jobs."""
        try:
            if self._file < 0 and not self._open():
                self._trouble.note(f"there is no {self.path} yet; slurmctld makes it when it starts (JobCompLoc)")
                return
            before = (self._inode, self._offset)
            data, end = self._read()
            for job_id in dict.fromkeys(_JOB.findall(data)):
                event_file.record(self.spool, job_id.decode(), {}, kind=COMPLETION_KIND)
            self._offset = self._shortened(end)
            if before != (self._inode, self._offset):
                self._save(self._offset)
            self._trouble.over()
        except PartialResultError as error:
            self._trouble.note(str(error))
        except OSError as error:
            self._trouble.note(f"cannot read {self.path}: {error.strerror}; check it")

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _open(self) -> bool:
        self.close()
        try:
            self._file = os.open(self.path, _OPEN)
        except FileNotFoundError:
            return False
        found = os.fstat(self._file)
        if not stat.S_ISREG(found.st_mode):
            self.close()
            raise OSError(errno.EINVAL, "it is no file")
        if self._offset is None:
            self._offset = found.st_size
        elif self._inode != found.st_ino:
            # Another file than last time is one that has been begun since.
            self._offset = 0
        self._inode = found.st_ino
        return True

    def _read(self) -> tuple[bytes, int]:
        """Whole lines from where reading stopped, and where they end; from the next file once the old one is read to
        its end."""
        size = os.fstat(self._file).st_size
        if size == self._offset and self._is_replaced():
            self._open()
        offset = self._offset or 0
        if size < offset:
            offset = 0
        data = os.pread(self._file, MAX_READ_BYTES, offset)
        whole = data[: data.rfind(b"\n") + 1]
        if len(data) == MAX_READ_BYTES and not whole:
            # No line of Slurm's is that long.
            whole = data
        return whole, offset + len(whole)

    def _shortened(self, offset: int) -> int:
        """slurmctld appends, so it goes on at the beginning. What it writes at this very moment is lost, and found by
        the reconciler."""
        if offset < MAX_OWN_BYTES or self.path.parent.parent != self.state.parent:
            return offset
        if os.fstat(self._file).st_size != offset or self._is_replaced():
            return offset
        os.truncate(self.path, 0)
        return 0

    def _save(self, offset: int) -> None:
        put(Files(), self.state / MARK, b"%d %d\n" % (self._inode, offset), 0o644)

    def _is_replaced(self) -> bool:
        """Another file lies there now (logrotate). slurmctld writes into the old one until it is told."""
        try:
            return self.path.lstat().st_ino != self._inode
        except FileNotFoundError:
            return False
