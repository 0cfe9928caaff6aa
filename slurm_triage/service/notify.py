"""Telling somebody that a running job began to hang, or goes on again."""

from __future__ import annotations

import os
import shlex
import subprocess

from slurm_triage.service.watch import Look

TIMEOUT_S = 60.0


def notify(command: str, job_id: str, seen: Look) -> str | None:
    """Run the command; what it does or fails to do changes nothing here. Returns why it could not be run, if so."""
    environment = {
        **os.environ,
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
