"""How far the worker is behind: what waits in the spool, and how long."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from slurm_triage.metrics.exposition import Sample
from slurm_triage.service.batch_file import events_by_name
from slurm_triage.service.reconcile import MARK
from slurm_triage.service.spool import BAD, NEW

#: Listing more names than this takes longer than anybody wants to wait for a metric; the worker takes 50 000 at a time.
MAX_LISTED = 200_000
#: The oldest event is looked for among this many names that sort first: a name begins with the event's time.
MAX_LOOKED_AT = 1000


def spool_samples(spool: Path, now: float) -> list[Sample]:
    """``now``: seconds since the epoch. A spool that cannot be listed gives ``spool_readable`` 0 and nothing else."""
    names = _names(spool / NEW)
    if names is None:
        return [Sample("spool_readable", 0, {})]
    refused = _names(spool / BAD)
    found = [
        Sample("spool_readable", 1, {}),
        Sample("spool_events", sum(map(events_by_name, names)), {}),
        Sample("spool_oldest_event_age_seconds", _oldest_age(spool / NEW, names, now), {}),
    ]
    return found if refused is None else [*found, Sample("spool_refused_files", len(refused), {})]


def _names(directory: Path) -> list[str] | None:
    names: list[str] = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) >= MAX_LISTED:
                    break
    except OSError:
        return None
    return sorted(names)


def _oldest_age(directory: Path, names: list[str], now: float) -> float:
    """0 when nothing waits. Files that the worker has taken meanwhile are left out; clocks of nodes may run ahead."""
    times: list[float] = []
    for name in names[:MAX_LOOKED_AT]:
        with contextlib.suppress(OSError):
            times.append((directory / name).lstat().st_mtime)
    return max(0.0, now - min(times, default=now))


def reconciled_samples(state: Path) -> list[Sample]:
    """Nothing if no worker has asked accounting yet, or its state directory may not be read."""
    with contextlib.suppress(OSError, ValueError):
        return [Sample("reconciled_timestamp_seconds", float((state / MARK).read_text()), {})]
    return []
