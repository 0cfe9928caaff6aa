"""Becoming the job's owner, for good, before any path of a user is touched."""

from __future__ import annotations

import ctypes
import os
import pwd
import resource
import signal
import time

from slurm_triage.errors import TriageError

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38

#: A report of 4096 ranks with 20 000 findings has 25 MB; nothing else is written.
MAX_FILE_BYTES = 256 << 20
MAX_OPEN_FILES = 512


class PrivilegeError(TriageError):
    """The child could not become the job's owner; it must not go on."""


def drop(uid: int | None, parent: int) -> None:
    """Run as ``uid`` from here on, with all of that user's groups, and never gain anything again. Dies with ``parent``.

    Raises PrivilegeError; the caller must then exit without touching anything.
    """
    if uid is None:
        raise PrivilegeError("accounting does not say whose job this is")
    if os.geteuid() == 0:
        if uid == 0:
            raise PrivilegeError("jobs of root are not triaged by the worker; run slurm-triage JOB as root")
        try:
            entry = pwd.getpwuid(uid)
        except KeyError:
            raise PrivilegeError(
                f"uid {uid} has no account on this host; let the worker run where users exist"
            ) from None
        os.initgroups(entry.pw_name, entry.pw_gid)
        os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
        os.setresuid(uid, uid, uid)
        os.environ.update(HOME=entry.pw_dir, USER=entry.pw_name, LOGNAME=entry.pw_name)
        if os.getresgid() != (entry.pw_gid,) * 3:
            raise PrivilegeError(f"could not take the group of uid {uid}; start the worker as root")
    if os.getresuid() != (uid, uid, uid):
        raise PrivilegeError(f"could not become uid {uid}; start the worker as root, or as that user")
    # After setuid, which clears the first of these.
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _prctl(_PR_SET_DUMPABLE, 0)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if os.getppid() != parent:
        raise PrivilegeError("the worker is gone; nothing to report to")


def limit(cpu_s: float, memory_bytes: int) -> None:
    """Bounds that hold whatever a log or directory does to us. The worker's own clock is the second guard."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, MAX_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_OPEN_FILES, MAX_OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s) + 6, int(cpu_s) + 6))


def limit_cpu(more_s: float) -> None:
    """End this process after so much more CPU time, if ``limit`` does not do it before."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (min(hard, int(time.process_time() + more_s) + 1), hard))


def _prctl(option: int, value: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise PrivilegeError(f"prctl {option} failed: {os.strerror(ctypes.get_errno())}")
