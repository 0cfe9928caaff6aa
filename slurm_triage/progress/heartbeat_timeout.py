"""A heartbeat timeout that lets the job live through everything that is known to block heartbeats."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from slurm_triage.model.progress import Progress

#: The seed's "several hours (e.g. 14400)", for when the terms below are not known.
FALLBACK_TIMEOUT_S = 14_400
_CONFIG_KEY = "jax_distributed_heartbeat_timeout_seconds"
#: Half an hour is the grain in which such timeouts are set; below an hour the mechanism is a risk, beyond a day a task
#: that really died would never be noticed.
_GRAIN_S, _LEAST_S, _MOST_S = 1800, 3600, 86_400
#: Measured in the two incidents behind the formula (24 nodes): warm-up 120 s, restore 180 s, one checkpoint save 772 s.
_WARM_UP_S, _RESTORE_S, _SAVE_S = 120.0, 180.0, 772.0


def recommended_timeout_s(progress: Progress, config: Mapping[str, str]) -> int | None:
    """Seconds to set, or None when the configured value is that long already and raising it would not help.

    The launcher's postmortem gives T >= 2 * (W + C_r + P*S + C_s): warm-up, restore, a whole checkpoint period of steps
    and one save. W and C_r together are the measured time before the first step where clocks allow; P*S and C_s are
    left out when the run saves nothing. A job killed before its first step needs twice the time that it had been
    setting up, and the seed's value at least. Rounded up to half hours, between one hour and a day.
    """
    needed = _needed_s(progress)
    value = FALLBACK_TIMEOUT_S if needed is None else ceil(needed / _GRAIN_S) * _GRAIN_S
    value = min(max(value, _LEAST_S), _MOST_S)
    configured = config.get(_CONFIG_KEY, "").strip()
    return None if configured.isdigit() and int(configured) >= value else value


def _needed_s(progress: Progress) -> float | None:
    if progress.last_step is None:
        return None if progress.wall_s is None else max(2 * progress.wall_s, FALLBACK_TIMEOUT_S)
    if progress.step_time_s is None or progress.checkpointing is None:
        return None
    setup_s = progress.setup_s
    if setup_s is None:
        setup_s = _WARM_UP_S + (_RESTORE_S if progress.start == "restored" else 0.0)
    if not progress.checkpointing:
        return 2 * setup_s
    if progress.checkpoint_period is None:
        return None
    save_s = _SAVE_S if progress.checkpoint_cost_s is None else progress.checkpoint_cost_s
    return 2 * (setup_s + progress.checkpoint_period * progress.step_time_s + save_s)
