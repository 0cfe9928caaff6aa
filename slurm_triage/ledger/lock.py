"""Election of the one writer: a lock that is safe on the file system the ledger lies on."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from slurm_triage.errors import LedgerError

if TYPE_CHECKING:
    from filelock import BaseFileLock, StrictSoftFileClaim, StrictSoftFileLock

Kind = Literal["flock", "strict"]

LOCK = "writer.lock"
_KIND = "lock-kind"
#: File systems of one host, where the kernel itself keeps flock. On network file systems flock is emulated, bound to
#: one host (Lustre's localflock) or known to have let two holders in (NFS through two client caches), so there the
#: lock is made of hard links, whose creation the server decides.
LOCAL_FILE_SYSTEMS = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
)
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC


def file_system(path: Path) -> str:
    """Type of the file system that ``path`` lies on (``ext4``, ``nfs4`` ...), ``unknown`` if it cannot be told."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return "unknown"
    real = os.path.realpath(path)
    longest, kind = -1, "unknown"
    for line in lines:
        fields, _, rest = line.partition(" - ")
        mount = fields.split()[4].replace("\\040", " ")
        # Of two mounts on the same place the later one is on top.
        if (real == mount or real.startswith(mount.rstrip("/") + "/")) and len(mount) >= longest:
            longest, kind = len(mount), rest.split()[0]
    return kind


def lock_kind(directory: Path) -> Kind:
    """The kind of lock this ledger uses. The first writer decides and writes it down, so that all hosts agree.

    Raises LedgerError if the ledger was made with flock and lies on a network file system here.
    """
    here: Kind = "flock" if file_system(directory) in LOCAL_FILE_SYSTEMS else "strict"
    path = directory / _KIND
    if not path.exists():
        # Another host may have a process with the same number.
        temporary = directory / f"{_KIND}.{secrets.token_hex(8)}.tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with os.fdopen(fd, "w") as file:
            file.write(here)
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass  # Somebody else was first: what they wrote counts, and is read below.
        except OSError as error:
            raise LedgerError(
                f"cannot make a hard link in {directory} ({error.strerror}); use a file system that has hard links"
            ) from error
        finally:
            temporary.unlink()
    recorded = path.read_text().strip()
    if recorded not in ("flock", "strict"):
        raise LedgerError(f"{path} holds neither flock nor strict; stop all writers and write {here} into it")
    if recorded == "flock" and here == "strict":
        raise LedgerError(
            f"the ledger {directory} was made with flock, which is not safe on {file_system(directory)}; "
            f"stop all writers and write the word strict into {path}"
        )
    return "strict" if recorded == "strict" else "flock"


def acquire(directory: Path, timeout_s: float = 0.0, kind: Kind | None = None) -> BaseFileLock:
    """Becomes the only writer of ``directory``. Raises LedgerError if another one holds the lock.

    A strict lock outlives its holder's death. It is broken here only if the holder ran on this host and is gone; for
    holders on other hosts the error says how to break it. Whatever happens to the lock, a replaced writer cannot
    acknowledge anything any more (see ``append``).
    """
    from filelock import Timeout

    try:
        chosen = lock_kind(directory) if kind is None else kind
        if chosen == "flock":
            from filelock import UnixFileLock

            lock: BaseFileLock = UnixFileLock(directory / LOCK, timeout=timeout_s)
        else:
            lock = _strict_lock(directory, timeout_s)
        lock.acquire(poll_interval=0.02)
    except Timeout:
        raise LedgerError(
            f"another writer holds {directory / LOCK}{_holder(directory)}; wait for it or stop it"
        ) from None
    except (OSError, NotImplementedError) as error:
        why = getattr(error, "strerror", None) or error
        raise LedgerError(f"cannot lock {directory / LOCK} ({why}); check its mode, owner and file system") from error
    return lock


def _strict_lock(directory: Path, timeout_s: float) -> StrictSoftFileLock:
    try:
        from filelock import StrictSoftFileLock
    except ImportError as error:
        raise LedgerError("this file system needs filelock 3.30 or newer: pip install -U filelock") from error
    lock = StrictSoftFileLock(directory / LOCK, timeout=timeout_s)
    for claim in lock.claims:
        if holder_is_dead(claim):
            _break(lock, claim.name)
    return lock


def _break(lock: StrictSoftFileLock, name: str) -> None:
    try:
        lock.force_break(name)
    except FileNotFoundError:
        # Another contender saw the same dead holder and was quicker.
        return


def break_claim(directory: Path, name: str) -> None:
    """Removes one strict claim by name, for an administrator who knows that its holder is gone."""
    from filelock import StrictSoftFileLock

    try:
        StrictSoftFileLock(directory / LOCK).force_break(name)
    except (FileNotFoundError, ValueError) as error:
        raise LedgerError(
            f"no claim {name} in {directory}; run slurm-triage ledger verify to see the holder"
        ) from error


def _holder(directory: Path) -> str:
    from filelock import StrictSoftFileLock

    if not (directory / f"{LOCK}.filelock").exists():
        return ""
    claims = StrictSoftFileLock(directory / LOCK).claims
    names = ", ".join(f"process {c.pid} on {c.hostname}, claim {c.name}" for c in claims)
    hint = "; if that process is gone: slurm-triage ledger repair --break-claim NAME"
    return f" ({names}{hint})" if names else ""


def holder_is_dead(claim: StrictSoftFileClaim) -> bool:
    """True only if the holder ran on this host, in this PID namespace, and exists no more."""
    if claim.hostname != _host_identity():
        return False
    if not Path(f"/proc/{claim.pid}").exists():
        return True
    # The claim's start token is the boot id in front of the process's start time: after a reboot the number of a dead
    # holder may belong to somebody else.
    boot = int(Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", ""), 16)
    return claim.start is not None and claim.start >> 64 not in (0, boot)


def _host_identity() -> str:
    """This host's name as the strict lock writes it: with a suffix where process ids are private to a container."""
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    suffix = "" if namespace == _INITIAL_PID_NAMESPACE else f"?pidns-{namespace:x}"
    return socket.gethostname() + suffix
