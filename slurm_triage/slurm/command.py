"""Slurm's own commands, run the same way every time: UTC, epoch seconds, C locale, a time limit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from slurm_triage.errors import AccountingError

#: sacct over 10 000 jobs took 3 s on the test cluster; a busy slurmdbd is given twenty times that.
DEFAULT_TIMEOUT_S = 60.0


def run(argv: Sequence[str], *, timeout_s: float = DEFAULT_TIMEOUT_S) -> str:
    """Standard output of a Slurm command. Raises AccountingError with the command's own last words."""
    name = Path(argv[0]).name
    environment = {**os.environ, "TZ": "UTC", "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
    # Defaults of the person who happens to call us must not change what is asked.
    for variable in ("SACCT_FORMAT", "SACCT_FEDERATION", "SACCT_LOCAL", "SLURM_CLUSTERS", "SLURM_BITSTR_LEN"):
        environment.pop(variable, None)
    for variable in [name for name in environment if name.startswith("SQUEUE_")]:
        del environment[variable]
    try:
        result = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, env=environment, timeout=timeout_s, check=False
        )
    except FileNotFoundError as error:
        raise AccountingError(f"{name} is not installed here; install Slurm's client commands") from error
    except OSError as error:
        raise AccountingError(f"{name} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise AccountingError(f"{name} gave no answer in {timeout_s:.0f} s; check that slurmdbd is well") from error
    if result.returncode:
        words = result.stderr.decode(errors="replace").strip().splitlines() or [f"exit status {result.returncode}"]
        raise AccountingError(f"{name} failed: {words[-1].removeprefix(name + ': ').removeprefix('error: ')}")
    return result.stdout.decode(errors="replace")
