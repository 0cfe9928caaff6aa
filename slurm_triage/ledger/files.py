"""Every call that changes a ledger's files goes through here, so that tests can make each of them fail or stop."""

from __future__ import annotations

import os
from pathlib import Path


class Files:
    """The real file system. All methods raise OSError."""

    def open(self, path: Path, flags: int, mode: int = 0o644) -> int:
        fd = os.open(path, flags | os.O_CLOEXEC, mode)
        if flags & os.O_CREAT:
            # Who may read the ledger is the site's choice (the mode of its directory), not the umask's.
            os.fchmod(fd, mode)
        return fd

    def write(self, fd: int, data: bytes | memoryview) -> int:
        return os.write(fd, data)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        return os.pwrite(fd, data, offset)

    def datasync(self, fd: int) -> None:
        # fdatasync also writes the file's size, which is all that reading back appended data needs.
        os.fdatasync(fd)

    def close(self, fd: int) -> None:
        os.close(fd)

    def rename(self, source: Path, target: Path) -> None:
        source.rename(target)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def make_dir(self, path: Path, mode: int) -> None:
        path.mkdir()
        path.chmod(mode)

    def sync_dir(self, path: Path) -> None:
        """Makes names in ``path`` durable (creation, rename, removal)."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def read(self, path: Path) -> bytes:
        # A fresh open each time: on NFS this is what makes another host's finished write visible (close-to-open).
        return path.read_bytes()


def write_all(files: Files, fd: int, data: bytes) -> None:
    """Writes all of ``data`` at the descriptor's position. Raises OSError; then any prefix may have been written."""
    view = memoryview(data)
    while view:
        view = view[files.write(fd, view) :]


def put(files: Files, path: Path, data: bytes, mode: int) -> None:
    """Replaces ``path`` by ``data`` so that after any crash it holds the old or the new content, whole and durable."""
    temporary = path.with_name(path.name + ".tmp")
    fd = files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
    try:
        write_all(files, fd, data)
        files.datasync(fd)
    finally:
        files.close(fd)
    files.rename(temporary, path)
    files.sync_dir(path.parent)
