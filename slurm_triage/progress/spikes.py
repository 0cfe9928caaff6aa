"""Single slow steps that come back at a fixed distance: saves, evaluation, logging. Expected, not a degradation."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from slurm_triage.progress.rates import Rates

#: A spike takes this much longer than the median step, and clearly more than the usual scatter.
_SPIKE_FACTOR = 1.5
_SCATTERS = 8.0
#: Chance makes two or three spikes look regular; not this many.
_MIN_SPIKES = 4
_REGULAR_SHARE = 0.8


def spike_period(rates: Rates) -> int | None:
    """Steps between regular spikes, None if there are none. Only for logs that show every step."""
    if rates.interval != 1 or not rates.usable:
        return None
    settled = [rates.cost[i] for i in rates.usable]
    ascending = sorted(settled)
    middle = ascending[len(ascending) // 2]
    scatter = (ascending[len(ascending) * 3 // 4] - ascending[len(ascending) // 4]) / 1.349
    limit = max(_SPIKE_FACTOR * middle, middle + _SCATTERS * scatter)
    high = [rates.steps[i] for i in range(rates.usable[0], len(rates.steps)) if rates.cost[i] > limit]
    spikes = [step for k, step in enumerate(high) if k == 0 or step - high[k - 1] > 2]
    if len(spikes) < _MIN_SPIKES:
        return None
    distances = [b - a for a, b in pairwise(spikes)]
    period = round(median(distances))
    regular = sum(abs(d - period) <= 1 for d in distances)
    return period if period > 2 and regular >= _REGULAR_SHARE * len(distances) else None
