"""How likely is it by chance? Exact tails, and the correction for asking many times."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate

#: The exponential of anything less is 0.
_LOG_ZERO = -746.0


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


def hypergeometric_tail(events: int, drawn: int, marked: int, total: int) -> float:
    """Exact P(at least ``events`` marked ones among ``drawn`` of ``total``, of which ``marked`` are marked)."""
    lowest = max(events, drawn - (total - marked))
    terms = (
        math.exp(_log_choose(marked, k) + _log_choose(total - marked, drawn - k) - _log_choose(total, drawn))
        for k in range(lowest, min(drawn, marked) + 1)
    )
    return min(1.0, math.fsum(terms))


def _log_choose(total: int, drawn: int) -> float:
    return math.lgamma(total + 1) - math.lgamma(drawn + 1) - math.lgamma(total - drawn + 1)


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
    """Exact P(X + Y >= events): X ~ Binomial(trials, chance), Y the number of independent events with ``chances``.

    Events of equal chance are taken together, and only sums below ``events`` are told apart: the work does not grow
    with the square of the number of ``chances``."""
    if events <= 0:
        return 1.0
    groups = Counter(chances)
    groups[chance] += trials
    below = [1.0] + [0.0] * (events - 1)
    reached = 0.0
    for one, count in groups.items():
        exactly = _binomial(count, one)
        at_least = list(accumulate(reversed(exactly)))[::-1]
        reached += math.fsum(p * at_least[events - k] for k, p in enumerate(below) if events - k <= count)
        below = [
            math.fsum(below[k - n] * exactly[n] for n in range(min(k, count) + 1) if exactly[n]) for k in range(events)
        ]
    return min(1.0, reached)


def _binomial(trials: int, chance: float) -> list[float]:
    """P(X = k) for k = 0 ... trials."""
    if chance <= 0.0 or chance >= 1.0:
        sure = 0 if chance <= 0.0 else trials
        return [float(k == sure) for k in range(trials + 1)]
    log_p, log_q = math.log(chance), math.log1p(-chance)
    found = []
    for k in range(trials + 1):
        log_term = _log_choose(trials, k) + k * log_p + (trials - k) * log_q
        if log_term < _LOG_ZERO and k > trials * chance:
            # So are all that follow: of thousands of trials with small chances, nearly all.
            break
        found.append(math.exp(log_term))
    return found + [0.0] * (trials + 1 - len(found))
