"""Thousands of equal failures at once: what one report or one look costs does not grow with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.ledger import history, index
from slurm_triage.ledger.append import open_writer
from slurm_triage.ledger.history import look_back
from slurm_triage.ledger.memory import Memory
from slurm_triage.ledger.nodes import Census
from slurm_triage.ledger.record import LedgerRecord
from slurm_triage.ledger.recurrence import MOST_TRIALS
from slurm_triage.model.history import Shared
from tests.ledger.samples import DAY_S, T0, record
from tests.ledger.test_recurrence import good, healthy


def storm(count: int, **changes: object) -> list[LedgerRecord]:
    """Jobs of 50 users that end one after the other within half an hour, all for the same reason."""
    rows = []
    for i in range(count):
        end = T0 + i * 1800.0 / count
        start = end - 3600.0
        one = record(
            i,
            **{
                "attempt": f"s{i}",
                "start": start,
                "end": end,
                "user": f"u{i % 50}",
                "name": f"n{i % 50}",
                "nodes": f"chi2803,m{i % 97}",
                **changes,
            },
        )
        rows.append(one)
    return rows


def write(root: Path, rows: Sequence[LedgerRecord]) -> Path:
    with open_writer(root, "alpha", segment_bytes=1 << 20) as writer:
        for at in range(0, len(rows), 500):
            writer.append(rows[at : at + 500])
    return root


def growth(small: Callable[[], object], large: Callable[[], object], rounds: int = 5) -> float:
    """How many times as long ``large`` takes; the best of some rounds side by side."""
    best = [float("inf"), float("inf")]
    for _ in range(rounds):
        for number, run in enumerate((small, large)):
            began = time.perf_counter()
            run()
            best[number] = min(best[number], time.perf_counter() - began)
    return best[1] / best[0]


def report_all(rows: Sequence[LedgerRecord]) -> None:
    memory = Memory(clock=lambda: T0 + 1800.0)
    for row in rows:
        memory.history(row)
        memory.add([row])


def test_reports_of_a_storm_take_time_in_proportion_to_their_number() -> None:
    rows = storm(4000, user="alice", name="run")
    report_all(rows[:100])
    # Eight times as many: about 8 when each costs the same, 64 when each looks at all that came before.
    assert growth(lambda: report_all(rows[:500]), lambda: report_all(rows), rounds=2) < 16


def test_the_statistics_of_a_storm_do_not_grow_with_its_square() -> None:
    """A thousand deaths, and sixteen times as many; one by one their chances would take 256 times as long."""

    def census(count: int) -> Callable[[], object]:
        rows = storm(count)
        found = Census()
        for i, row in enumerate(rows):
            found.add(
                replace(
                    row,
                    name=f"n{i}",
                    nodes=f"c[{i % 97}-{i % 97 + 9}]",
                    node_evidence=((f"c{i % 97 + 3}", "died-first"),),
                )
            )
        return lambda: found.stats(T0)

    assert growth(census(1000), census(16_000), rounds=2) < 80


def test_a_report_looks_at_no_more_than_the_last_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    recurrence = history.recurrence

    def counted(one: LedgerRecord, same: Sequence[LedgerRecord]) -> object:
        looked.append(len(same))
        return recurrence(one, same)

    monkeypatch.setattr(history, "recurrence", counted)
    report_all(storm(3000, user="alice"))
    assert max(looked) <= 2 * MOST_TRIALS


def test_one_look_at_a_storm_in_the_ledger_is_bounded(tmp_path: Path) -> None:
    small, large = write(tmp_path / "s", storm(1000)), write(tmp_path / "l", storm(16_000))
    index.refresh(small / "alpha")
    index.refresh(large / "alpha")
    few, many = storm(1000)[-1], storm(16_000)[-1]
    ratio = growth(lambda: look_back(few, [small]), lambda: look_back(many, [large]))
    # Sixteen times as many hits.
    assert ratio < 6


@pytest.mark.parametrize("indexed", [True, False])
def test_the_many_times_are_counted_up_to_a_bound_that_is_told(tmp_path: Path, indexed: bool) -> None:
    rows = storm(5000)
    root = write(tmp_path, [*healthy(60), *rows])
    for path in () if indexed else (root / "alpha").glob("*.idx"):
        path.unlink()
    found = look_back(rows[-1], [root])
    assert found.recurrence is not None
    assert (found.recurrence.nth, found.recurrence.at_least) == (MOST_TRIALS + 1, True)
    assert found.recurrence.sentence.startswith("Same failure as job 11949, at least the 51st time in ")
    assert found.outbreak is not None
    assert len(found.outbreak.jobs) >= 1000
    assert "hit at least 1" in found.outbreak.sentence
    assert [s.value for s in found.outbreak.shared if s.what == "node"] == ["chi2803"]


def test_a_large_array_does_not_hide_what_was_before_it(tmp_path: Path) -> None:
    before = record(1, end=T0 - DAY_S, user="alice", name="sweep")
    tasks = storm(6000, array_job_id="7100", user="alice", name="sweep")
    tasks = [replace(task, array_task_id=str(i)) for i, task in enumerate(tasks)]
    root = write(tmp_path, [before, *tasks])
    memory = Memory(clock=lambda: T0 + 1800.0)
    memory.add([before, *tasks])
    for found in (look_back(tasks[-1], [root]), memory.history(tasks[-1])):
        assert found.recurrence is not None
        assert (found.recurrence.nth, found.recurrence.previous) == (2, ("7001",))
        assert found.outbreak is None


def test_others_failures_do_not_hide_ones_own(tmp_path: Path) -> None:
    own = record(9000, user="me", name="mine", end=T0 - DAY_S)
    rows = storm(6000)
    now = record(9001, user="me", name="mine", end=T0 + 1800.0)
    root = write(tmp_path, [own, *rows, now])
    memory = Memory(clock=lambda: T0 + 1800.0)
    memory.add([own, *rows])
    for found in (look_back(now, [root]), memory.history(now)):
        assert found.recurrence is not None
        assert found.recurrence.previous == (own.job_id,)


def test_a_storm_is_still_compared_with_what_was_before_it() -> None:
    """Every job is in the same partition and of the same account: no news."""
    clock = [T0 + 1700.0]
    memory = Memory(clock=lambda: clock[0])
    memory.add(healthy(60))
    rows = storm(5000)
    clock[0] += 100.0
    memory.add(rows)
    found = memory.history(rows[-1]).outbreak
    assert found is not None
    assert found.at_least
    assert found.shared == (Shared("node", "chi2803", len(found.jobs)),)


def test_only_some_provisional_verdicts_are_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While accounting is away all verdicts are provisional; each look-up of another one takes milliseconds."""
    rows = storm(400, provisional=True, user="alice")
    root = write(tmp_path, rows)
    asked = []
    by_job = history.by_job
    monkeypatch.setattr(history, "by_job", lambda *args: asked.append(args) or by_job(*args))
    found = look_back(rows[-1], [root])
    assert found.recurrence is not None
    assert len(asked) == 50


def test_the_last_good_run_is_found_among_many(tmp_path: Path) -> None:
    runs = [good(i, -1 + i * 1e-4, name="nightly", image="img:1") for i in range(5000)]
    job = record(9000, name="nightly", image="img:2", start=T0, end=T0 + 60, fingerprint=None)
    found = look_back(job, [write(tmp_path, runs)])
    assert found.last_good is not None
    assert found.last_good.job_id == runs[-1].job_id
    assert [d.what for d in found.last_good.differences] == ["image"]
