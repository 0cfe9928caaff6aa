"""Durations and clocks as Slurm, the launcher and people write them."""

from __future__ import annotations

import re
from datetime import datetime, timezone

_SLURM = re.compile(r"^(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?$")
_WALL = re.compile(r"^(?:(\d+)h )?(?:(\d+)m )?(\d+)s$")


def parse_slurm(text: str | None) -> float | None:
    """Seconds in ``D-HH:MM:SS``, ``HH:MM:SS`` or ``MM:SS``; None for UNLIMITED and anything else."""
    match = _SLURM.match(text or "")
    if match is None:
        return None
    days, hours, minutes, seconds = (int(g or 0) for g in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def parse_wall(text: str | None) -> float | None:
    """Seconds in the launcher's ``1h 2m 3s``."""
    match = _WALL.match((text or "").strip())
    if match is None:
        return None
    hours, minutes, seconds = (int(g or 0) for g in match.groups())
    return float(hours * 3600 + minutes * 60 + seconds)


def parse_time(text: str | float | None) -> float | None:
    """Epoch seconds of an ISO 8601 time. A time without offset is taken as local time, as Slurm prints it."""
    if isinstance(text, int | float):
        return float(text)
    if not text or text in {"Unknown", "None", "N/A"}:
        return None
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return None


def iso(epoch_s: float | None) -> str | None:
    """ISO 8601 with offset, whole seconds, UTC."""
    if epoch_s is None:
        return None
    return datetime.fromtimestamp(epoch_s, timezone.utc).isoformat(timespec="seconds")


def human(seconds: float | None) -> str:
    """``2 h 5 min``, ``45 s``, ``3 d 4 h``: two units at most."""
    if seconds is None:
        return "unknown"
    if seconds < 0:
        return "-" + human(-seconds)
    if seconds < 1:
        return f"{seconds:.2g} s" if seconds else "0 s"
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
