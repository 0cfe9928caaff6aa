"""Disks that are full, over quota, read-only or gone: nothing is half written, nothing is lost, and when there is room
again everything is made up for."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.errors import LedgerError, PartialResultError, TriageError
from slurm_triage.ledger.verify import verify_all
from slurm_triage.slurm.retry import Backoff
from tests.service.conftest import ended_job
from tests.service.fake_site import FakeSite
from tests.service.small_disks import Disk, full_disk, over_quota, read_only

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="file systems are mounted by root alone")


def wait_until(what: str, condition: Callable[[], bool], patience_s: float = 20.0) -> None:
    until = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < until, f"not in {patience_s:.0f} s: {what}"
        time.sleep(0.02)


@pytest.fixture(params=["full", "over quota", "read-only"])
def home(request: pytest.FixtureRequest, site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """The users' file system. Not written reports are tried again at once."""
    monkeypatch.setattr("slurm_triage.service.pending.UNWRITTEN", Backoff(first_s=0.2, longest_s=0.2))
    kinds: dict[str, AbstractContextManager[Disk]] = {
        "full": full_disk(site.home),
        "over quota": over_quota(site.home, site.uid),
        "read-only": read_only(site.home),
    }
    with kinds[request.param] as disk:
        os.chown(site.home, site.uid, site.uid)
        yield disk


@root_only
def test_report_is_written_when_there_is_room_again(site: FakeSite, home: Disk) -> None:
    site.add(ended_job(site, "901"), event=False)
    home.break_it()
    before = sorted(path.name for path in site.home.iterdir())
    site.start()
    site.event("901")
    wait_until("a record", lambda: bool(site.records("901")))
    (record,) = site.records("901")
    assert (record.cls, record.report_path, record.provisional) == ("python-exception", None, True)
    time.sleep(0.5)
    assert sorted(path.name for path in site.home.iterdir()) == before, "nothing is half written"
    assert len(site.waiting()) == 1
    home.repair()
    wait_until("no event", lambda: not site.waiting())
    (record,) = site.records("901")
    assert (record.cls, record.provisional) == ("python-exception", False)
    assert json.loads(Path(record.report_path or "").read_bytes())["job"]["id"] == "901"


@root_only
def test_worker_killed_while_there_is_no_room(site: FakeSite, home: Disk) -> None:
    site.add(ended_job(site, "902"), event=False)
    home.break_it()
    site.start()
    site.event("902")
    wait_until("a record", lambda: bool(site.records("902")))
    site.kill(signal.SIGKILL)
    home.repair()
    site.work()
    (record,) = site.records("902")
    assert Path(record.report_path or "").exists()
    assert site.waiting() == []


@root_only
def test_reconciler_does_not_wait_for_room(site: FakeSite, home: Disk) -> None:
    site.settings = replace(site.settings, reconcile_s=0.2, reconcile_lag_s=0.0)
    site.publish()
    site.start()
    site.add(ended_job(site, "932", end=time.time()), event=False)
    home.break_it()
    wait_until("a record", lambda: bool(site.records("932")))
    site.add(ended_job(site, "933", end=time.time()), None, event=False)
    wait_until("a record", lambda: bool(site.records("933")))
    home.repair()


@root_only
def test_no_room_for_very_long(site: FakeSite, home: Disk) -> None:
    site.add(ended_job(site, "903"), event=False)
    home.break_it()
    site.event("903")
    site.work(settings=replace(site.settings, give_up_s=0.0))
    (record,) = site.records("903")
    assert (record.cls, record.report_path, record.provisional) == ("python-exception", None, False)
    assert site.waiting() == []
    home.repair()


@root_only
def test_full_spool(site: FakeSite) -> None:
    """What was in it is dealt with; jobs whose events found no room are found through accounting."""
    spool = site.settings.spool
    settings = replace(site.settings, reconcile_s=600.0)
    now = time.time()
    with full_disk(spool) as disk:
        for name in ("new", "tmp", "bad"):
            (spool / name).mkdir()
        site.add(ended_job(site, "904"))
        disk.break_it()
        with pytest.raises(PartialResultError, match="No space left"):
            site.add(ended_job(site, "905", end=now - 400, start=now - 500))
        assert len(site.waiting()) == 1
        assert list((spool / "tmp").iterdir()) == [], "nothing is half written"
        site.settings.state.mkdir()
        (site.settings.state / "reconciled").write_text(f"{int(now - 600)}\n")
        site.work(settings=settings)
        assert site.waiting() == []
        assert sorted(record.job_id for record in site.all_records()) == ["904", "905"]
        disk.repair()
        site.add(ended_job(site, "906"))
        site.work(settings=settings)
        assert len(site.records("906")) == 1


