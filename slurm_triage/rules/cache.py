"""A directory of disposable files that save the parsing and compiling of rules at every start.

A compiled pattern database is code, so a file is used only when nobody but its owner can have written it: it is a
regular file, owned by this process's effective user or by root, and not writable by group or others. Anything else
about a file (damage, another key) makes it count as absent.
"""

from __future__ import annotations

import contextlib
import os
import stat
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

SYSTEM_DIR = Path("/var/cache/slurm-triage")

_MAGIC = b"slurm-triage cache 1\n"

#: Files kept per kind: a home shared by hosts with different processors, and an upgrade or two.
_KEEP = 8


@dataclass(frozen=True, slots=True)
class CacheState:
    """What became of the cache, for ``doctor``. ``kind``: the file was loaded, was newly stored, or neither."""

    kind: Literal["loaded", "stored", "unusable"]
    detail: str


def write_dir() -> Path | None:
    """Where this user's cache files go; None when there is no such place (no home directory)."""
    chosen = os.environ.get("SLURM_TRIAGE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if os.geteuid() == 0:
        return SYSTEM_DIR
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):  # noqa: PTH117 (the specification says: ignore a relative path)
        return Path(base) / "slurm-triage"
    try:
        return Path.home() / ".cache" / "slurm-triage"
    except RuntimeError:
        return None


def load(name: str, key: str, directory: Path | None) -> tuple[bytes | None, str]:
    """The payload stored as ``name`` with ``key``, or None; and the path it came from, or why there is none.

    Root's files serve everybody, so the system directory is tried too.
    """
    reason = "no home directory for the cache; set SLURM_TRIAGE_CACHE_DIR"
    for place in dict.fromkeys((directory, SYSTEM_DIR)):
        if place is None:
            continue
        payload, why = _load_file(place / name, key)
        if payload is not None:
            return payload, str(place / name)
        if place == directory:
            reason = why
    return None, reason


def store(name: str, key: str, payload: bytes, directory: Path | None) -> CacheState:
    """Writes atomically; never raises: a cache that cannot be written costs time only, and the state says so."""
    if directory is None:
        return CacheState("unusable", "no home directory for the cache; set SLURM_TRIAGE_CACHE_DIR")
    import tempfile  # here: a start with a warm cache has no use for it

    readable_by_all = os.geteuid() == 0
    try:
        directory.mkdir(mode=0o755 if readable_by_all else 0o700, parents=True, exist_ok=True)
        found = directory.stat()
        if not _only_owner_writes(found):
            return CacheState("unusable", f"{directory} is writable by other users or owned by one; not used")
        handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=directory)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_header(key, payload) + payload)
                os.fchmod(file.fileno(), 0o644 if readable_by_all else 0o600)
            Path(temporary).replace(directory / name)
        except BaseException:
            Path(temporary).unlink()
            raise
        _prune(directory, name)
    except OSError as error:
        return CacheState("unusable", f"cannot write {directory}: {error.strerror}")
    return CacheState("stored", str(directory / name))


def _header(key: str, payload: bytes) -> bytes:
    return _MAGIC + key.encode() + b"\n" + b"%08x\n" % zlib.crc32(payload)


def _only_owner_writes(found: os.stat_result) -> bool:
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _load_file(path: Path, key: str) -> tuple[bytes | None, str]:
    try:
        # O_NONBLOCK: a FIFO planted under this name must not stop us.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None, f"{path} does not exist"
    except OSError as error:
        return None, f"cannot read {path}: {error.strerror}"
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or not _only_owner_writes(found):
            return None, f"{path} is owned or writable by another user; ignored"
        data = file.read()
    start = len(_MAGIC) + len(key) + 1 + 9
    payload = data[start:]
    if data[:start] != _header(key, payload):
        return None, f"{path} is damaged or stale; ignored"
    return payload, str(path)


def _prune(directory: Path, name: str) -> None:
    kind = name.partition("-")[0]
    entries = [
        (entry.stat(follow_symlinks=False).st_mtime, entry.path)
        for entry in os.scandir(directory)
        if entry.name.startswith(f"{kind}-")
    ]
    for _, path in sorted(entries, reverse=True)[_KEEP:]:
        # Another process may prune at the same moment.
        with contextlib.suppress(FileNotFoundError):
            Path(path).unlink()
