"""Writing an event into the spool, for people and programs that are no hook."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from slurm_triage.errors import PartialResultError
from slurm_triage.service import batch_file
from slurm_triage.service.spool import NEW, TMP
from slurm_triage.service.spool_event import VERSION


def record(spool: Path, job_id: str, env: Mapping[str, str], *, kind: str = "hook") -> Path:
    """Put one event into the spool, whole or not at all. Raises PartialResultError if that is not possible."""
    now = int(time.time())
    return _put(spool, f"{kind}.{job_id}", now, _event(job_id, env, kind, now))


def record_many(spool: Path, job_ids: Sequence[str], *, kind: str) -> Path:
    """Put an event about each of at most ``batch_file.MAX_EVENTS`` jobs into the spool, all in one file or none. Raises
    PartialResultError if that is not possible."""
    now = int(time.time())
    header = [f"slurm-triage-batch={batch_file.VERSION}", f"host={os.uname().nodename}", f"time={now}"]
    events = [line for job_id in job_ids for line in _event(job_id, {}, kind, now)]
    return _put(spool, f"batch.{len(job_ids)}", now, [*header, *events, "end-batch=1"])


def _event(job_id: str, env: Mapping[str, str], kind: str, now: int) -> list[str]:
    lines = [f"slurm-triage-event={VERSION}", f"kind={kind}", f"host={os.uname().nodename}", f"time={now}"]
    lines += [f"{key}={_escape(value)}" for key, value in {"SLURM_JOB_ID": job_id, **env}.items() if value]
    return [*lines, "end=1"]


def _put(spool: Path, about: str, now: int, lines: Iterable[str]) -> Path:
    # A name that nobody can take first, where everybody may write.
    temporary = spool / TMP / f"{now}.{os.uname().nodename}.{about}.{os.getpid()}-{secrets.token_hex(8)}"
    final = spool / NEW / temporary.name
    try:
        with open(temporary, "x", encoding="ascii") as file:
            file.writelines(f"{line}\n" for line in lines)
        temporary.rename(final)
    except OSError as error:
        if not isinstance(error, FileExistsError):
            with contextlib.suppress(OSError):
                temporary.unlink()
        raise PartialResultError(f"cannot write into the spool {spool}: {error.strerror}; check it") from error
    return final


def _escape(value: str) -> str:
    """As hooks/record-event does it: ``\\xx`` for what is not printable ASCII, and for the backslash."""
    raw = value.encode("utf-8", "surrogateescape")
    return "".join(chr(b) if 0x20 <= b < 0x7F and b != 0x5C else f"\\{b:02x}" for b in raw)
