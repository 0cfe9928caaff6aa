"""A file layer that fails, stops or loses power at a chosen call, and forgets what was never synced."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path

from slurm_triage.ledger.files import Files


class Crash(BaseException):
    """The process is gone. Not an Exception, so nothing under test can handle it."""


class _Inode:
    """Content that is certainly on the disk (``durable``) of a file that exists in the page cache."""

    def __init__(self, durable: bytes) -> None:
        self.durable = durable


class FaultyFiles(Files):
    """Counts the calls that change something. At call number ``at`` it does ``fault``:

    before, after: Crash before or after the call. torn: Crash after a part of the data was written (calls that write
    only, else as before). Or an errno number: OSError for ``times`` calls from there on, after a part of the data was
    written if ``partial``.
    """

    def __init__(
        self, at: int | None = None, fault: str | int = "before", *, times: int = 1, partial: float = 0.0,
        on_crash: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        self.calls = 0
        self._at = at
        self._fault = fault
        self._times = times
        self._partial = partial
        self._on_crash = on_crash
        self._paths: dict[int, Path] = {}
        self._now: dict[Path, _Inode] = {}
        self._disk: dict[Path, _Inode] = {}

    # -- what fails ------------------------------------------------------------------------------------------------

    def _gate(self, write_part: Callable[[float], None] | None = None) -> None:
        number = self.calls
        self.calls += 1
        if self._at is None or number < self._at:
            return
        if isinstance(self._fault, int):
            if number < self._at + self._times:
                if write_part is not None and self._partial:
                    write_part(self._partial)
                raise OSError(self._fault, os.strerror(self._fault))
        elif number == self._at and self._fault in ("before", "torn"):
            if write_part is not None and self._fault == "torn":
                write_part(self._partial)
            self._crash()

    def _done(self) -> None:
        if self._at is not None and self._fault == "after" and self.calls == self._at + 1:
            self._crash()

    def _crash(self) -> None:
        if self._on_crash is not None:
            self._on_crash()
        raise Crash

    # -- the calls -------------------------------------------------------------------------------------------------

    def open(self, path: Path, flags: int, mode: int = 0o644) -> int:
        self._gate()
        existed = path.exists()
        fd = super().open(path, flags, mode)
        self._paths[fd] = path
        if not existed:
            self._now[path] = _Inode(b"")
        elif path not in self._now:
            self._adopt(path)
        self._done()
        return fd

    def _adopt(self, path: Path) -> None:
        """A file from before this layer existed: whatever it holds is on the disk."""
        inode = _Inode(path.read_bytes())
        self._now[path] = self._disk[path] = inode

    def write(self, fd: int, data: bytes | memoryview) -> int:
        self._gate(lambda part: self._write_part(fd, bytes(data), part))
        written = super().write(fd, data)
        self._done()
        return written

    def _write_part(self, fd: int, data: bytes, part: float) -> None:
        os.write(fd, data[: int(len(data) * part)])

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        self._gate()
        written = super().pwrite(fd, data, offset)
        self._done()
        return written

    def datasync(self, fd: int) -> None:
        self._gate()
        path = self._paths[fd]
        self._now[path].durable = path.read_bytes()
        self._done()

    def close(self, fd: int) -> None:
        try:
            self._gate()
        finally:
            # Linux has given the descriptor up even when close reports an error.
            super().close(fd)
            del self._paths[fd]
        self._done()

    def rename(self, source: Path, target: Path) -> None:
        self._gate()
        if target.exists() and target not in self._now:
            self._adopt(target)
        super().rename(source, target)
        self._now[target] = self._now.pop(source)
        self._paths = {fd: target if path == source else path for fd, path in self._paths.items()}
        self._done()

    def unlink(self, path: Path) -> None:
        self._gate()
        if path not in self._now:
            self._adopt(path)
        super().unlink(path)
        del self._now[path]
        self._done()

    def make_dir(self, path: Path, mode: int) -> None:
        self._gate()
        super().make_dir(path, mode)
        self._done()

    def sync_dir(self, path: Path) -> None:
        self._gate()
        for name in {*self._now, *self._disk}:
            if name.parent == path:
                if name in self._now:
                    self._disk[name] = self._now[name]
                else:
                    del self._disk[name]
        self._done()

    def read(self, path: Path) -> bytes:
        if self._fault == errno.EIO:
            self._gate()
        return super().read(path)

    # -- after the crash -------------------------------------------------------------------------------------------

    def abandon(self) -> None:
        """Closes what the dead process had open."""
        for fd in list(self._paths):
            os.close(fd)
        self._paths.clear()

    def lose_power(self, rng: random.Random) -> None:
        """Leaves on the disk what a power cut may leave: all that was synced, and any part of the rest."""
        for path in sorted({*self._now, *self._disk}):
            now, disk = self._now.get(path), self._disk.get(path)
            # A name that was never synced in its directory may have reached the disk, or not.
            kept = now if now is disk else rng.choice((now, disk))
            if kept is None:
                path.unlink(missing_ok=True)
                continue
            cached = path.read_bytes() if kept is now and path.exists() else kept.durable
            path.write_bytes(_after_power_cut(kept.durable, cached, rng))


def _after_power_cut(durable: bytes, cached: bytes, rng: random.Random) -> bytes:
    if not cached.startswith(durable):
        return rng.choice((durable, cached))
    tail = cached[len(durable) :]
    how = rng.randrange(4)
    if not tail or how == 0:
        return durable
    if how == 1:
        return durable + tail[: rng.randrange(len(tail) + 1)]
    if how == 2:
        return durable + bytes(rng.randrange(len(tail) + 1))
    # Blocks arrive in any order: some of the tail's are there, others still hold zeros.
    block = 64
    pieces = (tail[i : i + block] for i in range(0, len(tail), block))
    return durable + b"".join(piece if rng.random() < 0.5 else bytes(len(piece)) for piece in pieces)
