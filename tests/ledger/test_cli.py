"""The commands as a user types them."""

import csv
import io
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.cli.main import main
from slurm_triage.cli.text_table import Column, Style, print_table
from slurm_triage.ledger.append import open_writer
from slurm_triage.ledger.record import LedgerRecord
from slurm_triage.ledger.segment import segments
from tests.ledger.samples import record

NOW = time.time()


def recent(number: int, hours_ago: float, **changes: object):  # type: ignore[no-untyped-def]
    end = NOW - hours_ago * 3600
    return record(number, **{"start": end - 3600, "end": end, "attempt": f"s{number}", "generated_at": end, **changes})


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLURM_TRIAGE_LEDGER", str(tmp_path))
    monkeypatch.delenv("SLURM_TRIAGE_FORMAT", raising=False)
    rows = [
        recent(1, 5, node_evidence=(("chi2803", "fault"),)),
        recent(2, 4, user="bob", cls="hang", status="hanging", state="RUNNING"),
        recent(3, 3, status="completed", state="COMPLETED", cls=None, fingerprint=None, nodes="chi[2810-2811]"),
        recent(4, 24 * 30, name="old"),
    ]
    with open_writer(tmp_path, "alpha", segment_bytes=1000) as writer:
        for row in rows:
            writer.append([row])
    with open_writer(tmp_path, "beta") as writer:
        writer.append([recent(1, 2, cluster="beta", name="on beta")])
    return tmp_path


def out(capsys: pytest.CaptureFixture[str], *args: str, status: int = 0) -> str:
    assert main(list(args)) == status
    return capsys.readouterr().out


def ids(text: str) -> list[str]:
    return [line.split("|")[0] for line in text.splitlines()]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((), ["7001", "7002", "7003", "7001"]),
        (("-M", "beta"), ["7001"]),
        (("-M", "all", "-u", "bob"), ["7002"]),
        (("-S", "now-90days", "-M", "alpha"), ["7004", "7001", "7002", "7003"]),
        (("-E", "now-29days"), ["7004"]),
        (("-E", "now-20days"), []),
        (("-E", "now-20days", "-j", "7004"), ["7004"]),
        (("-S", "now-90days", "-E", "now-10days"), ["7004"]),
        (("-j", "7004,7002"), ["7004", "7002"]),
        (("-j", "7001", "-M", "alpha"), ["7001"]),
        (("-j", "7001", "-s", "CD"), []),
        (("-s", "hanging"), ["7002"]),
        (("-w", "chi2811"), ["7003"]),
        (("--class", "hang,gpu-hw-fault", "-M", "alpha"), ["7001", "7002"]),
        (("-A", "llm,other", "-M", "alpha"), ["7001", "7002", "7003"]),
        (("-A", "other"), []),
        (("-r", "gpu", "-M", "beta"), ["7001"]),
        (("-r", "cpu"), []),
        (("--name", "on beta"), ["7001"]),
        (("-N", "chi2811"), ["7003"]),
        (("-X", "-a", "-D", "-i", "4", "-M", "beta"), ["7001"]),
        (("-i", "5-9"), []),
        (("-j", "7002", "-i", "2-4"), ["7002"]),
        (("-j", "7002", "-i", "1-3"), []),
    ],
)
@pytest.mark.usefixtures("ledger")
def test_list_filters(capsys: pytest.CaptureFixture[str], args: tuple[str, ...], expected: list[str]) -> None:
    assert ids(out(capsys, "list", "-P", "-n", *args)) == expected


