"""Where ledgers lie."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

SITE_LEDGER = Path("/var/lib/slurm-triage/ledger")


def site_ledger(environ: Mapping[str, str]) -> Path:
    """Where the site's worker writes, as its configuration says."""
    from slurm_triage.settings import CONFIG, load_settings  # not needed where the ledger is named

    if not environ.get("SLURM_TRIAGE_CONFIG") and not CONFIG.exists():
        return SITE_LEDGER
    return load_settings(environ=environ).ledger


def ledger_root(environ: Mapping[str, str] | None = None, uid: int | None = None) -> Path:
    """The directory to write to: ``$SLURM_TRIAGE_LEDGER``; else the site's for root, a personal one for others."""
    env = os.environ if environ is None else environ
    if env.get("SLURM_TRIAGE_LEDGER"):
        return Path(env["SLURM_TRIAGE_LEDGER"])
    if (os.geteuid() if uid is None else uid) == 0:
        return site_ledger(env)
    state = env.get("XDG_STATE_HOME") or str(Path(env.get("HOME") or "~").expanduser() / ".local" / "state")
    return Path(state) / "slurm-triage" / "ledger"


def ledgers_to_read(
    environ: Mapping[str, str] | None = None, uid: int | None = None, site: Path | None = None
) -> tuple[Path, ...]:
    """The directories to look in: the one of ``$SLURM_TRIAGE_LEDGER`` alone; else the site's, where it may be read,
    and the personal one. Directories that do not exist are left out."""
    env = os.environ if environ is None else environ
    own = ledger_root(env, uid)
    site = site or site_ledger(env)
    candidates = (own,) if env.get("SLURM_TRIAGE_LEDGER") or own == site else (site, own)
    return tuple(path for path in candidates if os.access(path, os.R_OK | os.X_OK) and path.is_dir())
