"""Where ledgers lie."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

SITE_LEDGER = Path("/var/lib/slurm-triage/ledger")


def ledger_root(environ: Mapping[str, str] | None = None, uid: int | None = None) -> Path:
    """The directory to write to: ``$SLURM_TRIAGE_LEDGER``; else the site's for root, a personal one for others."""
    env = os.environ if environ is None else environ
    if env.get("SLURM_TRIAGE_LEDGER"):
        return Path(env["SLURM_TRIAGE_LEDGER"])
    if (os.geteuid() if uid is None else uid) == 0:
        return SITE_LEDGER
    state = env.get("XDG_STATE_HOME") or str(Path(env.get("HOME") or "~").expanduser() / ".local" / "state")
    return Path(state) / "slurm-triage" / "ledger"


def ledgers_to_read(
    environ: Mapping[str, str] | None = None, uid: int | None = None, site: Path = SITE_LEDGER
) -> tuple[Path, ...]:
    """The directories to look in: the one of ``$SLURM_TRIAGE_LEDGER`` alone; else the site's, where it may be read,
    and the personal one. Directories that do not exist are left out."""
    env = os.environ if environ is None else environ
    own = ledger_root(env, uid)
    candidates = (own,) if env.get("SLURM_TRIAGE_LEDGER") or own == site else (site, own)
    return tuple(path for path in candidates if path.is_dir() and os.access(path, os.R_OK | os.X_OK))
