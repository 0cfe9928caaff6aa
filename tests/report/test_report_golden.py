"""Whole outputs, compared with files that a person has read. ``UPDATE_GOLDEN=1 pytest tests/report`` writes them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_triage.model.report import Report
from slurm_triage.report.markdown import to_markdown
from slurm_triage.report.terminal import to_terminal
from slurm_triage.report.to_html import to_html
from slurm_triage.report.to_json import to_json

from .sample_reports import SAMPLES

GOLDEN = Path(__file__).parent / "golden"

VIEWS: dict[str, Callable[[Report], str]] = {
    "md": to_markdown,
    "txt": lambda report: to_terminal(report, width=80, color=False),
    "color.txt": lambda report: to_terminal(report, width=100, color=True),
    "share.md": lambda report: to_markdown(report, share=True),
    "json": lambda report: to_json(report).decode(),
    "html": to_html,
}
CASES = [(name, view) for name in SAMPLES for view in ("md", "txt")] + [
    ("failed", "json"),
    ("failed", "html"),
    ("failed", "color.txt"),
    ("hang", "share.md"),
]


@pytest.mark.parametrize(("name", "view"), CASES, ids=[f"{name}.{view}" for name, view in CASES])
def test_output_is_the_golden_one(name: str, view: str) -> None:
    text = VIEWS[view](SAMPLES[name]())
    file = GOLDEN / f"{name}.{view}"
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8"), f"{file} differs; look at both, then run with UPDATE_GOLDEN=1"


def test_no_golden_file_is_left_over() -> None:
    assert {file.name for file in GOLDEN.iterdir()} == {f"{name}.{view}" for name, view in CASES}
