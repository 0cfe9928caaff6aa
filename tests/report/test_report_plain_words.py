"""Amounts, counts and references that a reader must not have to work out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slurm_triage.model.size import human_size
from slurm_triage.model.template import fill
from slurm_triage.pipeline import Engine, triage_path
from slurm_triage.report.build_document import report_document
from slurm_triage.report.document import Document
from slurm_triage.report.markdown import to_markdown
from slurm_triage.report.terminal import to_terminal
from slurm_triage.report.wording import action_clause, cause_clause, chain_lines
from tests.conftest import Triage

LAUNCHER = Path(__file__).resolve().parents[1] / "corpus" / "launcher"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("42405855232 bytes", "39.5 GiB"),
        ("42405855232", "39.5 GiB"),
        ("1048576B", "1 MiB"),
        ("1073741823 bytes", "1024 MiB"),
        ("99999999999999999999 bytes", "86.7 EiB"),
        ("608 bytes", "608 bytes"),
        ("2.00 GiB", "2.00 GiB"),
        ("221.71GiB", "221.71GiB"),
        ("", ""),
    ],
)
def test_bytes_are_shown_in_a_unit(written: str, shown: str) -> None:
    assert human_size(written) == shown
    assert fill("memory ran out ({bytes})", {"bytes": written}) == f"memory ran out ({shown})"


def test_no_raw_bytes_in_title_or_steps(triage_text: Triage) -> None:
    line = "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 42405855232 bytes."
    found = triage_text(f"0: step 1 loss 2.0\n0: {line}\n").diagnosis
    assert found.primary is not None
    told = " ".join((found.primary.title, found.narrative, *found.next_steps))
    assert "42405855232" not in told
    assert told.count("39.5 GiB") >= 2


def test_the_causal_chain_names_its_first_link(triage_text: Triage) -> None:
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    report = triage_text(
        f"[rank0]: {oom}\nE1130 10:00:02.0 14 api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 1)\n"
    )
    text = to_markdown(report)
    assert "\n1. oom-gpu: GPU memory ran out (2.00 GiB asked for)\n2. consequence: subprocess-fail: " in text
    assert "It came after oom-gpu." in text
    assert chain_lines(report_document(report))[0] in to_terminal(report, width=100, color=False)


def test_a_long_first_link_is_cut(triage_text: Triage) -> None:
    long = "ValueError: " + "no such sample " * 20
    text = f'Traceback (most recent call last):\n  File "/w/t.py", line 1, in main\n    f()\n{long}\n'
    report = triage_text(f"0: step 1 loss 2.0\n{text}srun: error: n1: task 0: Exited with exit code 1\n")
    first = chain_lines(report_document(report))[0]
    assert first.startswith("python-exception: ValueError: no such sample")
    assert len(first) <= 141


def told(document: Document) -> list[str]:
    """Everything that a report and AdminComment say in sentences."""
    return [
        cause_clause(document), action_clause(document), document["primary"]["title"], document["narrative"],
        *document["next_steps"],
    ]  # fmt: skip


def test_steps_are_counted_in_one_way_after_a_soft_success(engine: Engine) -> None:
    """Steps are numbered from 0: the 15th is step 14, and no sentence says "14 of 14" or "14 of 15"."""
    document = report_document(triage_path(str(LAUNCHER / "slurm-late1-rank1" / "log.txt"), engine=engine))
    assert document["primary"]["class"] == "soft-success"
    counts = {count for text in told(document) for count in re.findall(r"\b\d+ of \d+\b", text)}
    assert counts <= {"15 of 15"}
    assert not any(re.search(r"step 14\b", text) for text in told(document))
    assert "all 15 steps" in action_clause(document)


@pytest.mark.parametrize("case", ["slurm-nccl-rank0", "slurm-exit7-rank0", "slurm-latehang-timelimit"])
def test_steps_are_counted_in_one_way(engine: Engine, case: str) -> None:
    document = report_document(triage_path(str(LAUNCHER / case / "log.txt"), engine=engine))
    progress = document["progress"]
    counts = {count for text in told(document) for count in re.findall(r"\b(\d+) of (\d+) steps", text)}
    assert counts <= {(str(progress["last_step"] + 1), str(progress["total_steps"]))}
    assert not any(re.search(r"step \d+ of \d+", text) for text in told(document))
