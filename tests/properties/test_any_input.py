"""Whatever the bytes: a report, never an exception, and no success that is not there."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_triage.model.report import Report
from slurm_triage.pipeline import Engine, triage_path
from slurm_triage.report.markdown import to_markdown
from slurm_triage.report.terminal import to_terminal
from slurm_triage.report.to_json import to_json
from tests.conftest import Triage
from tests.corpus.score import HERE, cases, report_for

LABEL = re.compile(rb"^ *\d+: ")
SAMPLES = [c for c in cases(["launcher", "runs"]) if (c / "log.txt").stat().st_size < 400_000]
RELAXED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

PIECES = st.sampled_from(
    [
        b"completed step: 3, seconds: 1.0, Tokens/s/device: 5.0, loss: nan\n", b"== Training FAILED (exit=143, 3s) ==\n",
        b"NODE_EXIT host= exit=1\n", b"Traceback (most recent call last):\n", b"JOB_ID=7\n", b"NNODES=2\n", b"0: ", b"1: ",
        b"srun: error: n[1-3]: tasks 0-99999999: Exited with exit code 1\n", b"\x1b[31m", b"\r", b"\0", b"JOB SUMMARY ====",
        b"========================== JOB SUMMARY ==========================\n", b"  Status: SUCCESS (exit 0)\n",
        b"*** JOB 7 ON n1 CANCELLED AT 9999-99-99T99:99:99 DUE TO TIME LIMIT ***\n", b"I9999 99:99:99.9 1 x.py:1] ",
        b"=== GIT SUMMARY BEGIN ===\n", b"restoring from this run's directory step 99999999999999999999\n",
        b"Root Cause (first observed failure):\n  rank      : 1\n  exitcode  : -11\n", b"x" * 1100 + b"\n",
    ]
)  # fmt: skip


def outputs(report: Report) -> None:
    """Every form of the report can be made."""
    to_json(report)
    to_markdown(report)
    to_terminal(report, width=80, color=False)


@RELAXED
@given(st.binary(max_size=4000))
def test_any_bytes_give_a_report(triage_text: Triage, data: bytes) -> None:
    outputs(triage_text(data))


@RELAXED
@given(st.lists(st.one_of(PIECES, st.binary(max_size=60)), max_size=60))
def test_any_mixture_of_known_pieces_gives_a_report(triage_text: Triage, pieces: list[bytes]) -> None:
    outputs(triage_text(b"".join(pieces)))


def verdict(report: Report) -> tuple[str, str | None, int | None]:
    primary = report.diagnosis.primary
    return (
        report.diagnosis.status,
        primary.cls if primary is not None else None,
        primary.rank if primary is not None else None,
    )


def interleave(text: bytes, rng: random.Random) -> bytes:
    """Another order of the lines that the launcher could have printed: each rank's own order stays, unlabelled lines
    (printed by srun and the batch script) stay where they are."""
    result: list[bytes] = []
    by_rank: dict[bytes, list[bytes]] = {}

    def flush() -> None:
        queues = [q for q in by_rank.values() if q]
        while queues:
            queue = rng.choice(queues)
            result.append(queue.pop(0))
            queues = [q for q in queues if q]
        by_rank.clear()

    for line in text.splitlines(keepends=True):
        match = LABEL.match(line)
        if match is None:
            flush()
            result.append(line)
        else:
            by_rank.setdefault(match[0], []).append(line)
    flush()
    return b"".join(result)


@pytest.mark.parametrize("case", [c for c in SAMPLES if c.name.startswith("slurm-")], ids=lambda c: c.name)
def test_order_between_ranks_changes_no_verdict(case: Path, engine: Engine, tmp_path: Path) -> None:
    """Within what the launcher itself orders: a stage's lines stay inside the stage."""
    expected = verdict(report_for(case, engine))
    text = (case / "log.txt").read_bytes()
    if b"\n0: NODE_EXIT" in text and b"\n1: NODE_EXIT" in text:
        # Which rank failed first is told by order alone there.
        pytest.skip("the order of NODE_EXIT lines is itself the evidence")
    for seed in range(3):
        copy = tmp_path / f"{seed}" / "log.txt"
        copy.parent.mkdir()
        copy.write_bytes(interleave(text, random.Random(seed)))
        if (case / "accounting.json").exists():
            (copy.parent / "accounting.json").write_bytes((case / "accounting.json").read_bytes())
        assert verdict(report_for(copy.parent, engine)) == expected


@pytest.mark.parametrize("case", SAMPLES, ids=lambda c: c.name)
def test_a_cut_log_is_not_completed_before_its_last_step(case: Path, engine: Engine, tmp_path: Path) -> None:
    text = (case / "log.txt").read_bytes()
    rng = random.Random(case.name)
    for _ in range(4):
        copy = tmp_path / "cut.log"
        copy.write_bytes(text[: rng.randrange(1, len(text))])
        report = triage_path(str(copy), engine=engine)
        if report.diagnosis.status != "completed":
            continue
        progress = report.progress
        already = any(m.rule == "checkpoint-restore" for m in report.facts.last.facts)
        assert progress.total_steps is not None or already
        assert already or (progress.last_step is not None and progress.last_step >= (progress.total_steps or 0) - 1)


@pytest.mark.parametrize("case", [c for c in SAMPLES if c.parent.name == "launcher"], ids=lambda c: c.name)
def test_same_input_same_output(case: Path, engine: Engine) -> None:
    first, second = report_for(case, engine), report_for(case, engine)
    strip = re.compile(rb'"generated_at": "[^"]*"')
    assert strip.sub(b"", to_json(first)) == strip.sub(b"", to_json(second))


def test_the_corpus_is_there() -> None:
    assert len(SAMPLES) > 60
    assert (HERE / "public").is_dir()
