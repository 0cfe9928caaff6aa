"""Sizes, order, a rank behind: told apart by comparing what all ranks of a job say about one collective."""

from __future__ import annotations

import pytest

from slurm_triage.diagnosis.collectives import sub_cause
from slurm_triage.model.diagnosis import Primary
from slurm_triage.model.report import Report
from tests.conftest import Triage
from tests.diagnosis.watchdog_texts import steps, timed_out, told

RANKS = range(8)
OTHERS = [rank for rank in RANKS if rank != 5]


def primary(report: Report) -> Primary:
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.cls == "nccl-timeout"
    return report.diagnosis.primary


def kind(report: Report) -> str | None:
    return next(s for s in map(sub_cause, report.diagnosis.findings) if s is not None)


def advice(report: Report) -> str:
    return " ".join(report.diagnosis.next_steps)


def test_different_sizes_are_the_programs_fault(triage_text: Triage) -> None:
    text = steps(40, RANKS) + "".join(timed_out(r, 4217, numel=524_288 if r == 5 else 1_048_576) for r in RANKS)
    report = triage_text(text)
    cause = primary(report)
    assert kind(report) == "sizes"
    assert "different sizes: 524288 elements on rank 5, 1048576 elements on ranks 0-4,6-7" in cause.title
    assert (cause.rank, cause.domain, cause.retry) == (5, "user", "after-fix")
    assert report.diagnosis.resubmit.action == "after-fix"
    assert "not to blame" in report.diagnosis.narrative
    assert "drop_last" in advice(report)
    assert "ethtool" not in advice(report)
    assert report.diagnosis.suspects == ()


def test_operations_that_may_differ_in_size_prove_nothing(triage_text: Triage) -> None:
    text = "".join(timed_out(r, 4217, "ALLTOALL_BASE", numel=1000 + r) for r in RANKS)
    assert kind(triage_text(text)) == "waiting"


def test_different_operations_at_the_same_place(triage_text: Triage) -> None:
    text = steps(40, RANKS) + "".join(timed_out(r, 4217, "BROADCAST" if r == 0 else "ALLREDUCE") for r in RANKS)
    report = triage_text(text)
    assert kind(report) == "operations"
    assert "BROADCAST on rank 0, ALLREDUCE on ranks 1-7" in primary(report).title
    assert (primary(report).rank, primary(report).domain) == (0, "user")
    assert "if rank == 0" in advice(report)


def test_ranks_that_wait_in_other_numbers_are_out_of_step(triage_text: Triage) -> None:
    text = steps(40, RANKS) + "".join(timed_out(r, 4219 if r == 3 else 4217) for r in RANKS)
    report = triage_text(text)
    assert kind(report) == "order"
    assert "rank 3 in collective 4219 (ALLREDUCE), ranks 0-2,4-7 in collective 4217" in primary(report).title
    assert (primary(report).rank, primary(report).retry) == (3, "after-fix")


def test_a_rank_that_had_not_come_so_far_fell_behind(triage_text: Triage) -> None:
    text = steps(40, RANKS) + "".join(timed_out(r, 4217) for r in OTHERS) + told(5, 4216)
    report = triage_text(text)
    cause = primary(report)
    assert kind(report) == "behind"
    assert "Rank 5 stopped at collective 4216; ranks 0-4,6-7 waited 10 min in collective 4217" in cause.title
    assert (cause.rank, cause.domain) == (5, "unknown")
    assert "what rank 5 printed last" in advice(report)
    assert report.diagnosis.resubmit.exclude == ()


def test_a_rank_without_a_word_never_joined(triage_text: Triage) -> None:
    report = triage_text(steps(40, RANKS) + "".join(timed_out(r, 4217, group=None) for r in OTHERS))
    assert kind(report) == "missing"
    assert "rank 5 never joined" in primary(report).title
    assert primary(report).rank == 5
    assert "hung or dead" in report.diagnosis.narrative


