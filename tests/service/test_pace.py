"""How many questions accounting is asked, under a clock of our own: bounded by time, and few in a storm."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from slurm_triage.model.job import NO_JOB, AccountingSource, Job
from slurm_triage.service.lookup import Lookup
from slurm_triage.service.pending import RETRY, Pending

SETTLE_S, POLL_S = 1.0, 0.5


class CountingAccounting:
    name: AccountingSource = "sacct"

    def __init__(self) -> None:
        self.questions = 0

    def version(self) -> str:
        return "22.05.8"

    def jobs(self, ids: Sequence[str], *, since: float | None = None, until: float | None = None) -> dict[str, Job]:
        del since, until
        self.questions += 1
        return dict.fromkeys(ids, NO_JOB)

    def recent(self, since: float, until: float) -> list[Job]:
        del since, until
        return []

    def close(self) -> None:
        """Nothing is open."""


def play(count: int, per_s: float, *, again: int = 0, burst_s: float = 0.0) -> tuple[int, float, float]:
    """``count`` jobs end at a steady pace, or all that end in ``burst_s`` at once; of ten, ``again`` have no complete
    record when first asked about. Returns questions, duration, and the longest time that a job waited."""
    now = begin = 3600.0
    accounting = CountingAccounting()
    lookup = Lookup(accounting, lambda: now, lambda: 1.8e9 + now)
    waiting: dict[str, Pending] = {}
    ended, longest = 0, 0.0
    while ended < count or waiting:
        played = now if not burst_s else begin + (now - begin) // burst_s * burst_s
        while ended < count and begin + ended / per_s <= played:
            waiting[str(ended)] = Pending(str(ended), now, now + SETTLE_S)
            ended += 1
        due = lookup.due(list(waiting.values()))
        if due:
            lookup.ask(due)
        for one in due:
            if one.tries == 0 and int(one.job_id) % 10 < again:
                one.tries, one.next_try = 1, now + RETRY.delay_s(0)
                continue
            longest = max(longest, now - one.first)
            del waiting[one.job_id]
        now += POLL_S
    return accounting.questions, now - begin, longest


@pytest.mark.parametrize("again", [0, 3])
@pytest.mark.parametrize("per_s", [8, 15, 30, 40, 100, 1000, 20_000])
def test_ten_thousand_jobs_cost_few_questions_however_long_they_take(per_s: int, again: int) -> None:
    assert play(10_000, per_s, again=again)[0] <= 25


@pytest.mark.parametrize("burst_s", [5.0, 6.0, 8.0, 12.0, 25.0])
@pytest.mark.parametrize("per_s", [8, 12, 20, 40])
def test_a_storm_that_halts_again_and_again_is_one_storm(per_s: int, burst_s: float) -> None:
    """slurmctld on a machine that has too much to do."""
    assert play(10_000, per_s, burst_s=burst_s)[0] <= 25


@pytest.mark.parametrize("per_s", [34, 40, 100, 1000])
def test_a_second_question_for_each_is_still_few(per_s: int) -> None:
    assert 2 * play(10_000, per_s)[0] <= 25


@pytest.mark.parametrize("again", [0, 3])
@pytest.mark.parametrize("per_s", [0.05, 0.3, 0.6, 1, 3, 5, 6])
def test_questions_are_bounded_by_time(per_s: float, again: int) -> None:
    questions, duration_s, _ = play(2000, per_s, again=again)
    assert questions <= 36 * (1 + duration_s / 60)


@pytest.mark.parametrize("per_s", [0.05, 0.3])
def test_a_single_job_does_not_wait(per_s: float) -> None:
    assert play(200, per_s)[2] <= SETTLE_S + 2.0


def test_the_end_of_a_storm_is_noticed() -> None:
    assert play(1000, 1000)[2] <= 10.0
    assert play(10_000, 20)[2] <= 62.0
