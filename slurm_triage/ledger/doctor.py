"""Can this very directory hold a ledger? Locks, links, renames and syncs are tried out, not believed."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from slurm_triage.errors import LedgerError
from slurm_triage.ledger.files import Files, put
from slurm_triage.ledger.lock import LOCAL_FILE_SYSTEMS, Kind, acquire, file_system

Result = Literal["ok", "warning", "failed"]

_SYNCS = 20
#: Below this a group commit cannot keep up with 10 000 array tasks that end together.
_MIN_FREE_BYTES = 1 << 30
_MAX_SKEW_S = 5.0


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    result: Result
    detail: str


def check_directory(path: Path) -> tuple[Check, ...]:
    """Runs all checks in a temporary directory inside ``path`` (or its nearest existing parent) and removes it.

    What one host cannot show (two hosts locking at the same time) is said, not guessed. Raises LedgerError if nothing
    can be written there.
    """
    base = next(p for p in (path, *path.parents) if p.exists())
    try:
        scratch = Path(tempfile.mkdtemp(prefix=".slurm-triage-doctor-", dir=base))
    except OSError as error:
        raise LedgerError(f"cannot write below {base} ({error.strerror}); choose another ledger directory") from error
    try:
        return tuple(_run(name, check, scratch) for name, check in _CHECKS)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _run(name: str, check: Callable[[Path], tuple[Result, str]], scratch: Path) -> Check:
    try:
        return Check(name, *check(scratch))
    except (OSError, LedgerError) as error:
        return Check(name, "failed", str(error))


def _kind_of_file_system(scratch: Path) -> tuple[Result, str]:
    kind = file_system(scratch)
    if kind in LOCAL_FILE_SYSTEMS:
        return "ok", f"{kind}: local, flock is used"
    return "warning", (
        f"{kind}: shared or unknown, the hard-link lock is used; a lock whose holder dies on another host must be "
        "broken by hand, so let one host run the worker"
    )


def _exclusive_create(scratch: Path) -> tuple[Result, str]:
    target = scratch / "once"
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return "ok", "a name is given only once"
    return "failed", "the same file was created twice"


def _hard_links(scratch: Path) -> tuple[Result, str]:
    one, two = scratch / "one", scratch / "two"
    one.write_bytes(b"1")
    os.link(one, two)
    try:
        os.link(one, two)
    except FileExistsError:
        return "ok", "links are made, and never over an existing name"
    return "failed", "a link replaced an existing name"


def _replace(scratch: Path) -> tuple[Result, str]:
    files, target = Files(), scratch / "replaced"
    for content in (b"old", b"new"):
        put(files, target, content, 0o644)
    seen = _in_child(lambda: 0 if target.read_bytes() == b"new" else 1)
    return (
        ("ok", "a file is replaced as a whole, another process sees it")
        if seen == 0
        else (
            "failed",
            "another process still saw the old content after a rename",
        )
    )


def _append(scratch: Path) -> tuple[Result, str]:
    target = scratch / "appended"
    fd = os.open(target, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    try:
        for number in range(100):
            os.write(fd, b"%06d\n" % number)
        os.fdatasync(fd)
    finally:
        os.close(fd)
    whole = b"".join(b"%06d\n" % number for number in range(100))
    if _in_child(lambda: 0 if target.read_bytes() == whole else 1) == 0:
        return "ok", "appended lines arrive whole and in order in another process"
    return "failed", "another process did not see what had been synced"


def _sync(scratch: Path) -> tuple[Result, str]:
    fd = os.open(scratch / "synced", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    took = []
    try:
        for _ in range(_SYNCS):
            began = time.perf_counter()
            os.write(fd, b"x" * 700)
            os.fdatasync(fd)
            took.append(time.perf_counter() - began)
    finally:
        os.close(fd)
    median_s = statistics.median(took)
    if median_s < 20e-6 and file_system(scratch) not in ("tmpfs", "ramfs"):
        return "warning", f"fdatasync returns after {median_s * 1e6:.0f} µs: too fast for a disk, is it switched off?"
    if file_system(scratch) in ("tmpfs", "ramfs"):
        return "warning", "this is memory: nothing survives a reboot"
    return "ok", f"fdatasync takes {median_s * 1e3:.2f} ms (median of {_SYNCS})"


def _exclusion(kind: Kind) -> Callable[[Path], tuple[Result, str]]:
    def check(scratch: Path) -> tuple[Result, str]:
        directory = scratch / f"lock-{kind}"
        directory.mkdir()
        lock = acquire(directory, kind=kind)
        try:
            if _in_child(lambda: _try_lock(directory, kind)) == 0:
                return "failed", "a second process got the lock while it was held"
        finally:
            lock.release(force=True)
        if _in_child(lambda: _try_lock(directory, kind)) != 0:
            return "failed", "the lock could not be taken after its holder had given it up"
        hosts = "; two hosts at once cannot be tried from one" if file_system(scratch) not in LOCAL_FILE_SYSTEMS else ""
        return "ok", f"one holder at a time{hosts}"

    return check


def _try_lock(directory: Path, kind: Kind) -> int:
    try:
        acquire(directory, kind=kind).release(force=True)
    except LedgerError:
        return 1
    return 0


def _clock(scratch: Path) -> tuple[Result, str]:
    probe = scratch / "clock"
    probe.write_bytes(b"")
    skew_s = probe.stat().st_mtime - time.time()
    if abs(skew_s) > _MAX_SKEW_S:
        return "warning", f"the file server's clock is {skew_s:+.0f} s off; records are ordered by number, not by time"
    return "ok", "the file server's clock agrees"


def _space(scratch: Path) -> tuple[Result, str]:
    usage = os.statvfs(scratch)
    free_bytes, free_files = usage.f_bavail * usage.f_frsize, usage.f_favail
    text = f"{free_bytes / 1e9:.1f} GB free"
    if free_bytes < _MIN_FREE_BYTES or (usage.f_files and free_files < 1000):
        return "warning", f"{text}, {free_files} files; a million records take about 0.7 GB"
    return "ok", text


def _mode(scratch: Path) -> tuple[Result, str]:
    mode = scratch.parent.stat().st_mode & 0o777
    who = "everybody" if mode & 0o005 == 0o005 else "owner and group" if mode & 0o050 == 0o050 else "the owner only"
    return "ok", f"mode {mode:o}: new files can be read by {who}"


_CHECKS: tuple[tuple[str, Callable[[Path], tuple[Result, str]]], ...] = (
    ("file system", _kind_of_file_system),
    ("exclusive create", _exclusive_create),
    ("hard links", _hard_links),
    ("atomic replace", _replace),
    ("append", _append),
    ("sync", _sync),
    ("lock (flock)", _exclusion("flock")),
    ("lock (hard links)", _exclusion("strict")),
    ("clock", _clock),
    ("space", _space),
    ("readers", _mode),
)


def _in_child(action: Callable[[], int]) -> int:
    """Exit status of ``action`` in a process of its own; 70 if it failed otherwise."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        status = 70
        try:
            status = action()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
