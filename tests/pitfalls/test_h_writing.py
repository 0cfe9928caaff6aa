"""Pitfalls of writing results (group H)."""

from __future__ import annotations

import json
import re
from pathlib import Path

from slurm_triage.pipeline import Engine, triage_path
from slurm_triage.report.markdown import to_markdown
from slurm_triage.report.terminal import to_terminal
from slurm_triage.report.to_json import to_json
from slurm_triage.report.write import write_beside
from tests.conftest import Triage
from tests.pitfalls.logs import TRAIN_BEGIN, failed_rank, header, steps, summary

HOSTILE = "\x1b]0;owned\x07\x1b[2J `rm -rf` | <script>alert(1)</script> [x](http://evil) \u202e # heading"


def hostile_log() -> str:
    text = f'0: Traceback (most recent call last):\n0:   File "x.py", line 1, in f\n0: ValueError: {HOSTILE}\n'
    return (
        header() + TRAIN_BEGIN + steps(range(5)) + text + failed_rank(0, 1) + summary(1, "Training FAILED (exit=143)")
    )


def test_h1_log_text_breaks_neither_markdown_nor_terminal(triage_text: Triage) -> None:
    report = triage_text(hostile_log())
    markdown = to_markdown(report)
    outside = re.sub(r"```+.*?```+", "", markdown, flags=re.DOTALL)
    assert "<script>" not in outside
    assert "\x1b" not in markdown
    assert "\u202e" not in markdown
    shown = to_terminal(report, width=80, color=False)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)


def test_h1_secrets_are_replaced(triage_text: Triage) -> None:
    secret = "hf_" + "Q" * 34
    text = header(args=f"hf_access_token={secret} steps=15") + TRAIN_BEGIN + steps(range(5))
    text += f'0: Traceback (most recent call last):\n0:   File "x.py", line 1, in f\n0: OSError: token={secret}\n'
    report = triage_text(text + failed_rank(0, 1) + summary(1, "Training FAILED (exit=143)"))
    for output in (to_json(report).decode(), to_markdown(report), to_terminal(report, width=100, color=False)):
        assert secret not in output


def test_h2_a_job_name_is_never_part_of_a_shell_command_unquoted(triage_text: Triage) -> None:
    report = triage_text(
        hostile_log().replace("MODEL_NAME=llama2-70b", "MODEL_NAME=x; touch /tmp/owned"),
        accounting={"job_id": "7", "state": "FAILED", "exit_code": "1:0", "name": "$(touch /tmp/owned)\n"},
    )
    command = report.diagnosis.resubmit.command
    assert command is not None
    assert "'x; touch /tmp/owned'" in command or "x; touch" not in command


def test_h3_reports_are_written_whole(engine: Engine, tmp_path: Path) -> None:
    job = tmp_path / "7-JAX-x"
    job.mkdir()
    (tmp_path / "7-JAX-x.log").write_text(hostile_log())
    (job / "log").symlink_to("../7-JAX-x.log")
    written = write_beside(triage_path(str(job), engine=engine))
    names = sorted(p.name for p in job.iterdir())
    assert names == ["TRIAGE.md", "log", "triage.json"]
    assert json.loads((job / "triage.json").read_text())["schema"] == "slurm-triage/1"
    assert written


def test_h4_the_same_job_twice_gives_the_same_report(engine: Engine, tmp_path: Path) -> None:
    log = tmp_path / "7-JAX-x.log"
    log.write_text(hostile_log())
    strip = re.compile(rb'"generated_at": "[^"]*"')
    first, second = (strip.sub(b"", to_json(triage_path(str(log), engine=engine))) for _ in range(2))
    assert first == second
