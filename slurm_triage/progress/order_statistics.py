"""Medians and quartiles of plain lists (importing ``statistics`` costs more than a small triage computes)."""

from __future__ import annotations

from collections.abc import Sequence

#: Longer lists are judged by this many values, in contiguous runs so that no period in them can alias.
_SAMPLE = 10_000
_SAMPLE_RUN = 100


def median(values: Sequence[float]) -> float:
    """The middle value (mean of the two middle ones). ``values`` must not be empty."""
    ascending = sorted(values)
    half = len(ascending) // 2
    return ascending[half] if len(ascending) % 2 else (ascending[half - 1] + ascending[half]) / 2


def quantile(ascending: Sequence[float], share: float) -> float:
    """The value below which about ``share`` of the sorted values lie."""
    return ascending[min(len(ascending) - 1, int(len(ascending) * share))]


def robust_sd(ascending: Sequence[float]) -> float:
    """Standard deviation from the quartiles of sorted values: blind to spikes."""
    return (quantile(ascending, 0.75) - quantile(ascending, 0.25)) / 1.349


def sample(values: Sequence[float]) -> Sequence[float]:
    """All values of a short list, evenly spread runs of a long one."""
    n = len(values)
    if n <= _SAMPLE:
        return values
    runs = _SAMPLE // _SAMPLE_RUN
    return [v for k in range(runs) for v in values[k * n // runs : k * n // runs + _SAMPLE_RUN]]
