"""``rules backtest --ledger``: past jobs are judged again where their logs still are."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.cli.main import main
from slurm_triage.ledger.append import open_writer
from slurm_triage.ledger.record import record_from_report
from slurm_triage.model.job import NO_JOB
from slurm_triage.pipeline import triage_path
from slurm_triage.report.to_json import to_json
from slurm_triage.slurm.record_file import job_from_record

from .packtext import class_text, rule_text

PACKS = class_text("user-error") + rule_text("bad-value", "user-error", pattern="ValueError: ")
GIZMO = class_text("gizmo-broken") + rule_text("gizmo", "gizmo-broken").replace("A title", "The gizmo")

#: Triages a text as job N and remembers it; ``report``: also keep its triage.json.
Remember = Callable[..., Path]


@pytest.fixture(autouse=True)
def small_packs(only_packs) -> None:
    """Compiling the real packs takes a second each time."""
    only_packs(base=PACKS)


@pytest.fixture
def remember(tmp_path: Path) -> Remember:
    def add(number: int, text: str, *, report: bool = True, accounting: dict[str, object] | None = None) -> Path:
        home = tmp_path / "jobs" / f"{number}-JAX-x"
        home.mkdir(parents=True)
        log = home / "log"
        log.write_text(text)
        job = NO_JOB if accounting is None else job_from_record({"job_id": number, **accounting})
        made = triage_path(str(home), job=job)
        path = home / "triage.json" if report else None
        if path is not None:
            path.write_bytes(to_json(made))
        with open_writer(tmp_path / "ledger", "alpha") as writer:
            writer.append([record_from_report(made, str(path) if path else None)])
        return log

    return add


def run(capsys, tmp_path: Path, *args: object) -> tuple[int, str, str]:
    status = main(["rules", "backtest", "--ledger", str(tmp_path / "ledger"), *map(str, args)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize("report", [True, False])
def test_unchanged_rules_say_what_was_said(capsys, tmp_path: Path, remember: Remember, report: bool) -> None:
    remember(1, "starting\nValueError: bad value\n", report=report)
    remember(2, "starting\nValueError: bad value\n", report=report, accounting={"state": "FAILED", "exit_code": "1:0"})
    assert run(capsys, tmp_path) == (0, "2 logs judged, 0 verdicts change\n", "")


@pytest.mark.parametrize("report", [True, False])
def test_rules_of_today_against_what_was_said(
    capsys, tmp_path: Path, remember: Remember, only_packs, report: bool
) -> None:
    log = remember(1, "starting\ngizmo exploded\nValueError: bad value\n", report=report)
    remember(2, "starting\nValueError: bad value\n", report=report)
    only_packs(base=PACKS + GIZMO)
    status, out, _ = run(capsys, tmp_path)
    assert status == 0
    assert out.splitlines()[0] == f"job 1 ({log}): failed, user-error -> failed, gizmo-broken"
    assert out.splitlines()[-1] == "2 logs judged, 1 verdicts change"


def test_new_rules_against_those_in_force(capsys, tmp_path: Path, remember: Remember) -> None:
    remember(1, "starting\ngizmo exploded\nValueError: bad value\n")
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    (overlay / "site.toml").write_text(GIZMO)
    _, out, _ = run(capsys, tmp_path, "--rules", overlay, "--json")
    found = json.loads(out)
    assert (found["changed"], found["after"]["class"], found["rules_gained"]) == (True, "gizmo-broken", ["gizmo"])


def test_accounting_counts_as_it_did(capsys, tmp_path: Path, remember: Remember) -> None:
    """Without the record of accounting this log would be a success."""
    remember(1, "starting\ndone\n", accounting={"state": "OUT_OF_MEMORY", "exit_code": "0:125"})
    assert run(capsys, tmp_path)[1] == "1 logs judged, 0 verdicts change\n"


def test_logs_that_are_gone_are_counted(capsys, tmp_path: Path, remember: Remember) -> None:
    remember(1, "starting\nValueError: bad value\n").unlink()
    remember(2, "starting\nValueError: bad value\n")
    status, out, err = run(capsys, tmp_path)
    assert (status, out) == (5, "1 logs judged, 0 verdicts change, 1 could not be read\n")
    assert err.startswith("slurm-triage: job 1: ")


def test_jobs_that_still_ran_are_left_out(capsys, tmp_path: Path, remember: Remember) -> None:
    remember(1, "starting\n", accounting={"state": "RUNNING"})
    assert run(capsys, tmp_path)[1] == "0 logs judged, 0 verdicts change\n"


def test_only_jobs_of_the_time_that_was_asked_for(capsys, tmp_path: Path, remember: Remember) -> None:
    job = job_from_record({"job_id": 1, "state": "FAILED", "start": 1_000_000, "end": 1_000_100})
    log = remember(9, "starting\nValueError: bad value\n")
    old = replace(record_from_report(triage_path(str(log), job=job)), job_id="1")
    with open_writer(tmp_path / "ledger", "alpha") as writer:
        writer.append([old])
    assert run(capsys, tmp_path, "--since", "now-1day")[1].startswith("1 logs judged")
    assert run(capsys, tmp_path, "--since", "1970-01-02")[1].startswith("2 logs judged")


def test_a_forged_report_is_not_followed(capsys, tmp_path: Path, remember: Remember) -> None:
    log = remember(1, "starting\nValueError: bad value\n")
    report = log.with_name("triage.json")
    other = tmp_path / "other.json"
    other.write_bytes(report.read_bytes().replace(b'"failed"', b'"completed"'))
    report.unlink()
    report.symlink_to(other)
    assert run(capsys, tmp_path)[1] == "1 logs judged, 0 verdicts change\n"


@pytest.mark.parametrize("args", [[], ["x.log", "--ledger"], ["x.log", "--since", "now"]])
def test_logs_or_the_ledger(capsys, args: list[str]) -> None:
    assert main(["rules", "backtest", *args]) == 2
    assert capsys.readouterr().err.startswith("slurm-triage: ")
