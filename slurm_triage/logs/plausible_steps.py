"""Step numbers that cannot be of the run they stand in: text that a program repeats, or that pretends to be progress.

Training counts up. A number far ahead that the next lines do not go on from, or that nothing follows and no clock bears
out, is no completed step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice, pairwise

#: A series shows its stride after this many steps.
_MIN_STEPS = 6
#: Lines are lost (interleaved output, buffers of Ray), but not so many that nothing follows.
_MAX_STRIDES = 10
#: What shows that the steps in between were made: the clock advanced by at least this share of their time.
_TIME_SHARE = 0.5
_RECENT = 32


def implausible(steps: Sequence[int], seconds: Sequence[float], times: Sequence[float]) -> frozenset[int]:
    """Indices of such numbers in a series in log order; absent seconds and times are nan."""
    if all(after - before <= _MAX_STRIDES for before, after in pairwise(steps)):
        return frozenset()
    wrong: set[int] = set()
    strides: deque[int] = deque(maxlen=_RECENT)
    previous = 0
    for index in range(1, len(steps)):
        ahead = steps[index] - steps[previous]
        if (
            len(strides) >= _MIN_STEPS - 1
            and ahead > _MAX_STRIDES * strides[-1]
            and ahead > _MAX_STRIDES * max(strides)
        ):
            following = next((s for s in islice(steps, index + 1, None) if s != steps[index]), -1)
            if following < steps[index] and not _took_time(previous, index, steps, seconds, times):
                wrong.add(index)
                continue
        if ahead > 0:
            strides.append(ahead)
        previous = index
    return frozenset(wrong)


def _took_time(before: int, index: int, steps: Sequence[int], seconds: Sequence[float], times: Sequence[float]) -> bool:
    """Whether the clock advanced enough for the steps between two lines. False where a clock or the step time is not
    known: comparisons with nan are."""
    needed = (steps[index] - steps[before]) * seconds[before]
    return times[index] - times[before] >= _TIME_SHARE * needed
