"""``rules backtest``: which verdicts change when rules are added, replaced or switched off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_triage.cli.main import main

from .packtext import class_text, rule_text

PACKS = class_text("user-error") + rule_text("bad-value", "user-error", pattern="ValueError: ")


GIZMO = class_text("gizmo-broken") + rule_text("gizmo", "gizmo-broken").replace("A title", "The gizmo")


@pytest.fixture(autouse=True)
def small_packs(only_packs) -> None:
    """Compiling the real packs takes a second each time."""
    only_packs(base=PACKS)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    directory = tmp_path / "logs"
    directory.mkdir()
    (directory / "broken.log").write_text("starting\ngizmo exploded\nValueError: bad value\n")
    (directory / "other.log").write_text("starting\nValueError: bad value\n")
    return directory


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    directory = tmp_path / "new"
    directory.mkdir()
    (directory / "site.toml").write_text(GIZMO)
    return directory


def run(capsys, *args: object) -> tuple[int, str, str]:
    status = main(["rules", "backtest", *map(str, args)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_new_rule_changes_one_verdict(capsys, logs: Path, overlay: Path) -> None:
    status, out, err = run(capsys, "--rules", overlay, logs / "broken.log", logs / "other.log")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"{logs}/broken.log: failed, user-error -> failed, gizmo-broken [+gizmo]"
    assert lines[1] == "    A title -> The gizmo"
    assert lines[2:] == ["2 logs judged, 1 verdicts change"]


def test_json(capsys, logs: Path, overlay: Path) -> None:
    _, out, _ = run(capsys, "--json", "--rules", overlay, logs / "broken.log", logs / "other.log")
    first, second = map(json.loads, out.splitlines())
    assert (first["changed"], first["after"]["class"], first["rules_gained"]) == (True, "gizmo-broken", ["gizmo"])
    assert (second["changed"], second["rules_gained"], second["rules_lost"]) == (False, [], [])
    assert second["before"] == second["after"]


def test_a_harmless_rule_is_shown_though_the_verdict_stays(capsys, logs: Path, overlay: Path) -> None:
    (overlay / "site.toml").write_text(rule_text("gizmo"))
    _, out, _ = run(capsys, "--rules", overlay, logs / "broken.log")
    assert out == f"{logs}/broken.log: failed, user-error, as before [+gizmo]\n1 logs judged, 0 verdicts change\n"


def test_without_a_directory_the_overlays_in_force_are_judged(capsys, logs: Path, overlay: Path, monkeypatch) -> None:
    monkeypatch.setattr("slurm_triage.rules.load.SITE_DIR", overlay)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    _, out, _ = run(capsys, logs / "broken.log")
    assert "user-error -> failed, gizmo-broken [+gizmo]" in out


def test_what_cannot_be_read_is_said_and_the_rest_judged(capsys, logs: Path, overlay: Path) -> None:
    status, out, err = run(capsys, "--rules", overlay, logs / "none.log", logs / "broken.log")
    assert status == 5
    assert "none.log" in err
    assert out.endswith("1 logs judged, 1 verdicts change\n")
    status, _, err = run(capsys, "--rules", logs / "none", logs)
    assert (status, err) == (3, f"slurm-triage: {logs}/none is not a directory of rule packs\n")
