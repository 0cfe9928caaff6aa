"""Single slow steps that come back at a fixed distance: saves, evaluation, logging. Expected, not a degradation."""

from __future__ import annotations

from itertools import pairwise

from slurm_triage.progress.order_statistics import median, quantile, robust_sd, sample
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
    ascending = sorted(sample([rates.cost[i] for i in rates.usable]))
    middle = quantile(ascending, 0.5)
    limit = max(_SPIKE_FACTOR * middle, middle + _SCATTERS * robust_sd(ascending))
    begin = rates.usable[0]
    high = [i for i, cost in enumerate(rates.cost[begin:], begin) if cost > limit]
    spikes = [rates.steps[i] for k, i in enumerate(high) if k == 0 or i - high[k - 1] > 2]
    if len(spikes) < _MIN_SPIKES:
        return None
    distances = [b - a for a, b in pairwise(spikes)]
    period = round(median(distances))
    regular = sum(abs(d - period) <= 1 for d in distances)
    return period if period > 2 and regular >= _REGULAR_SHARE * len(distances) else None
