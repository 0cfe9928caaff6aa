"""Coarse and mixed clocks in healthy logs are neither a slowdown nor a hang."""

from __future__ import annotations

import random
from itertools import accumulate, pairwise

from tests.conftest import Triage
from tests.healthy.assemble import step_times


def steps(seconds: list[int], first: int = 3600) -> str:
    """Step lines with a time of day only, whole seconds, as a loop prints them."""
    lines, now = [], first
    for number, taken in enumerate(seconds):
        now += taken
        lines.append(
            f"{now // 3600:02}:{now % 3600 // 60:02}:{now % 60:02} rank 000: step {number} loss {3 - number / 1000:.3f}"
        )
    return "\n".join(lines) + "\n"


def whole_seconds(seconds: list[float]) -> list[int]:
    """What the differences of clocks without fractions make of step times."""
    clocks = [int(moment) for moment in accumulate(seconds, initial=0.0)]
    return [later - earlier for earlier, later in pairwise(clocks)]


def test_whole_seconds_are_no_slowdown(triage_text: Triage) -> None:
    """From 9 to 10 s is just the seed's 10 %: steps of 9.5 s with jitter jump between the two."""
    rng = random.Random(81)
    jitter = whole_seconds(step_times(rng, rng.choice((120, 300))))
    assert set(jitter[10:]) >= {9, 10}
    assert not triage_text(steps(jitter)).throughput.degraded
    assert not triage_text(steps([9] * 120 + [10] * 120)).throughput.degraded


def test_a_real_slowdown_is_still_seen(triage_text: Triage) -> None:
    report = triage_text(steps([9] * 120 + [11] * 120))
    assert report.throughput.degraded
    assert report.throughput.pattern == "constant"


def test_a_dated_line_after_undated_steps_is_no_hang(triage_text: Triage) -> None:
    """The steps have no date and the last line has one: their difference is meaningless, not 56 years of silence."""
    report = triage_text(steps([9] * 60) + "2026-11-30 02:00:00,123 INFO writer: 3 files closed\n")
    assert report.diagnosis.primary is None
    assert report.diagnosis.status == "unknown"
