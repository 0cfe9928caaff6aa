"""The ranks' stories in one sentence and as a table."""

from __future__ import annotations

from typing import Any

from slurm_triage.report.rank_table import rank_table


def view(ranks: list[int], **changes: Any) -> dict[str, Any]:
    nodes = [f"node{rank:03}" for rank in ranks]
    base = {"ranks": ranks, "nodes": nodes, "last_step": 41, "last_time": "2026-11-30T12:30:00+00:00"}
    return {**base, "exit": None, "first_error": None, "last_words": None, **changes}


def summary(*views: dict[str, Any]) -> str:
    table = rank_table({"ranks": list(views)})
    assert table is not None
    return table.summary


def test_the_odd_ones_out_in_one_sentence() -> None:
    many = [rank for rank in range(65) if rank not in {13, 27, 41}]
    told = summary(
        view([41], last_time="2026-11-30T12:03:10+00:00"),
        view([13, 27], first_error="nccl-timeout: the card lost its link"),
        view(many, first_error="coordination-fail: some rank failed"),
    )
    assert told == (
        "62 ranks say coordination-fail: some rank failed; ranks 13,27 (node[013,027]) say nccl-timeout: the card lost "
        "its link; rank 41 (node041) said nothing after 12:03:10Z."
    )


def test_stopped_ranks_reported_nothing_wrong() -> None:
    told = summary(view([0, 1], exit="SIGTERM (stopped)"), view([2], exit="SIGKILL", nodes=[]))
    assert told == "Ranks 0-1 (node[000-001]) reported nothing wrong, last step 41; rank 2 ended with SIGKILL."


def test_what_does_not_fit_is_counted() -> None:
    told = summary(*(view([rank], first_error=f"error {'abcdefghi'[rank]}") for rank in range(9)))
    assert told.endswith("; 5 more groups of ranks.")


def test_errors_that_differ_in_numbers_are_one_story() -> None:
    errors = [f"python-exception: IndexError: index {17 + rank} is out of bounds for /data/{rank}" for rank in range(3)]
    told = summary(*(view([rank], first_error=error) for rank, error in enumerate(errors)), view([3]))
    assert told.startswith("Ranks 0-2 (node[000-002]) say python-exception: IndexError: index 17")


def test_the_cause_is_not_told_again_rank_by_rank() -> None:
    views = [view([0], first_error="oom-gpu: GPU 0 is full"), view([1])]
    document = {"ranks": views, "status": "failed", "primary": {"class": "oom-gpu", "title": "GPU 3 is full"}}
    table = rank_table(document)
    assert table is not None
    assert table.summary == "Rank 0 (node000) says oom-gpu; rank 1 (node001) reported nothing wrong, last step 41."


def test_a_job_that_went_well_needs_no_table() -> None:
    document = {"ranks": [view([0], last_step=59), view([1])], "status": "completed", "primary": None}
    assert rank_table(document) is None


def test_one_story_needs_no_table() -> None:
    assert rank_table({"ranks": [view([0, 1, 2])]}) is None


def test_ranks_with_the_same_error_are_told_of_together() -> None:
    """They differ in their last step, which the table shows and the sentence does not."""
    error = "heartbeat-timeout: the heartbeat of task 3 timed out"
    told = summary(view([1], first_error=error, last_step=40), view([0, 2], first_error=error), view([3]))
    assert told.startswith(f"Ranks 0-2 (node[000-002]) say {error}; rank 3 (node003) reported nothing wrong")


def test_log_text_that_looks_like_a_placeholder_keeps_its_column() -> None:
    table = rank_table({"ranks": [view([0], first_error="none", last_words="unknown"), view([1])]})
    assert table is not None
    assert {"First error", "Last words"} <= set(table.columns)
