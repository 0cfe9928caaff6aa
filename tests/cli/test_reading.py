"""The command on real files of every kind: layouts, compressions, standard input, sizes, writing."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import threading
import time
from pathlib import Path

import pytest

from tests.cli.command import environment, run
from tests.cli.test_bad_input import BAD, GOOD
from tests.locate.tree import Outputs
from tests.pitfalls.logs import header, step, steps, summary
from tests.seed import jobs


def verdict(*args: str | Path, stdin: bytes | None = None) -> tuple[str, str | None]:
    document = json.loads(run("log", *args, "--json", stdin=stdin).out)
    return document["status"], (document["primary"] or {}).get("class")


@pytest.fixture
def outputs(tmp_path: Path) -> Outputs:
    return Outputs(tmp_path / "outputs")


NAMES = [
    "7-JAX-a",
    "7-JAX-a b",
    '7-JAX-it\'s "x"',
    "7-JAX-_env_MAXTEXT_PATCH_BRANCH_a/b",
    "local_20261130_010101_ab12-JAX-a",
    "k8s-20261130-010101-ab12-JAX-a",
]


@pytest.mark.parametrize("name", NAMES)
def test_log_directory_and_id_lead_to_the_same_report(name: str, outputs: Outputs) -> None:
    log, directory = outputs.job(name)
    log.write_text(BAD)
    result = run("log", log, directory, directory / "log", name.split("-JAX")[0], "--outputs", outputs.path)
    assert (result.code, result.err) == (0, "")
    heads = [line for line in result.out.splitlines() if line.startswith("FAILED  ")]
    assert len(heads) == 4
    assert len(set(heads)) == 1


def test_one_bad_target_keeps_nobody_from_seeing_the_rest(outputs: Outputs) -> None:
    log = outputs.job("7-JAX-a")[0]
    log.write_text(BAD)
    result = run("log", outputs.path / "nosuch.log", log)
    assert result.code == 5
    assert len(result.err.splitlines()) == 1
    assert "nosuch.log" in result.err
    assert result.out.startswith("FAILED")
    assert run("log", outputs.path / "nosuch.log", outputs.path / "other.log").code == 3


def test_renamed_log_and_out_suffix(outputs: Outputs) -> None:
    outputs.job("7-JAX-a")[0].write_text(BAD)
    (outputs.path / "7-JAX-a.log").rename(outputs.path / "7-JAX-a-2N-TGS_123.456.log")
    assert verdict("7", "--outputs", outputs.path)[0] == "failed"
    outputs.log("8-JAX-b.out", BAD.encode())
    assert verdict("8", "--outputs", outputs.path)[0] == "failed"


def test_directory_without_log(outputs: Outputs, tmp_path: Path) -> None:
    directory = outputs.directory("9-JAX-c", link="../9-JAX-c.log")
    record = tmp_path / "record.json"
    record.write_text('{"job_id": "9", "state": "FAILED", "exit_code": "0:53", "elapsed": 1}')
    assert verdict(directory, "--accounting", record) == ("failed", "prolog-kill-no-log")
    record.write_text('{"job_id": "9", "state": "PENDING"}')
    assert verdict(directory, "--accounting", record) == ("unknown", None)


def test_outputs_tree(outputs: Outputs) -> None:
    for number, text in ((1, GOOD), (2, BAD), (3, GOOD)):
        outputs.job(f"{number}-JAX-a")[0].write_text(text.replace("JOB_ID=7", f"JOB_ID={number}"))
    outputs.checkpoints("llama2-70b")
    result = run("log", outputs.path, "--exit-code")
    assert result.code == 1
    heads = [
        line.split()[0]
        for line in result.out.splitlines()
        if line.split()[:1] and line.split()[0] in {"COMPLETED", "FAILED"}
    ]
    assert sorted(heads) == ["COMPLETED", "COMPLETED", "FAILED"]
    assert "llama2-70b/run" not in result.out


def test_compressed_and_standard_input(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(BAD.encode()))
    (tmp_path / "a.log.xz").write_bytes(lzma.compress(BAD.encode()))
    for name in ("a.log.gz", "a.log.xz"):
        assert verdict(tmp_path / name) == ("failed", "python-exception")
    assert verdict("-", stdin=BAD.encode()) == ("failed", "python-exception")
    assert verdict("-", stdin=b"") == ("unknown", None)


def test_long_lines_and_progress_bars(tmp_path: Path) -> None:
    """A line of 100 MB, a bar of 5 MB, NULs: the failure behind them is found, in bounded time."""
    log = tmp_path / "7-JAX-a.log"
    bar = b"".join(b"\r%3d%%|####  | step" % (n % 100) for n in range(250_000))
    with log.open("wb") as out:
        out.write((header() + jobs.BEFORE_TRAINING + jobs.LAUNCH + steps(range(5))).encode())
        for _ in range(100):
            out.write(b"x" * (1 << 20))
        out.write(b"\n0: " + bar + b"\n" + b"\0" * 70_000 + b"\n")
        out.write(BAD.split("BARRIER PASSED")[-1].encode())
    started = time.monotonic()
    assert verdict(log) == ("failed", "python-exception")
    assert time.monotonic() - started < 60


def test_growing_and_truncated_while_read(tmp_path: Path) -> None:
    log = tmp_path / "7-JAX-a.log"
    log.write_text(header() + jobs.BEFORE_TRAINING + jobs.LAUNCH + steps(range(5)))
    stop = threading.Event()

    def write() -> None:
        number = 5
        while not stop.is_set():
            with log.open("a") as out:
                out.write(step(number) * 50)
            number += 1
            if number % 7 == 0:
                log.write_text(header())
            time.sleep(0.005)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            assert run("log", log, "--json").code == 0
    finally:
        stop.set()
        writer.join()


def test_appended_attempts(tmp_path: Path) -> None:
    """Facts per attempt; the last one decides, the earlier ones are listed."""
    log = tmp_path / "7-JAX-a.log"
    log.write_text(BAD + GOOD)
    document = json.loads(run("log", log, "--json").out)
    assert document["status"] == "completed"
    assert document["job"]["attempt"] == 2
    assert "failed" in json.dumps(document.get("attempts", []))


def test_same_input_same_bytes(tmp_path: Path) -> None:
    log = tmp_path / "7-JAX-a.log"
    log.write_text(BAD)
    documents = [json.loads(run("log", log, "--json").out) for _ in range(2)]
    for document in documents:
        document.pop("generated_at")
    assert documents[0] == documents[1]
    assert run("log", log).out == run("log", log).out


def test_write_is_atomic_and_never_over_a_newer_one(outputs: Outputs) -> None:
    log, directory = outputs.job("7-JAX-a")
    log.write_text(BAD)
    result = run("log", log, "--write")
    assert result.code == 0
    written = directory / "triage.json"
    assert str(written) in result.err
    assert {p.name for p in directory.iterdir()} >= {"triage.json", "TRIAGE.md"}
    assert not [p for p in directory.iterdir() if "tmp" in p.name]
    document = json.loads(written.read_text())
    document["job"]["attempt"] = 5
    written.write_text(json.dumps(document))
    again = run("log", log, "--write")
    assert again.code == 5
    assert "newer" in again.err
    assert json.loads(written.read_text())["job"]["attempt"] == 5


def test_links_of_an_attacker_are_not_followed(outputs: Outputs, tmp_path: Path) -> None:
    """Whoever owns a job directory may put anything there: what is written never goes through a link."""
    log, directory = outputs.job("7-JAX-a")
    log.write_text(BAD)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (directory / "triage.json").symlink_to(victim)
    (directory / "TRIAGE.md").hardlink_to(victim)
    run("log", log, "--write")
    assert victim.read_text() == "precious"


def test_hostile_text_reaches_no_terminal(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J</td><script>alert(1)</script> `$(reboot)` | [x](javascript:alert(1)) \u202e \x9b31m"
    head = (
        header(args=evil)
        .replace("JAX-llama2-70b-steps_15", f"JAX-{evil}")
        .replace("MODEL_NAME=llama2-70b", f"MODEL_NAME={evil}")
    )
    body = head + jobs.BEFORE_TRAINING + jobs.LAUNCH + steps(range(5))
    body += f'1: NODE_EXIT host={evil.replace(" ", "_")} exit=1\n1: Traceback (most recent call last):\n1:   File "{evil}", line 1, in f\n1: ValueError: {evil}\n'
    log = tmp_path / "7-JAX-a.log"
    log.write_text(body + summary(1, evil))
    for form in ((), ("--markdown",), ("--html",), ("--json",)):
        out = run("log", log, *form).out
        assert not any(c in out for c in "\x1b\x07\x9b\u202e"), form
    assert "<script>" not in run("log", log, "--html").out
    assert "\x1b" not in run("explain", log).out


LIES = {
    "summary behind a label": (steps(range(8)) + jobs.labelled(summary(1, "Training FAILED (exit=139)"), 0) + steps(range(8, 15)), None),
    "another job's log": (steps(range(8)) + jobs.labelled(BAD, 0) + steps(range(8, 15)), None),
    "git summary behind a label": (steps(range(8)) + "0: === GIT SUMMARY BEGIN ===\n" + steps(range(8, 15)), None),
    "NODE_EXIT in an echo": (steps(range(8)) + "0: + echo 'NODE_EXIT host=chi2801 exit=139'\n" + steps(range(8, 15)), None),
    "cancel behind a label": (steps(range(8)) + "0: slurmstepd: error: *** JOB 7 ON chi2801 CANCELLED AT 2026-11-30T01:54:32 ***\n" + steps(range(8, 15)), None),
    "header behind a label": (steps(range(8)) + '0: JOB_ID=8\n0: NNODES=512\n0: PASSTHROUGH_ARGS="steps=3"\n' + steps(range(8, 15)), None),
}  # fmt: skip


def test_logs_that_lie(tmp_path: Path) -> None:
    for number, (body, primary) in enumerate(LIES.values(), 1):
        text = header() + jobs.BEFORE_TRAINING + jobs.LAUNCH + body + "== Training END (50s) ==\n" + summary(0)
        (tmp_path / f"{number}-JAX-lie.log").write_text(text)
        assert primary is None
    out = run("log", tmp_path).out
    heads = [line.split()[0] for line in out.splitlines() if line[:1].isupper() and "JAX-" in line]
    assert heads == ["COMPLETED"] * len(LIES)


ABSURD = "9" * 3000
NUMBERS = {
    "NNODES": header().replace("NNODES=2", f"NNODES={ABSURD}"),
    "superscript": header().replace("NNODES=2", "NNODES=²"),
    "nodes": header().replace("chi[2801-2802]", "c" + "[1-9999]" * 20),
    "limit": header().replace("900s", f"{ABSURD}s"),
    "period": header() + f"0: Config param checkpoint_period: {ABSURD}\n",
    "steps": header(args=f"steps={ABSURD}"),
    "restore": header() + f"0: restoring from this run's directory step {ABSURD}\n",
    "step": header() + f"0: completed step: {ABSURD}, seconds: 1e999, TFLOP/s/device: 1.0, Tokens/s/device: nan, total_weights: 1, loss: 1.0\n",
    "heartbeat": header() + f"0: Config param jax_distributed_heartbeat_timeout_seconds: {ABSURD}\n0: The tasks have crashed. Check the task logs\n",
    "exit": header() + f"1: NODE_EXIT host=chi2802 exit={ABSURD}\n",
    "fraction": header() + "1: Show all environment variables:\n1: XLA_PYTHON_CLIENT_MEM_FRACTION=nan\n1: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1GiB.\n",
}  # fmt: skip


@pytest.mark.parametrize("form", ["--json", "--markdown", "--html"])
def test_absurd_numbers(form: str, tmp_path: Path) -> None:
    for number, text in enumerate(NUMBERS.values(), 1):
        wall = f"{ABSURD[:300]}h 0m 0s" if number % 2 else "3m 0s"
        (tmp_path / f"{number}-JAX-n.log").write_text(text + steps(range(3)) + summary(1, "x", wall=wall))
    result = run("log", tmp_path, form)
    assert (result.code, result.err) == (0, "")


def test_a_log_that_may_go_on_is_said_to(tmp_path: Path) -> None:
    log = tmp_path / "job.out"
    log.write_text("".join(f"completed step: {n}, seconds: 1.0, loss: 2.0\n" for n in range(5)))
    result = run("log", log)
    assert result.out.startswith("UNKNOWN")
    assert result.err.endswith(f"if the job still runs, see slurm-triage watch --log {log}\n")
    os.utime(log, (time.time() - 600,) * 2)
    assert run("log", log).err == ""


def test_how_long_a_hang_is_may_be_said(tmp_path: Path) -> None:
    """By default ten minutes. The job of this log was cancelled 100 s after its last step."""
    log = tmp_path / "slurm-7.out"
    log.write_text(
        "".join(f"2026-11-30T10:00:{n:02d}Z completed step: {n}, seconds: 1.0, loss: 2.0\n" for n in range(40))
        + "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-30T10:02:19 ***\n"
    )
    assert verdict(log) == ("cancelled", "cancelled")
    found = run("log", log, "--json", env=environment(SLURM_TRIAGE_STALL_AFTER_S="60"))
    assert json.loads(found.out)["primary"]["class"] == "hang"


def test_explain_knows_a_job_by_its_id(outputs: Outputs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also without accounting, by what lies around here."""
    log = outputs.job("7-JAX-a")[0]
    log.write_text(BAD)
    monkeypatch.chdir(outputs.path)
    assert run("explain", "7").out == run("explain", log).out
