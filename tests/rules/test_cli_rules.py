"""``slurm-triage rules``: tables, show, test, lint."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from slurm_triage.cli.main import main

from .packtext import class_text, rule_text

PACK = (
    class_text("disk-broken")
    + rule_text("disk-gone", "disk-broken", pattern="disk gone", extra="verify = ['^disk']\npriority = 3")
    + rule_text("noise", pattern="widget fine")
    + rule_text("started", "fact", pattern="job started", extra="fact = 'start'\nextract = ['job (?P<port>\\d+)']")
    + "[[dialect]]\nid = 'steps'\nliteral = 'step done: '\npattern = 'step done: (?P<step>\\d+)'\nunit = 'tokens/s'\n"
)


@pytest.fixture(autouse=True)
def packs(only_packs) -> Path:
    directory: Path = only_packs(base=PACK)
    return directory


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    status = main(["rules", *args])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_list(capsys) -> None:
    status, out, _ = run(capsys, "list")
    assert status == 0
    assert out.splitlines() == [
        "Id        Class        Role Priority Pack Title",
        "--------- ------------ ---- -------- ---- -------------------",
        "disk-gone disk-broken  root 3        base A title",
        "noise     harmless     root 0        base A title",
        "started   fact         root 0        base A title",
        "steps     step-dialect               base step line, tokens/s",
    ]


def test_list_filters_and_fields(capsys) -> None:
    assert (
        run(capsys, "list", "--class", "fact", "-n", "-P", "-o", "id,fact,patterns")[1] == "started|start|job started\n"
    )
    assert run(capsys, "list", "--pack", "base", "-P", "-o", "ID")[1].split() == [
        "Id",
        "disk-gone",
        "noise",
        "started",
        "steps",
    ]
    status, _, err = run(capsys, "list", "-o", "id,colour")
    assert (status, err) == (2, f"slurm-triage: unknown field 'colour'; the fields are: {err.partition('are: ')[2]}")
    assert run(capsys, "list", "-o", ",")[0] == 2
    status, _, err = run(capsys, "list", "--class", "nope", "--pack", "base")
    assert (status, err) == (
        3,
        "slurm-triage: no rule is of class 'nope' and pack 'base'; see: slurm-triage rules list\n",
    )


def test_list_json_holds_everything(capsys) -> None:
    rules = json.loads(run(capsys, "list", "--json")[1])
    assert [(r["id"], r.get("class")) for r in rules] == [
        ("disk-gone", "disk-broken"), ("noise", "harmless"), ("started", "fact"), ("steps", None)
    ]  # fmt: skip
    assert rules[0]["samples_match"] == ["disk gone"]
    assert (rules[0]["domain"], rules[0]["verify"]) == ("storage", ["^disk"])


def test_show_a_rule(capsys) -> None:
    status, out, _ = run(capsys, "show", "disk-gone")
    assert status == 0
    lines = dict(line.split(None, 1) for line in out.splitlines()[1:])
    assert lines["class"] == "disk-broken"
    assert lines["verify"] == "^disk"
    assert lines["samples_match"] == "disk gone"
    assert lines["samples_reject"] == "all is well"
    assert json.loads(run(capsys, "show", "disk-gone", "--json")[1])["patterns"] == ["disk gone"]


def test_show_a_class_lists_its_rules(capsys) -> None:
    out = run(capsys, "show", "disk-broken")[1]
    assert "  rules          disk-gone\n" in out
    assert "  means          It broke.\n" in out


def test_show_nothing(capsys) -> None:
    status, out, err = run(capsys, "show", "nope")
    assert (status, out) == (3, "")
    assert err == "slurm-triage: no rule, step dialect or class is called 'nope'; see: slurm-triage rules list\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.txt"
    path.write_text("job started\n0: disk gone\n0: the disk gone\n\x1b[31mwidget fine\x07\n")
    return path


def test_test(capsys, log: Path) -> None:
    status, out, _ = run(capsys, "test", str(log))
    assert status == 0
    assert out.splitlines() == [
        f"{log}:2: disk-gone (disk-broken) disk gone",
        f"{log}:4: noise (harmless) widget fine\ufffd",
    ]


def test_test_selections(capsys, log: Path) -> None:
    assert run(capsys, "test", "--facts", str(log))[1].splitlines()[0] == f"{log}:1: started (fact) job started"
    assert run(capsys, "test", "--rule", "started", str(log))[1].count("\n") == 1
    assert run(capsys, "test", "--class", "harmless", str(log))[1].count("\n") == 1
    rejected = run(capsys, "test", "--rejected", "--rule", "disk-gone", str(log))[1].splitlines()
    assert rejected[1] == f"{log}:3: disk-gone (disk-broken) not: no verify expression matches: ^disk the disk gone"
    assert run(capsys, "test", "--rule", "nope", str(log))[0] == 3


def test_test_counts_and_json(capsys, log: Path) -> None:
    assert run(capsys, "test", "-c", str(log), str(log))[1].splitlines()[2:] == [
        "2     disk-gone disk-broken",
        "2     noise     harmless",
    ]
    assert json.loads(run(capsys, "test", "-c", "--json", "--rule", "noise", str(log))[1]) == [
        {"lines": 1, "id": "noise", "class": "harmless"}
    ]
    first = json.loads(run(capsys, "test", "--json", str(log))[1].splitlines()[0])
    assert first == {"file": str(log), "line": 2, "offset": 12, "rule": "disk-gone", "class": "disk-broken",
                     "rejected": None, "captures": {}, "text": "disk gone"}  # fmt: skip


def test_test_reads_standard_input(capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"disk gone\n")))
    assert run(capsys, "test", "-")[1] == "-:1: disk-gone (disk-broken) disk gone\n"


def test_test_of_nothing(capsys, tmp_path: Path) -> None:
    status, _, err = run(capsys, "test", str(tmp_path / "none"))
    assert (status, err) == (3, f"slurm-triage: cannot read {tmp_path}/none: No such file or directory\n")
    assert run(capsys, "test", str(tmp_path))[2] == f"slurm-triage: cannot read {tmp_path}: Is a directory\n"


def test_lint(capsys, packs: Path, tmp_path: Path) -> None:
    line = PACK[: PACK.index("id = 'steps'")].count("\n") + 1
    status, out, _ = run(capsys, "lint")
    assert status == 1
    assert out.splitlines() == [
        f"{packs}/base.toml:{line}: steps: needs at least one matching sample",
        f"{packs}/base.toml:{line}: steps: needs at least one rejecting sample",
    ]
    mine = tmp_path / "mine.toml"
    mine.write_text(rule_text("fine", pattern="quite fine"))
    assert run(capsys, "lint", str(mine)) == (0, "", "no problems\n")
    assert run(capsys, "lint", str(tmp_path / "none.toml"))[0] == 3


def test_a_broken_pack_is_one_sentence(capsys, packs: Path) -> None:
    (packs / "base.toml").write_text("x = [\n")
    status, out, err = run(capsys, "list")
    assert (status, out) == (2, "")
    assert err.startswith(f"slurm-triage: {packs}/base.toml:")
    assert err.count("\n") == 1
