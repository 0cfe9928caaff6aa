"""How likely is it by chance? Exact tails, and the correction for asking many times."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def binomial_tail(events: int, trials: int, chance: float) -> float:
    """Exact P(X >= events) for X ~ Binomial(trials, chance)."""
    if events <= 0:
        return 1.0
    if chance <= 0.0 or events > trials:
        return 0.0
    if chance >= 1.0:
        return 1.0
    log_p, log_q = math.log(chance), math.log1p(-chance)
    whole = math.lgamma(trials + 1)
    terms = (
        math.exp(whole - math.lgamma(k + 1) - math.lgamma(trials - k + 1) + k * log_p + (trials - k) * log_q)
        for k in range(events, trials + 1)
    )
    return min(1.0, math.fsum(terms))


def benjamini_hochberg(p_values: Mapping[str, float]) -> dict[str, float]:
    """Corrected p-values (q-values): naming all with q <= 5 % makes at most 5 % of the named ones wrong, on average."""
    count = len(p_values)
    corrected: dict[str, float] = {}
    smallest = 1.0
    for rank, (node, p_value) in reversed(list(enumerate(sorted(p_values.items(), key=lambda item: item[1]), 1))):
        smallest = min(smallest, p_value * count / rank)
        corrected[node] = smallest
    return corrected


def combined_tail(events: int, trials: int, chance: float, chances: Sequence[float]) -> float:
    """Exact P(X + Y >= events): X ~ Binomial(trials, chance), Y the number of independent events with ``chances``."""
    if events <= 0:
        return 1.0
    exactly = [1.0]
    for one in chances:
        before = [*exactly, 0.0]
        exactly = [p * (1 - one) + (before[k - 1] * one if k else 0.0) for k, p in enumerate(before)]
    terms = (p * binomial_tail(events - k, trials, chance) for k, p in enumerate(exactly))
    return min(1.0, math.fsum(terms))
