"""The one writer of a ledger: group commit, rotation, take-over after a crash.

Promise: when ``append`` returns, its records are on stable storage and will be read back exactly once. When it raises,
none of them was acknowledged; they may be appended again. Nothing that was ever written is overwritten or cut.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

from slurm_triage.errors import LedgerError
from slurm_triage.ledger import fence, index
from slurm_triage.ledger.files import Files, write_all
from slurm_triage.ledger.frame import encode, safe
from slurm_triage.ledger.lock import acquire
from slurm_triage.ledger.record import LedgerRecord, to_json
from slurm_triage.ledger.sealing import seal_segment, take_over
from slurm_triage.ledger.segment import FENCE, segment_path, segments

#: Look-ups search the open segment (0.5 ms/MiB) and open the index of each sealed one (0.1 ms): at a million records
#: of 0.9 kB this size makes both about the same.
SEGMENT_BYTES = 16 * 1024 * 1024
#: A group smaller than this means that the writer keeps up, and has time to index what it sealed (0.2 s a segment).
_IDLE_RECORDS = 100


@dataclass(slots=True)
class _Open:
    """The segment being written. ``size_bytes`` counts acknowledged bytes only."""

    path: Path
    fd: int
    size_bytes: int
    month: str


class Writer:
    """Use ``open_writer``. Not thread-safe: one thread collects records and appends them in groups."""

    def __init__(
        self,
        directory: Path,
        release_lock: Callable[[], None],
        files: Files,
        clock: Callable[[], float],
        segment_bytes: int,
    ) -> None:
        self.directory = directory
        self._release_lock = release_lock
        self._files = files
        self._clock = clock
        self._segment_bytes = segment_bytes
        self._mode = directory.stat().st_mode & 0o666
        self._segment: _Open | None = None
        self._abandoned: _Open | None = None
        self._usable = True
        self._index_due = False
        self._fence, self._epoch, before = fence.claim(files, directory, self._mode, clock())
        self._mark_fd = fence.open_mark(files, directory, self._mode)
        try:
            self.last_seq, go_on = take_over(files, directory, before, self._mode, clock())
            # From here on there is a mark to tell what was acknowledged, whatever happens to the power.
            newest = next(reversed(segments(directory)), None)
            name, size_bytes = (newest.name, newest.limit) if newest is not None else (fence.NO_SEGMENT, 0)
            fence.write_mark(files, self._mark_fd, name, size_bytes, self.last_seq)
            files.datasync(self._mark_fd)
            files.sync_dir(directory)
            if go_on is not None:
                fd = files.open(go_on, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
                self._segment = _Open(go_on, fd, size_bytes, go_on.name[:6])
        except BaseException:
            files.close(self._mark_fd)
            raise

    def append(self, records: Iterable[LedgerRecord]) -> int:
        """Makes all ``records`` durable with one sync and acknowledges them: returns how many. Raises LedgerError."""
        if not self._usable:
            raise LedgerError(f"this writer of {self.directory} is closed or was replaced; open a new one")
        batch = [(record.key, record.revision, to_json(record)) for record in records]
        if not batch:
            return 0
        try:
            segment = self._ready()
        except OSError as error:
            raise self._failed(error) from error
        lines = [
            encode("rec", seq, key, revision, payload)
            for seq, (key, revision, payload) in enumerate(batch, self.last_seq + 1)
        ]
        try:
            self._commit(segment, b"".join(lines), self.last_seq + len(lines))
        except BaseException as error:
            # After a failed write or sync nobody knows what the file holds behind the acknowledged bytes, and a second
            # sync may wrongly succeed. So this segment is never touched again.
            self._segment, self._abandoned = None, segment
            if isinstance(error, OSError):
                raise self._failed(error) from error
            raise
        if self._index_due and len(lines) < _IDLE_RECORDS:
            self._index()
        return len(lines)

    def _commit(self, segment: _Open, data: bytes, last_seq: int) -> None:
        write_all(self._files, segment.fd, data)
        self._files.datasync(segment.fd)
        if self._files.read(self.directory / FENCE) != self._fence:
            self._usable = False
            raise LedgerError(f"another writer took over {self.directory}; nothing was acknowledged, open a new writer")
        size_bytes = segment.size_bytes + len(data)
        fence.write_mark(self._files, self._mark_fd, segment.path.name, size_bytes, last_seq)
        segment.size_bytes, self.last_seq = size_bytes, last_seq

    def _index(self) -> None:
        """For readers who may not write here themselves. An index is only a cache: it may fail."""
        self._index_due = False
        with contextlib.suppress(OSError):
            index.refresh(self.directory)

    def _failed(self, error: OSError) -> LedgerError:
        return LedgerError(
            f"cannot write the ledger {self.directory} ({error.strerror}); nothing of this batch was recorded: "
            "free space or repair the file system, then the batch is tried again"
        )

    def _ready(self) -> _Open:
        """The segment to append to: after a failure, at a new month or when it is full, a new one. Raises OSError."""
        if self._abandoned is not None:
            self._close_for_good(self._abandoned, "abandoned")
            self._abandoned = None
        month = time.strftime("%Y%m", time.gmtime(self._clock()))
        if self._segment is not None and (
            self._segment.month != month or self._segment.size_bytes >= self._segment_bytes
        ):
            self._close_for_good(self._segment, "rotated")
            self._segment = None
        if self._segment is None:
            self._segment = self._create(month)
        return self._segment

    def _close_for_good(self, segment: _Open, why: str) -> None:
        if segment.fd >= 0:
            fd, segment.fd = segment.fd, -1
            # A late error of an abandoned file tells nothing new: its acknowledged bytes were synced before.
            with contextlib.suppress(OSError):
                self._files.close(fd)
        seal_segment(self._files, segment.path, segment.size_bytes, why, self._mode, self._clock())
        self._index_due = True

    def _create(self, month: str) -> _Open:
        number = max((s.number for s in segments(self.directory)), default=0) + 1
        path = segment_path(self.directory, month, number)
        head: dict[str, Any] = {"format": 1, "writer": self.directory.name, "epoch": self._epoch, "at": self._clock()}
        line = encode("seg", self.last_seq + 1, path.name, 0, orjson.dumps(head))
        fd = self._files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW, self._mode)
        try:
            write_all(self._files, fd, line)
            self._files.datasync(fd)
            self._files.sync_dir(self.directory)
        except BaseException:
            # Nothing in it was acknowledged: the next attempt seals it as empty and takes another name.
            self._abandoned = _Open(path, fd, 0, month)
            raise
        self.last_seq += 1
        return _Open(path, fd, len(line), month)

    def close(self) -> None:
        """Gives up the lock. Raises LedgerError if the end of the ledger could not be noted; nothing is lost then."""
        try:
            self._note_end()
            if self._index_due:
                self._index()
        except OSError as error:
            raise self._failed(error) from error
        finally:
            self._usable = False
            self._release_lock()

    def _note_end(self) -> None:
        healthy = self._usable and self._abandoned is None
        open_files = [s for s in (self._segment, self._abandoned) if s is not None and s.fd >= 0]
        for segment in open_files:
            fd, segment.fd = segment.fd, -1
            self._files.close(fd)
        if self._mark_fd >= 0:
            fd, self._mark_fd = self._mark_fd, -1
            self._files.close(fd)
        if healthy and self._files.read(self.directory / FENCE) == self._fence:
            end: dict[str, Any] = {"last_seq": self.last_seq}
            if self._segment is not None:
                end |= {"segment": self._segment.path.name, "bytes": self._segment.size_bytes}
            fence.release(self._files, self.directory, self._mode, self._epoch, end)

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_writer(
    root: Path,
    name: str,
    *,
    timeout_s: float = 0.0,
    files: Files | None = None,
    clock: Callable[[], float] = time.time,
    segment_bytes: int = SEGMENT_BYTES,
    elect: Callable[[Path, float], Callable[[], None]] | None = None,
) -> Writer:
    """Becomes the writer ``name`` (usually the cluster) of the ledger at ``root``, creating what is missing.

    New files get the mode of the directory without its x bits, so the site chooses who may read. Raises LedgerError if
    another writer is at work or the directory cannot be written.
    """
    layer = files or Files()
    directory = root / safe(name)
    try:
        _make_dirs(layer, directory)
        release_lock = (elect or _elect)(directory, timeout_s)
        try:
            return Writer(directory, release_lock, layer, clock, segment_bytes)
        except BaseException:
            release_lock()
            raise
    except OSError as error:
        raise LedgerError(
            f"cannot open the ledger {directory} for writing ({error.strerror}); check its owner, mode and free space"
        ) from error


def _elect(directory: Path, timeout_s: float) -> Callable[[], None]:
    lock = acquire(directory, timeout_s)
    return lambda: lock.release(force=True)


def _make_dirs(files: Files, directory: Path) -> None:
    """Makes what is missing. A writer's directory gets the mode of the ledger's root, which the site has set."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        mode = path.parent.stat().st_mode & 0o7777 if path == directory and len(missing) == 1 else 0o755
        with contextlib.suppress(FileExistsError):
            files.make_dir(path, mode)
        files.sync_dir(path.parent)
