"""Where ledgers lie, times as sacct takes them, and the check of a directory."""

import os
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from slurm_triage.errors import LedgerError, UsageError
from slurm_triage.ledger import doctor
from slurm_triage.ledger.doctor import check_directory
from slurm_triage.ledger.place import SITE_LEDGER, ledger_root, ledgers_to_read
from slurm_triage.ledger.when import parse_when


@pytest.mark.parametrize(
    ("environ", "uid", "expected"),
    [
        ({"SLURM_TRIAGE_LEDGER": "/l", "HOME": "/h"}, 0, "/l"),
        ({"SLURM_TRIAGE_LEDGER": "/l", "HOME": "/h"}, 1000, "/l"),
        ({"HOME": "/h"}, 0, str(SITE_LEDGER)),
        ({"HOME": "/h"}, 1000, "/h/.local/state/slurm-triage/ledger"),
        ({"HOME": "/h", "XDG_STATE_HOME": "/s"}, 1000, "/s/slurm-triage/ledger"),
        ({"HOME": "/h", "SLURM_TRIAGE_LEDGER": ""}, 1000, "/h/.local/state/slurm-triage/ledger"),
    ],
)
def test_where_to_write(environ: dict[str, str], uid: int, expected: str) -> None:
    assert str(ledger_root(environ, uid)) == expected


def test_a_user_reads_the_sites_ledger_and_the_own_one(tmp_path: Path) -> None:
    site, state = tmp_path / "site", tmp_path / "state"
    own = state / "slurm-triage" / "ledger"
    environ = {"XDG_STATE_HOME": str(state), "HOME": "/h"}
    assert ledgers_to_read(environ, 1000, site) == ()
    own.mkdir(parents=True)
    assert ledgers_to_read(environ, 1000, site) == (own,)
    site.mkdir()
    assert ledgers_to_read(environ, 1000, site) == (site, own)
    assert ledgers_to_read({**environ, "SLURM_TRIAGE_LEDGER": str(site)}, 1000, site) == (site,)


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[float]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield datetime(2026, 3, 10, 14, 30).timestamp()
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01", "2026-03-01T00:00:00"),
        ("2026-03-01T12:30", "2026-03-01T12:30:00"),
        ("2026-03-01T12:30:05", "2026-03-01T12:30:05"),
        ("0301", "2026-03-01T00:00:00"),
        ("030125", "2025-03-01T00:00:00"),
        ("03/01", "2026-03-01T00:00:00"),
        ("03/01/25", "2025-03-01T00:00:00"),
        ("03.01.2024", "2024-03-01T00:00:00"),
        ("03/01-12:30", "2026-03-01T12:30:00"),
        ("08:15", "2026-03-10T08:15:00"),
        ("08:15:30", "2026-03-10T08:15:30"),
        ("3:05pm", "2026-03-10T15:05:00"),
        ("12:05 AM", "2026-03-10T00:05:00"),
        ("now", "2026-03-10T14:30:00"),
        ("now-2days", "2026-03-08T14:30:00"),
        ("now-1hour", "2026-03-10T13:30:00"),
        ("now+90", "2026-03-10T14:31:30"),
        ("now-1week", "2026-03-03T14:30:00"),
        ("today", "2026-03-10T00:00:00"),
        ("midnight", "2026-03-10T00:00:00"),
        ("noon", "2026-03-10T12:00:00"),
        ("teatime", "2026-03-10T16:00:00"),
    ],
)
def test_times_are_local_and_written_as_for_sacct(text: str, expected: str, berlin: float) -> None:
    assert datetime.fromtimestamp(parse_when(text, berlin)).isoformat() == expected


def test_an_offset_is_respected(berlin: float) -> None:
    assert parse_when("2026-03-01T12:00:00Z", berlin) == parse_when("2026-03-01T13:00", berlin)


@pytest.mark.parametrize(
    "text", ["", "yesterday", "25:00", "13:00pm", "1301", "99/99", "now-2fortnights", "2026-13-01", "x"]
)
def test_what_is_no_time_is_one_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="cannot read the"):
        parse_when(text, 0.0)


def test_a_good_directory_passes_and_stays_clean(tmp_path: Path) -> None:
    checks = check_directory(tmp_path / "not" / "there" / "yet")
    assert [c for c in checks if c.result == "failed"] == []
    assert {c.name for c in checks} >= {"lock (flock)", "lock (hard links)", "sync", "atomic replace", "file system"}
    assert list(tmp_path.iterdir()) == []


def test_a_directory_without_hard_links_fails_that_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    failed = {c.name for c in check_directory(tmp_path) if c.result == "failed"}
    assert failed == {"hard links", "lock (hard links)"}


def test_a_network_file_system_gets_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "file_system", lambda _: "nfs4")
    found = {c.name: c for c in check_directory(tmp_path)}
    assert found["file system"].result == "warning"
    assert "two hosts at once cannot be tried" in found["lock (hard links)"].detail


def test_a_broken_lock_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Nothing:
        def release(self, *, force: bool) -> None:
            assert force

    monkeypatch.setattr(doctor, "acquire", lambda *_, **__: Nothing())
    failed = [c for c in check_directory(tmp_path) if c.result == "failed"]
    assert ["a second process got the lock" in c.detail for c in failed] == [True, True]


def test_a_directory_that_cannot_be_written_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(**_: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("slurm_triage.ledger.doctor.tempfile.mkdtemp", refuse)
    with pytest.raises(LedgerError, match="choose another ledger directory"):
        check_directory(tmp_path)
