"""What a program prints must not pass for progress, settings or an end."""

from __future__ import annotations

import pytest

from slurm_triage.logs.plausible_steps import implausible
from tests.conftest import Triage
from tests.pitfalls.logs import TRAIN_BEGIN, header, step, steps, summary

NAN = float("nan")
START = header(2, "steps=400") + TRAIN_BEGIN + "".join(f"{r}: Config param steps: 400\n" for r in (0, 1))
DIED = "1: NODE_EXIT host=chi2802 exit=1\n== Training FAILED (exit=1, 90s) ==\n" + summary(
    1, "Training FAILED (exit=1)"
)


def gone(times: int) -> list[float]:
    return [NAN] * times


@pytest.mark.parametrize("end", ["", steps(range(30, 33))])
def test_a_step_far_ahead_is_no_progress(triage_text: Triage, end: str) -> None:
    """A rank prints the line of another log, the last step of all; training then fails, or goes on where it was."""
    report = triage_text(START + steps(range(30)) + step(399, 3.0, 1) + end + DIED)
    assert report.progress.last_step == (32 if end else 29)
    assert report.diagnosis.status == "failed"
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.cls != "soft-success"


def test_settings_come_before_the_first_step(triage_text: Triage) -> None:
    report = triage_text(START + steps(range(30)) + "0: Config param steps: 30\n" + DIED)
    assert report.progress.total_steps == 400
    assert report.diagnosis.status == "failed"


def test_lines_that_were_lost_are_no_forgery() -> None:
    """Output of Ray or of a cut log: the series goes on behind the gap."""
    numbers = [*range(30), *range(90, 95)]
    assert implausible(numbers, [3.0] * len(numbers), gone(len(numbers))) == frozenset()


def test_a_gap_that_took_its_time_is_no_forgery() -> None:
    numbers = [*range(10), 110]
    times = [*(3.0 * n for n in range(10)), 330.0]
    assert implausible(numbers, [3.0] * 11, times) == frozenset()
    assert implausible(numbers, [3.0] * 11, [*times[:-1], 28.0]) == {10}


@pytest.mark.parametrize(
    "numbers",
    [
        [0, 50, 100, 150, 200, 250, 300, 399],
        [0, 1, 2, 3, 4, 12],
        [*range(0, 80, 10), 1, 2, 3],
        [0, 0, 1, 1, 2, 2, 3, 3],
    ],
)
def test_ordinary_series_stay_as_they_are(numbers: list[int]) -> None:
    assert implausible(numbers, [3.0] * len(numbers), gone(len(numbers))) == frozenset()
