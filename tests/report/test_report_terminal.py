"""The screen that somebody sees at 3 am."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from slurm_triage.report.plain_text import columns
from slurm_triage.report.terminal import joined, to_terminal, wrap

from .sample_reports import SAMPLES, failed, hang, healthy, running

ANSI = re.compile(r"\x1b\[[0-9;]+m")


def screen(name: str, width: int = 80) -> list[str]:
    return to_terminal(SAMPLES[name](), width=width, color=False).splitlines()


@pytest.mark.parametrize("name", SAMPLES)
def test_colours_change_nothing_but_colours(name: str) -> None:
    plain = to_terminal(SAMPLES[name](), width=90, color=False)
    coloured = to_terminal(SAMPLES[name](), width=90, color=True)
    assert "\x1b" not in plain
    assert ANSI.sub("", coloured) == plain


@pytest.mark.parametrize("width", [10, 40, 60, 80, 120, 300])
@pytest.mark.parametrize("name", SAMPLES)
def test_only_what_is_there_to_be_copied_is_wider_than_the_screen(name: str, width: int) -> None:
    for line in screen(name, width):
        copied = line.lstrip().startswith(("./submit.sh", "RAY=1", "ssh ", "log = "))
        assert copied or columns(line) <= max(width, 40), line


def test_the_order_is_verdict_story_evidence_cost_action() -> None:
    lines = screen("failed")
    marks = (
        "FAILED  7877",
        "oom-gpu · ",
        "XLA ",
        "Ranks",
        "Evidence",
        "Progress",
        "Cost",
        "Also",
        "Next",
    )
    places = [next(i for i, line in enumerate(lines) if line.startswith(mark)) for mark in marks]
    assert places == sorted(places)
    assert lines[-1].startswith("  ./submit.sh llama2-70b:night -N 8")


def test_a_line_that_is_the_evidence_is_shown_in_full() -> None:
    text = " ".join(" ".join(screen("failed")).replace("│", " ").split())
    assert "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 221.71GiB." in text


def test_a_healthy_job_takes_a_few_lines() -> None:
    lines = screen("healthy")
    assert len(lines) <= 10
    assert not any(line in {"Next", "Evidence", "Also"} for line in lines)


def test_a_live_job_shows_where_it_should_be_and_how_to_look() -> None:
    text = to_terminal(hang(), width=100, color=False)
    assert "expected by now: step 231" in text
    assert "\n  ssh -J alice@login.atlas.example" in text
    assert "not saved yet" in to_terminal(running(), width=100, color=False)


def test_terminals_without_utf8_get_ascii() -> None:
    for make in SAMPLES.values():
        assert to_terminal(make(), width=80, color=True, ascii_only=True).isascii()


def test_status_has_a_colour_of_its_own() -> None:
    first = {make().diagnosis.status: to_terminal(make(), width=80, color=True)[:8] for make in SAMPLES.values()}
    assert len({first[status] for status in ("failed", "completed", "hanging", "running")}) == 4


def test_a_long_name_does_not_push_the_job_id_off_the_screen() -> None:
    base = failed()
    line = to_terminal(replace(base, job=replace(base.job, name="x" * 243)), width=60, color=False).splitlines()[0]
    assert line.startswith("FAILED  7877  xxx")
    assert len(line) <= 60


def test_wrapping_counts_columns_not_characters() -> None:
    lines = wrap("漢字 " * 30 + "word", 20, "  ", "    ")
    assert max(columns(line) for line in lines) <= 20
    assert "".join("".join(lines).split()) == "漢字" * 30 + "word"
    assert all(columns(line) <= 20 for line in wrap("漢" * 50, 20, "", ""))


def test_parts_break_between_each_other() -> None:
    assert joined(["aaaa", "bbbb", "cccc"], 12) == ["aaaa · bbbb", "cccc"]
    assert joined(["aaaa bbbb cccc dddd", "e"], 9) == ["aaaa bbbb", "cccc dddd", "e"]
    assert joined(["aaaa bbbb cccc dddd", "e"], 14) == ["aaaa bbbb cccc", "dddd · e"]
    assert joined([], 12) == []


def test_healthy_exits_are_not_decorated() -> None:
    assert "lost 0" not in to_terminal(healthy(), width=80, color=False)
