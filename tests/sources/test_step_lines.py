"""Step lines of many ranks: however the log is cut into windows, one rank is followed step by step, and every other
rank's last step is known."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.logs import step_lines
from slurm_triage.logs.clock import Clock
from slurm_triage.logs.line import LabelFormat
from slurm_triage.logs.step_lines import FoundStep, StepFinder
from slurm_triage.model.rule import StepDialect

DIALECT = StepDialect(
    "d", "step done: ", r"step done: (?P<step>\d+), (?P<seconds>[\d.]+) s(?:, loss (?P<loss>[\d.]+))?", "x/s"
)
RANKS = 12
LABELS = LabelFormat(2, RANKS)

#: What stands between label and step. One program writes all its lines in one way.
BEFORE = ["", "I1130 02:15:{second:02d}.894270 1404 train.py:12] ", "50%|##{second}"]


def text_of(ranks: Sequence[int | None], before: str) -> tuple[list[bytes], list[tuple[int, int] | None]]:
    """Lines, and the (rank, step) that each shows. Every rank counts its own steps; None is a line without a step."""
    lines: list[bytes] = []
    shown: list[tuple[int, int] | None] = []
    steps = dict.fromkeys(range(RANKS), -1)
    for rank in ranks:
        if rank is None:
            lines.append(b" 3: NCCL INFO step done with 3: ring\n")
            shown.append(None)
            continue
        steps[rank] += 1
        prefix = before.format(second=len(lines) % 60)
        lines.append(f"{rank:>2}: {prefix}step done: {steps[rank]}, 0.5 s, loss 1.{steps[rank]}\n".encode())
        shown.append((rank, steps[rank]))
    return lines, shown


def found_in(lines: Sequence[bytes], cuts: Sequence[int]) -> list[list[FoundStep]]:
    finder = StepFinder((DIALECT,), Clock(1.8e9).read)
    edges = [0, *sorted(cuts), len(lines)]
    windows = [bytearray(b"".join(lines[start:end])) for start, end in pairwise(edges)]
    return [finder.find(data, len(data), frozenset({0}), LABELS) for data in windows]


@settings(max_examples=300, deadline=None)
@given(
    ranks=st.lists(st.one_of(st.integers(0, RANKS - 1), st.none()), max_size=120),
    before=st.sampled_from(BEFORE),
    cuts=st.lists(st.integers(0, 120), max_size=4),
    full=st.integers(1, 40),
    piece=st.sampled_from([16, 100, 1 << 20]),
)
def test_one_rank_whole_and_the_last_step_of_all(
    ranks: list[int | None], before: str, cuts: list[int], full: int, piece: int
) -> None:
    lines, shown = text_of(ranks, before)
    cuts = [min(cut, len(lines)) for cut in cuts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_lines, "FULL_PARSE_LINES", full)
        patch.setattr(step_lines, "_LAST_STEPS_BYTES", piece)
        found = found_in(lines, cuts)
    first_read = [place for place in shown if place is not None][:full]
    complete = [(step.rank, step.step) for window in found for step in window if step.full]
    assert complete[: len(first_read)] == first_read
    if len(first_read) == full:
        reference = min(rank for rank, _ in first_read)
        assert [pair for pair in complete if pair[0] == reference] == [
            place for place in shown if place is not None and place[0] == reference
        ]
    edges = [0, *sorted(cuts), len(lines)]
    for window, (start, end) in zip(found, pairwise(edges), strict=True):
        last = {place[0]: place[1] for place in shown[start:end] if place is not None}
        assert {rank: max(step.step for step in window if step.rank == rank) for rank in last} == last
        sampled = [step.rank for step in window if not step.full]
        assert len(sampled) == len(set(sampled))
        assert [step.offset for step in window] == sorted(step.offset for step in window)


def test_values_are_those_of_the_line() -> None:
    (step,) = found_in([b" 7: step done: 3, 0.5 s\n"], [])[0]
    assert (step.rank, step.step, step.values[1], step.offset, step.full) == (7, 3, 0.5, 4, True)


def test_a_large_log_costs_no_more_than_its_reference_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """After FULL_PARSE_LINES the lines of other ranks are not taken apart, even within one window."""
    taken = 0
    step = StepFinder._step

    def counted(*args: object, **options: object) -> FoundStep | None:
        nonlocal taken
        taken += 1
        return step(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(StepFinder, "_step", counted)
    monkeypatch.setattr(step_lines, "FULL_PARSE_LINES", 100)
    lines, _ = text_of([rank for _ in range(1000) for rank in range(RANKS)], "")
    found_in(lines, [])
    assert taken <= 100 + 1000 + RANKS
