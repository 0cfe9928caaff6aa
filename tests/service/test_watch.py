"""The watcher: reads only what is new, and tells silence from progress whatever else the log says."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_triage.cli.main import main
from slurm_triage.errors import NotFoundError
from slurm_triage.model.job import Job
from slurm_triage.pipeline import Engine
from slurm_triage.service.follow import Follower
from slurm_triage.service.watch import ENDED, look
from tests.progress.builders import CORPUS

HEADER = "JOB_ID=7\nNNODES=2\nMODEL_NAME=llama2-70b\n== Training BEGIN (no timeout) ==\n0: Config param steps: 1000\n"
RUNNING = Job(job_id="7", state="RUNNING", source="sacct", start=1.0)


def step(rank: int, number: int) -> str:
    return (
        f"{rank}: completed step: {number}, seconds: 3.000, TFLOP/s/device: 4.0, Tokens/s/device: 9.5, "
        f"total_weights: 262144, loss: 10.{number:03}\n"
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "7-JAX-x.log"
    path.write_text(HEADER + "".join(step(rank, n) for n in range(3) for rank in (0, 1)))
    return path


def append(log: Path, text: str) -> None:
    with open(log, "a") as file:
        file.write(text)


def test_nothing_is_read_twice(log: Path, engine: Engine) -> None:
    follower = Follower(str(log), engine)
    assert follower.poll(100.0)
    assert not follower.poll(110.0)
    for number in range(3, 60):
        append(log, step(0, number) + step(1, number)[:40])
        follower.poll(100.0 + number)
        append(log, step(1, number)[40:])
    follower.poll(200.0)
    assert follower.bytes_read == log.stat().st_size
    assert {rank: seen.step for rank, seen in follower.ranks.items()} == {0: 59, 1: 59}
    steps = [s.step for series in follower.attempt().series if series.rank == 1 for s in series.steps]
    assert steps == list(range(60)), "a line that came in two pieces is one line"


def test_time_of_a_step_is_when_it_was_seen(log: Path, engine: Engine) -> None:
    follower = Follower(str(log), engine)
    follower.poll(1000.0)
    assert follower.ranks[0].at is None, "nobody knows how old it is"
    append(log, step(0, 3))
    follower.poll(1010.0)
    assert (follower.ranks[0].at, follower.ranks[1].at) == (1010.0, None)


def test_hang_in_spite_of_noise(log: Path, engine: Engine) -> None:
    kinds = engine.ruleset.fact_kinds
    follower = Follower(str(log), engine)
    follower.poll(1000.0)
    append(log, step(0, 3) + step(1, 3))
    follower.poll(1010.0)
    assert look(follower, RUNNING, kinds, 1010.0).status == "running"
    for minute in range(1, 20):
        append(log, f"0: (raylet) topology refreshed {minute}\n")
        follower.poll(1010.0 + 60 * minute)
    seen = look(follower, RUNNING, kinds, 1010.0 + 60 * 19)
    assert seen.status == "hanging"
    assert (seen.phase, seen.progress.last_step) == ("training", 3)
    assert seen.silence_s == pytest.approx(19 * 60)
    assert any("all 2 ranks stopped after step 3" in line for line in seen.evidence)
    assert any("not by steps" in line for line in seen.evidence)
    append(log, step(0, 4) + step(1, 4))
    follower.poll(2200.0)
    assert look(follower, RUNNING, kinds, 2200.0).status == "running"


def test_one_rank_behind_is_named(log: Path, engine: Engine) -> None:
    follower = Follower(str(log), engine)
    follower.poll(0.0)
    append(log, step(0, 3))
    follower.poll(1.0)
    seen = look(follower, RUNNING, engine.ruleset.fact_kinds, 5000.0)
    assert any("furthest behind: rank 1" in line for line in seen.evidence)


def test_before_the_first_step_more_patience(tmp_path: Path, engine: Engine) -> None:
    log = tmp_path / "8-JAX-x.log"
    log.write_text(HEADER)
    follower = Follower(str(log), engine)
    follower.poll(0.0)
    kinds = engine.ruleset.fact_kinds
    assert look(follower, Job(job_id="8", state="RUNNING"), kinds, 1200.0).status == "running"
    assert look(follower, Job(job_id="8", state="RUNNING"), kinds, 1900.0).status == "hanging"


def test_log_that_begins_anew(log: Path, engine: Engine) -> None:
    follower = Follower(str(log), engine)
    follower.poll(0.0)
    log.write_text(HEADER + step(0, 0))
    follower.poll(10.0)
    assert {rank: seen.step for rank, seen in follower.ranks.items()} == {0: 0}


def test_ended_job_does_not_hang(log: Path, engine: Engine) -> None:
    follower = Follower(str(log), engine)
    follower.poll(0.0)
    append(
        log,
        "========================== JOB SUMMARY ==========================\n  Job:    7 (x)\n  Model:  m\n  Nodes:  2\n"
        "  Wall:   4s\n  Status: SUCCESS (exit 0)\n" + "=" * 65 + "\n",
    )
    follower.poll(1.0)
    assert look(follower, RUNNING, engine.ruleset.fact_kinds, 90_000.0).status == ENDED


def test_link_is_not_followed(log: Path, tmp_path: Path, engine: Engine) -> None:
    link = tmp_path / "link.log"
    link.symlink_to(log)
    with pytest.raises(NotFoundError):
        Follower(str(link), engine).poll(0.0)


def test_command_notifies_once(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note = tmp_path / "note"
    script = tmp_path / "notify"
    script.write_text(f'#!/bin/sh\nprintf "%s %s\\n" "$SLURM_TRIAGE_JOB" "$SLURM_TRIAGE_STATUS" >>{note}\n')
    script.chmod(0o755)
    common = ["watch", "7", "--log", str(log)]
    assert main([*common, "--notify", str(script), "--exit-code"]) == 0
    assert "7 running: step 2/999" in capsys.readouterr().out
    assert not note.exists()
    assert main([*common, "--notify", str(script), "--limit", "0.000001", "--exit-code"]) in (0, 1)


@pytest.mark.parametrize("case", ["slurm-2N-success", "slurm-exit7-rank0", "slurm-node-down"])
def test_a_log_that_has_ended_is_not_said_to_run(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "--log", str(CORPUS / "launcher" / case / "log.txt")]) == 0
    said = capsys.readouterr().out
    assert "has ended" in said
    assert "running" not in said


def test_a_log_seen_once_is_not_said_to_grow(log: Path, engine: Engine) -> None:
    """It has a size only; that it grows shows at the second look."""
    follower = Follower(str(log), engine)
    follower.poll(5000.0)
    seen = look(follower, RUNNING, engine.ruleset.fact_kinds, 5030.0, 1.0)
    assert seen.status == "hanging"
    assert not any("grow" in line for line in seen.evidence)