@pytest.mark.usefixtures("ledger")
def test_list_formats(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = out(capsys, "list", "-j", "7001", "-M", "alpha", "-o", "jobid,JobName%6,class%-14,NNODES,elapsed,node")
    assert text.splitlines() == [
        "JobID JobNa+ Class          NNodes  Elapsed Node",
        "----- ------ -------------- ------ -------- -------",
        "7001  JAX-l+ gpu-hw-fault        4 01:00:00 chi2803",
    ]
    monkeypatch.setenv("SLURM_TRIAGE_FORMAT", "JobID,User")
    assert out(capsys, "list", "-P", "-j", "7002") == "JobID|User\n7002|bob\n"
    assert out(capsys, "list", "-P", "--delimiter", ";", "-j", "7002") == "JobID;User\n7002;bob\n"
    assert out(capsys, "list", "-p", "-j", "7002") == "JobID|User|\n7002|bob|\n"
    assert out(capsys, "list", "-pn", "-j", "7002", "-o", "ElapsedRaw,ExitCode") == "3600||\n"
    assert "Fingerprint" in out(capsys, "list", "--helpformat")


@pytest.mark.usefixtures("ledger")
def test_list_json_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(out(capsys, "list", "--json", "-j", "7001", "-M", "alpha"))
    assert document["damaged"] == 0
    assert [job["class"] for job in document["jobs"]] == ["gpu-hw-fault"]
    assert main(["list", "--exit-code", "-j", "7003"]) == 0
    assert main(["list", "--exit-code", "-j", "7001"]) == 1


@pytest.mark.parametrize(
    ("args", "status", "text"),
    [
        (("list", "-o", "JobID,Nonsense"), 2, "unknown field 'Nonsense'; the fields are: JobID"),
        (("list", "-i", "two"), 2, "cannot read the number of nodes 'two'"),
        (("list", "-S", "someday"), 2, "cannot read the time 'someday'"),
        (("list", "--ledger", "/no/such/place"), 3, "there is no ledger at /no/such/place"),
        (("nodes", "n99"), 3, "no job of the ledger ran on n99"),
        (("ledger", "repair", "--break-claim", "x"), 2, "name the one whose claim to break with -M"),
    ],
)
@pytest.mark.usefixtures("ledger")
def test_errors_are_one_sentence(
    capsys: pytest.CaptureFixture[str], args: tuple[str, ...], status: int, text: str
) -> None:
    assert main(list(args)) == status
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1


def test_damage_is_told_by_every_reader_and_repaired(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "sound" in out(capsys, "ledger", "verify")
    path = segments(ledger / "alpha")[0].path
    path.write_bytes(path.read_bytes().replace(b"alice", b"alicf", 1))
    assert main(["list"]) == 5
    assert "1 damaged places were skipped" in capsys.readouterr().err
    text = out(capsys, "ledger", "verify", status=5)
    assert "damaged: run slurm-triage ledger repair" in text
    assert "1 records lost" in text
    assert not json.loads(out(capsys, "ledger", "verify", "--json", status=5))[0]["sound"]
    assert "1 places" in out(capsys, "ledger", "repair")
    assert "sound; 1 records lost in the past" in out(capsys, "ledger", "verify")


@pytest.mark.usefixtures("ledger")
def test_stats_and_retire(capsys: pytest.CaptureFixture[str]) -> None:
    before = json.loads(out(capsys, "ledger", "stats", "--json"))["total"]
    assert before["attempts"] == 5
    assert "gpu-hw-fault" in out(capsys, "ledger", "stats")
    assert "alpha: 0 segments" in out(capsys, "ledger", "retire", "--older-than", "60")
    assert json.loads(out(capsys, "ledger", "stats", "--json"))["total"] == before


def test_export(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = ledger.parent / "out.csv"
    out(capsys, "ledger", "export", "--format", "csv", "-O", str(target), "-M", "alpha")
    assert len(list(csv.DictReader(target.open(newline="")))) == 4
    assert main(["ledger", "export", "-O", "/no/such/dir/x"]) == 5
    assert "cannot write /no/such/dir/x" in capsys.readouterr().err


@pytest.mark.usefixtures("ledger")
def test_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, "nodes")
    # The four nodes of beta have the same names and are others.
    assert text.splitlines()[2].split()[:4] == ["alpha", "chi2803", "3", "1"]
    assert "exclude until" in text
    assert out(capsys, "nodes", "-M", "alpha").splitlines()[2].split()[:3] == ["chi2803", "3", "1"]
    assert out(capsys, "nodes", "--exclude", "-M", "alpha") == "chi2803\n"
    assert out(capsys, "nodes", "--exclude", "-M", "beta") == "\n"
    assert out(capsys, "nodes", "chi2801,chi2810", "--exclude", "-M", "alpha") == "\n"
    assert len(out(capsys, "nodes", "-a", "-P", "-n").splitlines()) == 10
    assert ids(out(capsys, "nodes", "chi[2802-2803]", "-M", "alpha", "-P", "-n")) == ["chi2803", "chi2802"]
    assert json.loads(out(capsys, "nodes", "--json"))["nodes"][0]["node"] == "chi2803"
    sheet = out(capsys, "nodes", "chi2803")
    assert sheet.startswith("chi2803 of alpha: 3 jobs, 1 in which it was the node that failed\n")
    assert "chi2803 of beta: 1 jobs, 0 in which" in sheet
    sheet = out(capsys, "nodes", "chi2803", "-M", "alpha")
    assert "1 in which it was the node that failed" in sheet
    assert "gpu-hw-fault" in sheet
    assert json.loads(out(capsys, "nodes", "chi2803", "-M", "alpha", "--json"))["events"] == 1
    assert len(json.loads(out(capsys, "nodes", "chi2803", "--json"))["nodes"]) == 2
    assert "advice      none" in out(capsys, "nodes", "chi2810")


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([recent(1, 9, node_evidence=(("n1", "fault"),), nodes="n[1-2]")], "exclude until "),
        (
            [
                recent(1, 9, node_evidence=(("n1", "fault"),), nodes="n[1-2]"),
                recent(2, 1, status="completed", nodes="n1"),
            ],
            "none; it has finished a job cleanly since it failed",
        ),
        ([recent(1, 200, node_evidence=(("n1", "fault"),), nodes="n[1-2]")], "none; it has not failed for 7 days"),
        (
            [recent(1, 9, node_evidence=(("n1", "died-first"),), nodes="n[1-2]")],
            "none; what was seen is no evidence against the node",
        ),
    ],
)
def test_a_rap_sheet_says_why_there_is_advice_or_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: list[LedgerRecord], text: str
) -> None:
    with open_writer(tmp_path, "alpha") as writer:
        writer.append(rows)
    sheet = out(capsys, "nodes", "n1", "--ledger", str(tmp_path))
    assert f"  advice      {text}" in sheet
    assert "corrected for all nodes q = " in sheet


