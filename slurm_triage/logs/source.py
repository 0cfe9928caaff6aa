"""The bytes of one log: a plain file, standard input, or a compressed file, read into the caller's buffer. Where a log
shipper put the lines into records, they are what is delivered (``logs/records.py``).

``open_source`` never follows a link in the last component, never blocks on a pipe or a device, and tells compression
by the first bytes, whatever the file is called. A stream that breaks off or is corrupt gives what can be read and
then a sentence in ``damaged``: half a log is worth more than an error.
"""

from __future__ import annotations

import errno
import os
import select
import stat
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from types import TracebackType

from slurm_triage.errors import NotFoundError, TriageError
from slurm_triage.logs.inflate import DamagedStreamError, inflater
from slurm_triage.logs.records import SAMPLE_BYTES, unwrapped, unwrapper

STDIN = "-"

#: A compressed log may grow to this and no further, unless the caller says otherwise: text compresses 10 to 50 times,
#: so a real log of this size would be an archive of gigabytes.
MAX_INFLATED_BYTES = 64 << 30

_COMPRESSED_CHUNK_BYTES = 64 << 10
_MAGIC_BYTES = 6

_SPECIAL = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISLNK, "a symbolic link"),
)


class ByteSource:
    """An open log. Use it as a context manager.

    ``size_bytes``, ``inode`` and ``mtime`` (seconds since the epoch) are those of the file when it was opened (None
    for standard input); a growing file is read to the end it has when the reader gets there. ``size_bytes`` of a
    compressed file is the compressed size.
    """

    def __init__(self, path: str, fd: int, *, max_bytes: int | None) -> None:
        self.path = path
        self.damaged: str | None = None
        """One sentence once the data turned out to be incomplete or corrupt."""
        self.truncated = False
        """True once ``max_bytes`` stopped the reading although there was more."""
        self.delivered_bytes = 0
        self._fd = fd
        self._closed = False
        status = os.fstat(fd)
        regular = stat.S_ISREG(status.st_mode)
        self.size_bytes: int | None = status.st_size if regular else None
        self.inode: int | None = status.st_ino if regular else None
        self.mtime: float | None = status.st_mtime if regular else None
        if regular and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        self._head = self._read_magic()
        make_chunks = inflater(self._head, path)
        self._start = 0
        if regular:
            # Standard input may be a file that somebody has read the beginning of.
            self._start = os.lseek(fd, -len(self._head), os.SEEK_CUR)
            self._head = b""
        self.compressed = make_chunks is not None
        self._chunks: Iterator[bytes] | None = make_chunks(self._read_compressed) if make_chunks else None
        self._chunk = memoryview(b"")
        self.unwrapped = self._unwrap()
        """Lines were records of a log shipper; what is delivered is the text in them."""
        self._max_bytes = max_bytes if max_bytes is not None else MAX_INFLATED_BYTES if self._chunks else None

    def __enter__(self) -> ByteSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if not self._closed and self.path != STDIN:
            os.close(self._fd)
        self._closed = True

    def readinto(self, buffer: memoryview) -> int:
        """Fill (a part of) the writable byte buffer; the number of bytes written, 0 at the end."""
        room = len(buffer)
        if self._max_bytes is not None:
            room = min(room, self._max_bytes - self.delivered_bytes)
        if room <= 0:
            self.truncated = self.truncated or (len(buffer) > 0 and self._fill(memoryview(bytearray(1))) > 0)
            return 0
        count = self._fill(buffer[:room])
        self.delivered_bytes += count
        return count

    def _fill(self, buffer: memoryview) -> int:
        return self._fill_plain(buffer) if self._chunks is None else self._fill_inflated(buffer, self._chunks)

    def _fill_plain(self, buffer: memoryview) -> int:
        if self._head:
            count = min(len(self._head), len(buffer))
            buffer[:count] = self._head[:count]
            self._head = self._head[count:]
            return count
        count = self._read(lambda: os.readv(self._fd, [buffer]))
        expected = self.size_bytes or 0
        if count == 0 and self._start + self.delivered_bytes < expected and not self.damaged:
            self.damaged = "the file became shorter while it was read (a requeued job starts its log again)"
        return count

    def _fill_inflated(self, buffer: memoryview, chunks: Iterator[bytes]) -> int:
        filled = 0
        while filled < len(buffer):
            if not self._chunk:
                self._chunk = memoryview(self._next_chunk(chunks))
                if not self._chunk:
                    break
            count = min(len(self._chunk), len(buffer) - filled)
            buffer[filled : filled + count] = self._chunk[:count]
            self._chunk = self._chunk[count:]
            filled += count
        return filled

    def _next_chunk(self, chunks: Iterator[bytes]) -> bytes:
        try:
            return next(chunks, b"")
        except DamagedStreamError as error:
            self.damaged = self.damaged or str(error)
            return b""

    def _unwrap(self) -> bool:
        """Whether the log consists of records, which from here on are read as the lines in them."""
        if self._chunks is not None:
            sample = self._next_chunk(self._chunks)
            self._chunks = chain([sample], self._chunks)
        elif self.size_bytes is not None:
            room = bytearray(SAMPLE_BYTES)
            sample = bytes(room[: self._read(lambda: os.preadv(self._fd, [room], self._start))])
        else:
            sample = self._head = self._head + self._read_stored(SAMPLE_BYTES)
        unwrap = unwrapper(sample)
        if unwrap is not None:
            self._chunks = unwrapped(self._chunks or iter(self._read_plain, b""), unwrap)
        return unwrap is not None

    def _read_plain(self) -> bytes:
        head, self._head = self._head, b""
        return head or self._read_stored(SAMPLE_BYTES)

    def _read_stored(self, size_bytes: int) -> bytes:
        piece = bytearray(size_bytes)
        return bytes(piece[: self._read(lambda: os.readv(self._fd, [piece]))])

    def _read_magic(self) -> bytes:
        head = b""
        while len(head) < _MAGIC_BYTES:
            piece = bytearray(_MAGIC_BYTES - len(head))
            count = self._read(lambda piece=piece: os.readv(self._fd, [piece]))  # type: ignore[misc]
            if count == 0:
                break
            head += piece[:count]
        return head

    def _read_compressed(self) -> bytes:
        head, self._head = self._head, b""
        return head or self._read_stored(_COMPRESSED_CHUNK_BYTES)

    def _read(self, read: Callable[[], int]) -> int:
        """One read; an I/O error in the middle of a file (a failing disk, a stale NFS handle) ends it, marked."""
        while True:
            try:
                return read()
            except BlockingIOError:
                select.select([self._fd], [], [])
            except OSError as error:
                self.damaged = self.damaged or f"reading stopped at an I/O error: {os.strerror(error.errno or 0)}"
                return 0


