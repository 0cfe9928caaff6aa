"""Writing an event into the spool, for people and programs that are no hook."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path

from slurm_triage.errors import PartialResultError
from slurm_triage.service.spool import NEW, TMP
from slurm_triage.service.spool_event import VERSION


def record(spool: Path, job_id: str, env: Mapping[str, str], *, kind: str = "hook") -> Path:
    """Put one event into the spool, whole or not at all. Raises PartialResultError if that is not possible."""
    host, now = os.uname().nodename, int(time.time())
    name = f"{now}.{host}.{kind}.{job_id}.{os.getpid()}"
    lines = [f"slurm-triage-event={VERSION}", f"kind={kind}", f"host={host}", f"time={now}", f"SLURM_JOB_ID={job_id}"]
    lines += [f"{key}={_escape(value)}" for key, value in env.items() if value]
    text = "\n".join([*lines, "end=1", ""])
    # A name that nobody can take first, where everybody may write.
    temporary, final = spool / TMP / f"{name}.{secrets.token_hex(8)}", spool / NEW / name
    try:
        with open(temporary, "x", encoding="ascii") as file:
            file.write(text)
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