@root_only
def test_read_only_spool(site: FakeSite) -> None:
    """An event that cannot be removed is not reported twice, and is removed in the end."""
    with read_only(site.settings.spool) as disk:
        site.add(ended_job(site, "907"))
        disk.break_it()
        pid = site.start()
        wait_until("a record", lambda: bool(site.records("907")))
        time.sleep(0.5)
        os.kill(pid, 0)
        assert len(site.waiting()) == 1
        disk.repair()
        wait_until("no event", lambda: not site.waiting())
    assert site.lines() == 1


@root_only
def test_full_ledger(site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is full, while its worker is killed, and while the next one cannot even start."""
    monkeypatch.setattr("slurm_triage.service.recording.AGAIN_S", 0.2)
    with full_disk(site.settings.ledger) as disk:
        site.start()
        site.add(ended_job(site, "908"))
        wait_until("no event", lambda: not site.waiting())
        for jobs in (range(910, 920), range(920, 930)):
            disk.break_it()
            # More than fits into what is left of the last page.
            for job_id in map(str, jobs):
                site.add(ended_job(site, job_id))
            wait_until("reports", lambda: all((site.home / f"slurm-{i}.triage.json").exists() for i in jobs))  # noqa: B023
            time.sleep(0.5)
            unrecorded = [job_id for job_id in site.table if not site.records(job_id)]
            assert unrecorded
            assert set(unrecorded) <= {name.split(".")[-2] for name in site.waiting()}, "not recorded, so not removed"
            if jobs[0] == 910:
                disk.repair()
                wait_until("no event", lambda: not site.waiting())
        site.kill(signal.SIGKILL)
        with pytest.raises(LedgerError, match="No space left"):
            site.work()
        assert set(unrecorded) <= {name.split(".")[-2] for name in site.waiting()}
        disk.repair()
        site.work()
        assert site.waiting() == []
        assert sorted(record.job_id for record in site.all_records()) == sorted(site.table)
        assert [finding for verdict in verify_all((site.settings.ledger,)) for finding in verdict.new_losses] == []


@root_only
def test_read_only_ledger(site: FakeSite) -> None:
    site.add(ended_job(site, "931"))
    with read_only(site.settings.ledger) as disk:
        disk.break_it()
        with pytest.raises(LedgerError, match="Read-only"):
            site.work()
        assert len(site.waiting()) == 1
        disk.repair()
        site.work()
        assert len(site.records("931")) == 1


@root_only
def test_full_state_directory(site: FakeSite) -> None:
    """The reconciler's mark is not written; it goes on all the same, and asks for more after a restart."""
    now = time.time()
    settings = replace(site.settings, reconcile_s=600.0)
    site.settings.state.mkdir()
    with full_disk(site.settings.state) as disk:
        mark = site.settings.state / "reconciled"
        mark.write_text(f"{int(now - 600)}\n")
        disk.break_it()
        site.add(ended_job(site, "911", end=now - 400, start=now - 500), event=False)
        assert site.work(settings=settings).counts.reports == 1
        assert mark.read_text() == f"{int(now - 600)}\n"
        disk.repair()
        assert site.work(settings=settings).counts.reports == 0
        assert float(mark.read_text()) > now - 200


def test_users_directory_gone(site: FakeSite) -> None:
    site.add(ended_job(site, "912"))
    shutil.rmtree(site.home)
    site.work()
    (record,) = site.records("912")
    assert (record.state, record.report_path) == ("FAILED", None)
    assert site.waiting() == []
    site.home.mkdir()


def test_spool_that_is_missing(site: FakeSite) -> None:
    new = site.settings.spool / "new"
    new.rename(new.with_name("gone"))
    with pytest.raises(TriageError, match="there is no spool at"):
        site.work()
    assert not new.exists(), "a worker that makes its own spool would hide that the hooks write to another one"
    new.with_name("gone").rename(new)


def test_spool_that_goes_and_comes_back(site: FakeSite) -> None:
    pid = site.start()
    new = site.settings.spool / "new"
    site.add(ended_job(site, "913"))
    wait_until("no event", lambda: not site.waiting())
    new.rename(new.with_name("gone"))
    time.sleep(0.5)
    os.kill(pid, 0)
    new.with_name("gone").rename(new)
    site.add(ended_job(site, "914"))
    wait_until("no event", lambda: not site.waiting())
    assert len(site.records("914")) == 1