def test_doctor_tries_out_one_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, "doctor", "--ledger", str(tmp_path))
    names = {line.split(None, 2)[1] for line in text.splitlines()[1:]}
    assert names == {"ledger"}
    for check in ("exclusive create", "atomic replace", "sync", "lock (flock)", "lock (hard links)"):
        assert f" {check}: " in text
    assert list(tmp_path.iterdir()) == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def table(monkeypatch: pytest.MonkeyPatch, width: int, name: str) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    terminal = Terminal()
    columns = [Column("JobID"), Column("JobName", shrinks=True), Column("Status")]
    print_table(columns, [["7001", name, "failed"]], Style(), terminal)
    return terminal.getvalue().splitlines()


def test_a_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    for width in (40, 60, 200):
        assert max(map(len, table(monkeypatch, width, "x" * 100))) <= width
    assert "x" * 100 in table(monkeypatch, 200, "x" * 100)[2]
    assert "+" in table(monkeypatch, 60, "x" * 100)[2]


def test_colour_only_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert table(monkeypatch, 80, "a")[2].startswith("\x1b[31m")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in "".join(table(monkeypatch, 80, "a"))


def test_a_job_name_cannot_steer_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = "".join(table(monkeypatch, 200, "a\x1b]0;owned\x07\x9b31m\u202eb\nc"))
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c == "\u202e" for c in text)


def test_the_newest_revision_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = recent(1, 2)
    with open_writer(tmp_path, "alpha") as writer:
        writer.append([first, replace(first, revision=first.revision + 1, cls="hang")])
    text = out(capsys, "list", "--ledger", str(tmp_path), "-P", "-n", "-o", "JobID,Class")
    assert text == "7001|hang\n"
