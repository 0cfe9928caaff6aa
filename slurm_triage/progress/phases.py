"""Lasting slow phases of a run, told from noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log

from slurm_triage.progress.changepoint import levels, noise_of
from slurm_triage.progress.order_statistics import median, quantile, robust_sd
from slurm_triage.progress.rates import Course

#: The seed: ">10% below the early average".
DROP = log(1 / 0.9)
#: A verdict needs this many steps behind the warm-up: in a run of 15 steps the seed's two windows are the same one.
MIN_STEPS = 25
#: A slow phase that the run recovered from counts from this many steps on; shorter ones are hiccups.
MIN_PHASE_STEPS = 10
_MIN_PHASE_LINES = 8
#: "Sustained": at least half of the last ten steps; a level needs that many lines to be one.
_MIN_LEVEL_LINES = 5
#: Blocks whose medians are searched for levels. 160 take 2 ms; finer would only cost time, since edges are then sought
#: line by line.
_MAX_BLOCKS = 160
_MIN_BLOCK_LINES = 3
#: Changes below a few per cent are of no interest, however clean the log is.
_NOISE_FLOOR = 0.02
#: Slow and healthy level must differ by this many standard errors, and this share of the slow lines must be slower than
#: three quarters of the healthy ones; of a short level, than nearly all of them, for spikes come in clusters. Chosen on
#: 30 000 simulated healthy runs (tests/progress/test_throughput_simulated.py runs a part of them).
_STANDARD_ERRORS = 6.0
_CLEAR_SHARE = 0.75
_UPPER_QUARTILE, _UPPER_TAIL = 0.75, 0.95
#: With few lines (a log that prints every n-th step, an excerpt) the lines of a level must agree this well, relative to
#: the drop (or to a plain one, if it is deeper), by how many lines the shorter level has; with very few lines the drop
#: must be plain as well.
_FEW_LINES, _VERY_FEW_LINES = 25, 8
_AGREEMENT = {2: 0.02, 3: 0.05}
_LOOSE_AGREEMENT = 0.15
_PLAIN_DROP = 0.3


@dataclass(frozen=True, slots=True)
class Phase:
    """A lasting slow phase: positions ``begin`` to ``end`` (half-open) of a ``Course``; ``level`` is for comparison."""

    begin: int
    end: int
    level: float


@dataclass(frozen=True, slots=True)
class _Level:
    begin: int
    end: int
    value: float


def slow_phases(course: Course) -> list[Phase]:
    """Phases that are more than 10 % slower than the run was before them and that noise cannot explain, in order.

    The yardsticks lie before a phase, so a slow start (cold caches, a restore) is no drop, and neither does it hide
    one. Costs are compared on a log scale, where 25 % is the same at any speed.
    """
    lines = len(course.cost)
    if lines < 4 or course.last_steps[-1] - course.steps[0] + 1 < MIN_STEPS:
        return []
    if lines < MIN_STEPS and course.every_step:
        return []
    centre = log(median(course.cost))
    slowness = [log(c) - centre for c in course.cost]
    phases: list[Phase] = []
    healthy: list[_Level] = []
    for level in _levels(slowness):
        current = phases[-1] if phases and phases[-1].end == level.begin else None
        if not any(_is_slow(slowness, level, yardstick, current) for yardstick in _yardsticks(slowness, healthy)):
            healthy.append(level)
        elif current is None:
            phases.append(Phase(_beginning(slowness, healthy, level.begin), level.end, level.value))
        else:
            phases[-1] = Phase(current.begin, level.end, max(current.level, level.value))
    return [p for p in phases if _lasts(p, course)]


def _levels(slowness: Sequence[float]) -> list[_Level]:
    """Constant levels: found on block medians (blind to single spikes), edges moved to the very line."""
    lines = len(slowness)
    size = max(_MIN_BLOCK_LINES, -(-lines // _MAX_BLOCKS)) if lines >= _FEW_LINES else 1
    edges = list(range(0, lines - size // 2, size))
    blocks = [median(slowness[a:b]) for a, b in zip(edges, [*edges[1:], lines], strict=True)]
    ranges = levels(blocks, noise_of(blocks, _NOISE_FLOOR))
    bounds = [edges[a] for a, _ in ranges] + [lines]
    values = [median(slowness[a:b]) for a, b in pairwise(bounds)]
    for k in range(1, len(values)):
        low = max(bounds[k - 1] + 1, bounds[k] - 2 * size)
        high = min(bounds[k + 1] - 1, bounds[k] + 2 * size)
        bounds[k] = _edge(slowness, low, high, values[k - 1], values[k])
    return [_Level(a, b, median(slowness[a:b])) for a, b in pairwise(bounds) if b > a]


def _edge(values: Sequence[float], low: int, high: int, before: float, after: float) -> int:
    """The index between ``low`` and ``high`` that parts the two levels with the least absolute error."""
    error, at, least = 0.0, low, 0.0
    for i in range(low, high):
        error += abs(values[i] - before) - abs(values[i] - after)
        if error < least:
            least, at = error, i + 1
    return at


def _yardsticks(slowness: Sequence[float], healthy: Sequence[_Level]) -> list[list[float]]:
    """What a level is compared with, each as sorted values: all healthy lines so far, and the fastest healthy level."""
    least = _MIN_LEVEL_LINES if len(slowness) >= _FEW_LINES else 2
    lasting = [h for h in healthy if h.end - h.begin >= least]
    if not lasting:
        return []
    best = min(lasting, key=lambda h: h.value)
    pooled = sorted(v for h in healthy for v in slowness[h.begin : h.end])
    return [pooled, sorted(slowness[best.begin : best.end])] if len(healthy) > 1 else [pooled]


def _is_slow(slowness: Sequence[float], level: _Level, healthy: Sequence[float], current: Phase | None) -> bool:
    """Whether a level is a drop against the healthy lines, or no recovery from the phase before it.

    A recovery leads more than half-way back, into the range of the healthy lines, and is more than a few lines long.
    """
    before = quantile(healthy, 0.5)
    drop = level.value - before
    bad = sorted(slowness[level.begin : level.end])
    few = len(slowness) < _FEW_LINES
    if current is not None and not few and len(bad) < _MIN_LEVEL_LINES:
        return True
    if drop <= DROP:
        return False
    if current is not None and (drop > (current.level - before) / 2 or _stands_out(healthy, bad, _UPPER_QUARTILE)):
        return True
    if few:
        return _agree(healthy, bad, drop, len(slowness))
    return len(bad) >= _MIN_LEVEL_LINES and _is_real(healthy, bad, drop)


def _is_real(healthy: Sequence[float], bad: Sequence[float], drop: float) -> bool:
    """Whether the difference between the sorted values of two levels cannot be noise.

    The wider scatter counts for both, and few lines cost extra: the change was looked for where it is largest.
    """
    share = _UPPER_QUARTILE if len(bad) >= MIN_PHASE_STEPS else _UPPER_TAIL
    error = max(_spread(healthy), _spread(bad)) * (1 / len(healthy) + 1 / len(bad)) ** 0.5
    fewest = min(len(healthy), len(bad))
    return _stands_out(healthy, bad, share) and drop > _STANDARD_ERRORS * (1 + 4 / fewest) * error


def _beginning(slowness: Sequence[float], healthy: list[_Level], begin: int) -> int:
    """Where a phase began: a stretch before it that was too short to prove the drop belongs to it."""
    while len(healthy) > 1 and healthy[-1].end == begin:
        doubtful = healthy[-1]
        before = sorted(v for h in healthy[:-1] for v in slowness[h.begin : h.end])
        lines = slowness[doubtful.begin : doubtful.end]
        if doubtful.value - quantile(before, 0.5) <= DROP or not _stands_out(before, lines, _UPPER_QUARTILE):
            break
        begin = healthy.pop().begin
    return begin


def _stands_out(healthy: Sequence[float], bad: Sequence[float], share: float) -> bool:
    """Whether most slow lines are slower than that share of the healthy ones."""
    limit = quantile(healthy, share)
    return sum(v > limit for v in bad) >= _CLEAR_SHARE * len(bad)


def _agree(healthy: Sequence[float], bad: Sequence[float], drop: float, lines: int) -> bool:
    fewest = min(len(healthy), len(bad))
    if fewest < min(_AGREEMENT) or (lines < _VERY_FEW_LINES and drop <= _PLAIN_DROP):
        return False
    width = max(healthy[-1] - healthy[0], bad[-1] - bad[0])
    return width <= min(drop, _PLAIN_DROP) * _AGREEMENT.get(fewest, _LOOSE_AGREEMENT)


def _spread(ascending: Sequence[float]) -> float:
    return max(_NOISE_FLOOR, robust_sd(ascending))


def _lasts(phase: Phase, course: Course) -> bool:
    lines = len(course.cost)
    enough = lines < _FEW_LINES or phase.end - phase.begin >= _MIN_PHASE_LINES
    span = course.last_steps[phase.end - 1] - course.steps[phase.begin] + 1
    return phase.end == lines or (enough and span >= MIN_PHASE_STEPS)
