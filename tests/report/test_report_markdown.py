"""``TRIAGE.md`` follows the seed's output format."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from slurm_triage.model.diagnosis import RankView
from slurm_triage.model.progress import Progress
from slurm_triage.report.markdown import to_markdown
from slurm_triage.report.rank_table import MAX_ROWS
from slurm_triage.report.wording import number, some_ranks

from .sample_base import diagnosis, report
from .sample_reports import SAMPLES, failed, hang, healthy, prolog_kill, running, unknown

HEADINGS = [
    "### What happened",
    "### Evidence",
    "### Training progress projection",
    "### Additional findings",
    "### Recommended next steps",
]
METRICS = [
    "Start",
    "Steps completed (this run)",
    "Overall progress",
    "Steady-state step time",
    "Expected step by now",
    "Last periodic ckpt this run",
    "Progress lost",
    "Estimated time remaining",
]


def metrics(text: str) -> dict[str, str]:
    table = text.split("### Training progress projection\n", 1)[1].split("\n\n", 1)[0]
    rows = [re.fullmatch(r"\| (.+?) \| (.+) \|", line) for line in table.splitlines()[2:]]
    return {row[1]: row[2] for row in rows if row}


@pytest.mark.parametrize("name", SAMPLES)
def test_headings_are_the_seed_s_in_its_order(name: str) -> None:
    sample = SAMPLES[name]()
    lines = to_markdown(sample).splitlines()
    headings = [line for line in lines if line.startswith("#")]
    assert headings[0].startswith("## Job triage: ")
    expected = list(HEADINGS)
    if sample.throughput.early is not None:
        expected.insert(3, "### TGS analysis")
    if sample.ray:
        expected.insert(-1, "### Live dashboards (RAY=1 jobs only)")
    assert headings[1:] == expected
    start = lines.index(headings[0])
    assert lines[start + 2] == f"**Status:** {sample.diagnosis.status}"
    assert lines[start + 3].startswith("**Primary failure:** ")
    assert lines[start + 4].startswith("**Stage:** ")


@pytest.mark.parametrize("name", SAMPLES)
def test_the_known_rows_of_the_projection_are_there_in_the_seed_s_order(name: str) -> None:
    rows = metrics(to_markdown(SAMPLES[name]()))
    assert [row for row in METRICS if row in rows] == [row for row in rows if row in METRICS]
    assert "unknown" not in rows.values()
    if name in {"failed", "hang", "running", "requeued", "healthy", "soft_success"}:
        assert {"Start", "Steps completed (this run)", "Steady-state step time", "Progress lost"} <= rows.keys()


def test_a_projection_of_nothing_is_a_sentence() -> None:
    """Eight rows of "unknown" push the next steps off the page."""
    text = to_markdown(unknown())
    assert "### Training progress projection\nThe log shows no training step.\n\n### Additional findings\n" in text


@pytest.mark.parametrize("name", SAMPLES)
def test_unknown_values_are_called_unknown(name: str) -> None:
    text = to_markdown(SAMPLES[name]())
    assert not re.search(r"\b(None|nan|null)\b", text.replace("Additional findings\nNone.", ""))


@pytest.mark.parametrize("name", SAMPLES)
def test_no_heading_is_empty_and_the_evidence_begins_on_the_first_page(name: str) -> None:
    lines = to_markdown(SAMPLES[name]()).splitlines()
    for index, line in enumerate(lines):
        if line.startswith("#"):
            body = next((text for text in lines[index + 1 :] if text), "#")
            assert not body.startswith("#"), line
    assert lines.index("### Evidence") <= 60


def test_the_first_line_tells_everything_in_short() -> None:
    line = to_markdown(failed()).splitlines()[0]
    for part in (
        "7877",
        "failed",
        "oom-gpu",
        "rank 3",
        "gpu004",
        "221.71GiB",
        "9.6 of 67.6 GPU-hours",
        "18 steps",
        "fix first",
    ):
        assert part in line
    assert len(line) < 500
    assert to_markdown(healthy()).splitlines()[0].endswith("115.6 GPU-hours, none lost · nothing to do")


def test_evidence_names_file_and_line_of_each_quote() -> None:
    text = to_markdown(failed())
    assert "log:4312: [rank 3] jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED" in text
    assert "log = `/shared/alice/outputs/7877-JAX-llama2-70b-night-steps_200.log`" in text


def test_an_unknown_end_quotes_its_three_most_telling_lines() -> None:
    text = to_markdown(unknown())
    assert all(f"log:{line}: [rank 0]" in text for line in (500, 501, 502))


def test_a_stall_is_explained_although_no_line_shows_it() -> None:
    text = to_markdown(hang())
    assert "All 8 ranks completed step 139 at the same time" in text
    assert "[ranks 0-7] last words: completed step: 139" in text


def test_rows_of_the_projection_in_the_seed_s_words() -> None:
    rows = metrics(to_markdown(failed()))
    assert rows["Steps completed (this run)"] == "119 steps (step 0 through 118)"
    assert rows["Overall progress"] == "119 / 200 (59.5%)"
    assert rows["Steady-state step time"] == "30.12s"
    assert rows["Last periodic ckpt this run"] == "step 100"
    assert rows["Progress lost"] == "18 steps (9 min) since last periodic ckpt"
    assert rows["Estimated time remaining"] == "41 min (from last step, if job were healthy)"
    rows = metrics(to_markdown(hang()))
    assert rows["Start"] == "restored from ckpt 100"
    assert rows["Expected step by now"].startswith("231 ")
    assert rows["Progress lost"].startswith("all of this run, 39 steps")
    rows = metrics(to_markdown(running()))
    assert rows["Progress lost"].startswith("none so far")
    rows = metrics(to_markdown(prolog_kill()))
    assert not rows.keys() & set(METRICS)


@pytest.mark.parametrize(
    ("progress", "checkpoint", "lost"),
    # Rows that are unknown are left out.
    [
        (
            Progress(start="fresh", last_step=30, checkpointing=True, checkpoint_period=200, lost_steps=31),
            "none — didn't reach checkpoint_period (200)",
            "all, 31 steps — no periodic ckpt",
        ),
        (Progress(last_step=30, checkpointing=False, checkpoint_period=10), "none — checkpointing is off", None),
        (Progress(last_step=30, checkpointing=True, checkpoint_period=10), "none confirmed", None),
        (
            Progress(last_step=30, last_checkpoint=20, last_checkpoint_confirmed=False, lost_steps=10, lost_s=20.0),
            "step 20 (not confirmed by a log line or directory)",
            "10 steps (20 s) since last periodic ckpt",
        ),
        (Progress(last_step=20, last_checkpoint=20, lost_steps=0), "step 20", "none"),
    ],
)
def test_checkpoint_and_loss(progress: Progress, checkpoint: str, lost: str | None) -> None:
    rows = metrics(to_markdown(report(progress=progress, diagnosis=diagnosis(status="failed"))))
    assert rows["Last periodic ckpt this run"] == checkpoint
    assert rows.get("Progress lost") == lost


def test_a_healthy_job_gets_a_short_report() -> None:
    text = to_markdown(healthy())
    assert len(text.splitlines()) < 50
    assert "**Primary failure:** none" in text
    assert "harmless" not in text


def test_ranks_are_folded_and_odd_ones_are_kept() -> None:
    usual = RankView(tuple(range(100, 4000)), tuple(f"n{i:04}" for i in range(100, 4000)), 10, None, None, "143")
    odd = tuple(RankView((i,), (f"n{i:04}",), i, f"error {i}", None, "1") for i in range(40))
    text = to_markdown(report(diagnosis=diagnosis(status="failed", ranks=(usual, *odd))))
    table = text.split("| Ranks |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    assert len(table) == MAX_ROWS
    assert table[0].startswith("| 100-3999 (3900) | n[0100-3999] | 10 | 143 |")
    assert f"{41 - MAX_ROWS} more groups of ranks" in text


def test_ranks_with_one_story_need_no_table() -> None:
    assert "| Ranks |" not in to_markdown(hang())


def test_long_lists_of_ranks_are_counted() -> None:
    assert some_ranks([3]) == "rank 3"
    assert some_ranks([]) == "all ranks"
    assert some_ranks(list(range(0, 200, 2))).startswith("100 ranks (0,2,4")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.0061, "3.01"),
        (154316.604, "154316.6"),
        (0.349, "0.349"),
        (0.000412, "0.000412"),
        (0.0000001234, "1.23e-07"),
        (0.0355556, "0.0356"),
        (12, "12"),
        (-2.5, "-2.5"),
        (None, "unknown"),
        (0.0, "0"),
    ],
)
def test_numbers_are_short_and_never_zero_by_rounding(value: float | None, text: str) -> None:
    assert number(value) == text


def test_many_findings_leave_the_first_page_alone() -> None:
    base = failed()
    story = base.diagnosis
    kinds = tuple(replace(f, rule=f"rule-{i}", cls=f"class-{i}") for i, f in enumerate(story.findings[1:2] * 60))
    text = to_markdown(replace(base, diagnosis=replace(story, findings=(*story.findings, *kinds))))
    assert "more kinds of findings in triage.json" in text
    lines = text.splitlines()
    assert lines.index("### Evidence") <= 60
