"""Telling somebody that a running job began to hang, or goes on again."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping

from slurm_triage.service.watch import Look

TIMEOUT_S = 60.0
HARMLESS = ("PATH", "HOME", "USER", "LANG")


def notify(command: str, job_id: str, seen: Look, inherited: Mapping[str, str] | None = None) -> str | None:
    """Run the command; what it does or fails to do changes nothing here. Returns why it could not be run, if so.

    ``inherited``: all of the environment that it gets besides. The worker's own may hold tokens of root's, and the
    command runs as the job's owner."""
    if inherited is None:
        inherited = {name: os.environ[name] for name in HARMLESS if name in os.environ}
    environment = {
        **inherited,
        "SLURM_TRIAGE_JOB": job_id,
        "SLURM_TRIAGE_STATUS": seen.status,
        "SLURM_TRIAGE_TEXT": "; ".join((seen.line(job_id), *seen.evidence)),
    }
    try:
        argv = shlex.split(command)
        subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False)
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
        return f"{command!r} did not work: {error}"
    return None