def test_regular_holes_are_other_groups(triage_text: Triage) -> None:
    """Data-parallel groups of a job with tensor parallelism: every second rank."""
    assert kind(triage_text("".join(timed_out(r, 4217, group=None) for r in RANKS if r % 2 == 0))) == "waiting"


def test_most_ranks_never_started_what_one_waits_for(triage_text: Triage) -> None:
    report = triage_text(timed_out(0, 11, numel=1, enqueued=11) + "".join(told(r, 10) for r in RANKS if r))
    assert kind(report) == "order"
    assert "Rank 0 waited 10 min in collective 11 (ALLREDUCE), which ranks 1-7 never started" in primary(report).title
    assert primary(report).rank == 0


def test_all_ranks_in_one_collective_blame_nobody(triage_text: Triage) -> None:
    report = triage_text(steps(40, RANKS) + "".join(timed_out(r, 4217) for r in RANKS))
    assert kind(report) == "waiting"
    assert (primary(report).rank, primary(report).ranks) == (None, ())
    assert "ranks 0-7 waited in collective 4217" in primary(report).title
    assert "ethtool" in advice(report)


@pytest.mark.parametrize("per_node", [4, None])
def test_ranks_of_one_launcher_per_node(triage_text: Triage, per_node: int | None) -> None:
    """Under torchrun the label is the node's: PyTorch's own number is the rank."""
    text = steps(40, RANKS, per_node)
    text += "".join(timed_out(r, 4217, numel=7 if r == 5 else 8, per_node=per_node) for r in RANKS)
    report = triage_text(text)
    assert kind(report) == "sizes"
    assert "7 elements on rank 5" in primary(report).title
    assert primary(report).rank == 5


def test_a_silent_rank_of_one_launcher_per_node(triage_text: Triage) -> None:
    report = triage_text("".join(timed_out(r, 4217, per_node=4) for r in OTHERS))
    assert "Ranks 0-4,6-7 waited 10 min in collective 4217 (ALLREDUCE); rank 5 never joined" in primary(report).title
    assert primary(report).rank == 5


@pytest.mark.parametrize("groups", [("PG 1", "PG 1"), ("PG ID 1 PG GUID 11", "PG ID 1 PG GUID 12"), (None, None)])
def test_ranks_of_different_groups_are_not_compared(triage_text: Triage, groups: tuple[str | None, str | None]) -> None:
    """Two tensor-parallel groups wait in calls of the same number with other sizes; old versions number them alike."""
    text = "".join(
        timed_out(r, 88, numel=512 if r < 4 else 4096, group=groups[r // 4], group_rank=r % 4) for r in RANKS
    )
    assert kind(triage_text(text)) == "waiting"


def test_the_state_of_another_group_says_nothing(triage_text: Triage) -> None:
    """Told to dump, a rank reports the group of all ranks; the time-out was in another one."""
    text = "".join(timed_out(r, 4217, group="PG ID 2 PG GUID 7") for r in RANKS) + "".join(told(r, 12) for r in RANKS)
    assert kind(triage_text(text)) == "waiting"


def test_old_versions_print_no_number_of_the_rank_in_the_job(triage_text: Triage) -> None:
    text = "".join(
        timed_out(r, 96_120, numel=2 if r == 6 else 1_000, group=None, per_node=None, prefixed=False) for r in RANKS
    )
    report = triage_text(text)
    assert "2 elements on rank 6" in primary(report).title
    assert "does not say that these ranks belong to one process group" in report.diagnosis.narrative


def test_numbers_from_memory_never_set_are_ignored(triage_text: Triage) -> None:
    text = "".join(timed_out(r, 1, group="PG 0", enqueued=1) for r in OTHERS)
    text += told(5, 0, group="PG 0").replace("Last enqueued NCCL work: 0", "Last enqueued NCCL work: 76280750235782912")
    assert kind(triage_text(text)) == "waiting"