def open_source(path: str, *, max_bytes: int | None = None) -> ByteSource:
    """Open a log for reading; ``-`` is standard input.

    ``max_bytes`` bounds what is delivered (after decompression); without it plain files are not bounded and compressed
    ones by ``MAX_INFLATED_BYTES``.

    Raises NotFoundError if there is no such regular file or it may not be read, UsageError if it is compressed in a
    way this installation cannot decompress.
    """
    fd = 0 if path == STDIN else _open_regular(path)
    try:
        return ByteSource(path, fd, max_bytes=max_bytes)
    except OSError as error:
        _close(path, fd)
        raise NotFoundError(f"cannot read {shown(path)}: {os.strerror(error.errno or 0)}") from error
    except TriageError:
        _close(path, fd)
        raise


def shown(path: str | os.PathLike[str]) -> str:
    """A path as it may appear in a sentence: names with control characters or undecodable bytes are escaped."""
    text = os.fspath(path)
    return text if text.isprintable() else repr(text)


def special_kind(mode: int) -> str | None:
    """``a named pipe`` and the like for everything that is not a regular file, None for a regular file."""
    return next((name for test, name in _SPECIAL if test(mode)), None if stat.S_ISREG(mode) else "not a file")


def _open_regular(path: str) -> int:
    name = shown(path)
    try:
        # Opening some devices has side effects, so look first; what counts is the check on the descriptor below.
        _refuse_special(name, Path(path).lstat().st_mode)
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | getattr(os, "O_NOCTTY", 0))
    except ValueError as error:
        raise NotFoundError(f"{name} cannot be the name of a file: check the path") from error
    except OSError as error:
        raise NotFoundError(_open_problem(name, error)) from error
    try:
        _refuse_special(name, os.fstat(fd).st_mode)
    except TriageError:
        os.close(fd)
        raise
    return fd


def _refuse_special(name: str, mode: int) -> None:
    kind = special_kind(mode)
    if kind == "a symbolic link":
        raise NotFoundError(f"{name} is a symbolic link: name the file that it leads to")
    if kind == "a directory":
        raise NotFoundError(f"{name} is a directory, not a log: name a log file in it")
    if kind is not None:
        raise NotFoundError(f"{name} is {kind}, not a log file: name a regular file, or - for standard input")


def _open_problem(name: str, error: OSError) -> str:
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return f"there is no file {name}: check the path"
    if error.errno == errno.ELOOP:
        return f"{name} is a symbolic link: name the file that it leads to"
    if error.errno in {errno.EACCES, errno.EPERM}:
        return f"you may not read {name}: ask its owner, or run as the job's user"
    return f"cannot open {name}: {os.strerror(error.errno or 0)}"


def _close(path: str, fd: int) -> None:
    if path != STDIN:
        os.close(fd)
