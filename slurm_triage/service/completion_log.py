"""Slurm's own log of ended jobs (``JobCompType=jobcomp/filetxt``): slurmctld appends a line about each and starts no
process. Its lines become events in the spool.

A job's name stands in its line as it is, newlines included, so anybody can write a line about any job: only the job id
is taken, and the event is a hint like one that a user wrote.
"""

from __future__ import annotations

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
    _offset: int = 0
    _trouble: Trouble = field(default_factory=Trouble)

    def load(self) -> None:
        """Read the mark. Without one (first start) reading begins at the end of the file. Raises TriageError if the
        directory cannot be used."""
        mark = self.state / MARK
        try:
            self.state.mkdir(parents=True, exist_ok=True)
            text = mark.read_text() if mark.exists() else ""
            match = re.fullmatch(r"(\d+) (\d+)\n", text)
            if not self._open():
                # What is not there yet has nothing to skip.
                self._offset = 0
            elif match is None:
                self._offset = os.fstat(self._file).st_size
            else:
                # Another file than last time is one that has been begun since.
                self._offset = int(match[2]) if int(match[1]) == os.fstat(self._file).st_ino else 0
            self._save()
        except OSError as error:
            raise TriageError(f"cannot use the state directory {self.state}: {error.strerror}; check it") from error

    def carry(self) -> None:
        """New lines into the spool. What is wrong with the file is logged; the reconciler finds those jobs."""
        try:
            if self._file < 0 and not self._open():
                self._trouble.note(f"there is no {self.path} yet; slurmctld makes it when it starts (JobCompLoc)")
                return
            data = self._read()
            if not data:
                return
            for job_id in dict.fromkeys(_JOB.findall(data)):
                event_file.record(self.spool, job_id.decode(), {}, kind=COMPLETION_KIND)
            self._offset += len(data)
            self._shorten()
            self._save()
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
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            self.close()
            raise OSError(0, "it is no file")
        return True

    def _read(self) -> bytes:
        """Whole lines from where reading stopped; from the next file once the old one is read to its end."""
        size = os.fstat(self._file).st_size
        if size < self._offset:
            self._offset = 0
        if size == self._offset and self._is_replaced() and self._open():
            self._offset = 0
        data = os.pread(self._file, MAX_READ_BYTES, self._offset)
        whole = data[: data.rfind(b"\n") + 1]
        # No line of Slurm's is that long.
        return data if len(data) == MAX_READ_BYTES and not whole else whole

    def _shorten(self) -> None:
        """slurmctld appends, so it goes on at the beginning. What it writes at this very moment is lost, and found by
        the reconciler."""
        if self._offset < MAX_OWN_BYTES or self.path.parent.parent != self.state.parent:
            return
        if os.fstat(self._file).st_size == self._offset and not self._is_replaced():
            os.truncate(self.path, 0)
            self._offset = 0

    def _is_replaced(self) -> bool:
        """Another file lies there now (logrotate). slurmctld writes into the old one until it is told."""
        try:
            return self.path.lstat().st_ino != os.fstat(self._file).st_ino
        except FileNotFoundError:
            return False

    def _save(self) -> None:
        number = os.fstat(self._file).st_ino if self._file >= 0 else 0
        put(Files(), self.state / MARK, b"%d %d\n" % (number, self._offset), 0o644)
