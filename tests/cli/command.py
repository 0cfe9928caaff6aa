"""Runs the installed command as a shell would."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


def environment(**extra: str) -> dict[str, str]:
    """The caller's, without what would send the command to a site's own rules, ledger or outputs."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_TRIAGE", "JOB_WORKSPACE", "SLURM_"))}
    return {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "LC_ALL": "C.UTF-8", **extra}


def run(
    *args: str | Path, stdin: bytes | None = None, cwd: Path | None = None, env: dict[str, str] | None = None
) -> Result:
    """One call, at most two minutes (on a busy machine). Never a traceback: that is checked for every call of every test."""
    command = [sys.executable, "-m", "slurm_triage", *map(str, args)]
    done = subprocess.run(
        command,
        input=stdin if stdin is not None else b"",
        capture_output=True,
        cwd=cwd,
        env=env or environment(),
        timeout=120,
        check=False,
    )
    result = Result(
        done.returncode, done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode("utf-8", "surrogateescape")
    )
    assert "Traceback (most recent call last)" not in result.err
    assert "internal error" not in result.err
    return result


def sentence(result: Result) -> str:
    """The one sentence on standard error."""
    assert result.out == ""
    lines = result.err.strip().splitlines()
    assert len(lines) == 1, result.err
    assert lines[0].startswith("slurm-triage: ")
    return lines[0].removeprefix("slurm-triage: ")
