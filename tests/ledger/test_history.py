"""What the ledger says about one job: from the index, without it, and from the worker's memory, the same."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.ledger import index
from slurm_triage.ledger.append import open_writer
from slurm_triage.ledger.history import look_back, nodes_to_avoid
from slurm_triage.ledger.memory import Memory
from slurm_triage.ledger.nodes import Census, node_stats
from slurm_triage.ledger.query import Filter, select
from slurm_triage.ledger.record import LedgerRecord
from slurm_triage.model.history import NO_HISTORY, History, Shared
from tests.ledger.samples import DAY_S, T0, record
from tests.ledger.test_recurrence import at, good, healthy, hit

NOW = T0 + DAY_S
JOB = at(3, 0.51, nodes="h[2-3],k9", image="img:2", model="llama", user="u1")


def story() -> list[LedgerRecord]:
    before = good(1, -3, nodes="h[1-2],k9", image="img:1")
    other_name = good(9, -1, name="other", model="llama", user="u1")
    again = at(2, -1, nodes="h[1-2],k9", node_evidence=(("k9", "fault"),))
    foreign = at(4, 0.5, cluster="beta")
    degraded = good(8, -0.5, degraded=True)
    return [before, other_name, again, foreign, degraded, *hit(6), JOB, *healthy(60)]


def write(root: Path, rows: list[LedgerRecord], segment_bytes: int = 1 << 24) -> None:
    for cluster in {r.cluster or "-" for r in rows}:
        with open_writer(root, cluster, segment_bytes=segment_bytes) as writer:
            for row in rows:
                if row.cluster == cluster:
                    writer.append([row])


def switch_of(node: str) -> str | None:
    return "leaf7" if node == "chi2803" else "leaf1"


def from_ledger(root: Path) -> History:
    return look_back(JOB, [root], nodes_to_avoid([root], "alpha", NOW), lambda: switch_of)


def open_segment(root: Path) -> History:
    write(root, story())
    return from_ledger(root)


def indexed(root: Path) -> History:
    write(root, story(), 3000)
    index.refresh(root / "alpha")
    assert len(list((root / "alpha").glob("*.idx"))) > 10
    return from_ledger(root)


def damaged_indexes(root: Path) -> History:
    write(root, story(), 3000)
    for number, path in enumerate(sorted((root / "alpha").glob("*.idx"))):
        path.unlink() if number % 2 else path.write_bytes(path.read_bytes()[:-3])
    return from_ledger(root)


def in_memory(root: Path) -> History:
    del root
    memory = Memory(clock=lambda: T0 + 0.525 * DAY_S, switches=lambda: switch_of)
    memory.add([r for r in story() if r.cluster == "alpha" and r.key != JOB.key])
    return memory.history(JOB)


@pytest.mark.parametrize("way", [open_segment, indexed, damaged_indexes, in_memory])
def test_all_ways_of_looking_see_the_same(tmp_path: Path, way: Callable[[Path], History]) -> None:
    found = way(tmp_path)
    assert found.recurrence is not None
    assert found.recurrence.nth == 3
    assert found.recurrence.previous[-1] == "7002"
    assert found.recurrence.span_s == pytest.approx(1.51 * DAY_S)
    assert found.outbreak is not None
    # In memory it is known as it was before this job ended.
    assert len(found.outbreak.jobs) == (6 if way is in_memory else 7)
    assert Shared("node", "chi2803", 6) in found.outbreak.shared
    assert Shared("switch", "leaf7", 6) in found.outbreak.shared
    assert found.last_good is not None
    assert found.last_good.job_id == "7001"
    assert [a.node for a in found.advice] == ["k9"]
    text = " ".join(found.sentences)
    assert "Same failure as job " in text
    assert (
        "Changed since job 7001, which worked: nodes without h1, with h3; image img:1 -> img:2; user alice -> u1."
        in text
    )
    assert "Keep away from k9" in text


def test_the_model_leads_to_the_last_good_run_of_another_name(tmp_path: Path) -> None:
    write(tmp_path, [r for r in story() if r.job_id != "7001"])
    found = from_ledger(tmp_path)
    assert found.last_good is not None
    assert found.last_good.job_id == "7009"


def test_a_first_failure_has_no_history(tmp_path: Path) -> None:
    write(tmp_path, [record(1)])
    assert look_back(record(1), [tmp_path]) == NO_HISTORY
    assert NO_HISTORY.sentences == ()


def test_a_healthy_job_has_no_history_and_a_slow_one_is_compared(tmp_path: Path) -> None:
    before = good(1, 0, throughput=1000.0, throughput_unit="tokens/s/device")
    job = good(2, 1, throughput=700.0, throughput_unit="tokens/s/device")
    write(tmp_path, [before, job])
    assert look_back(job, [tmp_path]) == NO_HISTORY
    found = look_back(replace(job, degraded=True), [tmp_path])
    assert found.sentences == (
        "Changed since job 7001, which worked: throughput 1000 tokens/s/device -> 700 tokens/s/device (-30%).",
    )


def test_a_provisional_verdict_that_was_replaced_is_not_counted(tmp_path: Path) -> None:
    early = at(1, 0, provisional=True)
    final = replace(early, revision=early.revision + 1, provisional=False, fingerprint="ffffffffffffffff", cls="hang")
    standing = at(2, 0.1, provisional=True)
    write(tmp_path, [early, final, standing, at(3, 0.5)])
    found = look_back(at(3, 0.5), [tmp_path])
    assert found.recurrence is not None
    assert found.recurrence.previous == ("7002",)


def test_sums_by_node_can_be_merged() -> None:
    rng = random.Random(4)
    kinds = ((), (("chi2803", "fault"),), (("chi2802", "died-first"),))
    rows = [
        record(i, name=f"r{i % 5}", status=rng.choice(("failed", "completed")), node_evidence=rng.choice(kinds))
        for i in range(60)
    ]
    first, second = Census(), Census()
    for row in rows:
        rng.choice((first, second)).add(row)
    first.merge(second)
    for merged, whole in zip(first.stats(T0), node_stats(rows, T0), strict=True):
        assert merged.p_value == pytest.approx(whole.p_value)
        assert replace(merged, p_value=whole.p_value, q_value=whole.q_value) == whole


def test_the_worker_remembers_what_an_earlier_one_wrote(tmp_path: Path) -> None:
    recent = [replace(r, end=(r.end or 0.0), generated_at=r.end) for r in story()]
    write(tmp_path, recent)
    import time

    shift = time.time() - NOW
    moved = [
        replace(r, start=(r.start or 0.0) + shift, end=(r.end or 0.0) + shift, attempt=f"x{r.attempt}") for r in recent
    ]
    write(tmp_path, moved)
    memory = Memory()
    memory.load(select([tmp_path], Filter(), ("alpha",)))
    job = next(r for r in moved if r.job_id == JOB.job_id)
    found = memory.history(job)
    assert found.recurrence is not None
    assert found.recurrence.nth == 3
    assert [a.node for a in found.advice] == ["k9"]


def test_an_outbreak_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = [T0 + 0.52 * DAY_S]
    memory = Memory(clock=lambda: clock[0])
    memory.add(healthy(60))
    with caplog.at_level(logging.WARNING, "slurm-triage"):
        for row in hit(12):
            clock[0] += 11
            memory.add([row])
    told = [r.getMessage() for r in caplog.records]
    assert len(told) == 1
    assert "gpu-hw-fault hit 5 jobs of 5 users" in told[0]
    assert "node chi2803 (5)" in told[0]


def test_the_memory_is_bounded() -> None:
    memory = Memory(clock=lambda: NOW)
    memory.add(record(i, name=f"n{i}", status="completed" if i % 2 else "failed") for i in range(30_000))
    kept = {id(r): r for trials in memory._failures.values() for r in trials.values()}
    assert len(kept) <= 20_000
    assert memory._failure_count == sum(map(len, memory._failures.values())) <= 20_000
    assert len(memory._recent_failures) + len(memory._recent_others) <= 4_000
    assert len(memory._good) <= 4_000


def test_old_stretches_of_node_statistics_are_dropped() -> None:
    clock = [T0 + DAY_S]
    memory = Memory(clock=lambda: clock[0])
    for month in range(12):
        clock[0] = T0 + month * 30 * DAY_S
        end = clock[0] - 3600
        memory.add([record(month, start=end - 3600, end=end, node_evidence=(("chi2803", "fault"),))])
    assert len(memory._nodes) <= 5
