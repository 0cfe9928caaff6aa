"""SIGKILL at any moment, two workers, full disks: nothing is lost, nothing is reported twice."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.errors import LedgerError
from slurm_triage.ledger.append import Writer
from slurm_triage.service import child, pool
from slurm_triage.service.task import Task
from tests.service.conftest import ended_job
from tests.service.fake_site import FAILED_LOG, FakeSite

JOBS = 1000


def test_worker_and_children_killed_at_random_moments(site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """While 1 000 jobs end, now a child is killed and now the worker. Every job has one record and one whole report,
    and no event is left."""
    monkeypatch.setattr("slurm_triage.service.making.TRY_AGAIN_S", 0.02)
    # A job whose children are killed three times by chance would rightly be given up.
    monkeypatch.setattr("slurm_triage.service.making.TRIES", 50)
    rng = random.Random(20261130)
    done = ended_job(site, "0")
    waiting = [str(1000 + number) for number in range(JOBS)]
    for job_id in waiting:
        path = site.home / f"slurm-{job_id}.out"
        path.write_bytes(FAILED_LOG)
        os.chown(path, site.uid, site.uid)
        site.table[job_id] = replace(done, job_id=job_id, work_dir=str(site.home), stdout=str(path))
    site.publish()
    workers = children = 0
    until = time.monotonic() + 240.0
    while waiting or site.waiting():
        assert time.monotonic() < until, f"{len(site.waiting())} events left after {workers} and {children} kills"
        room = max(0, 100 - len(site.waiting()))
        for job_id in [waiting.pop() for _ in range(min(len(waiting), room))]:
            site.event(job_id)
            if rng.random() < 0.3:
                site.event(job_id, "jobcomp")
        # Moments are counted in events, so that a busy machine gets as far as an idle one.
        pid, left = site.start(), max(0, len(site.waiting()) - rng.randrange(60))
        time.sleep(rng.random() * 0.3)
        while len(site.waiting()) > left and time.monotonic() < until:
            time.sleep(rng.random() * 0.1)
            found = _children(pid)
            if found and rng.random() < 0.3:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rng.choice(found), signal.SIGKILL)
                    children += 1
        site.kill(signal.SIGKILL)
        workers += 1
    print(f"{JOBS} jobs, {workers} workers and {children} children killed, {site.lines()} records written")
    assert workers >= 20
    assert children >= 20
    records = site.all_records()
    assert sorted(r.job_id for r in records) == sorted(site.table)
    assert {r.cls for r in records} == {"python-exception"}
    for job_id in site.table:
        assert json.loads((site.home / f"slurm-{job_id}.triage.json").read_bytes())["job"]["id"] == job_id


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def _until_empty(site: FakeSite, patience_s: float) -> None:
    until = time.monotonic() + patience_s
    while site.waiting() and time.monotonic() < until:
        time.sleep(0.1)


def test_children_die_with_the_worker(site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(task: Task, *rest: object) -> bytes:
        del task, rest
        (site.home / "begun").touch()
        time.sleep(30)
        (site.home / "survived").touch()
        return b""

    monkeypatch.setattr("slurm_triage.service.build.report_on", slow)
    site.add(ended_job(site, "201"))
    pid = site.start()
    _wait_for(site.home / "begun")
    children = _children(pid)
    assert len(children) == 1
    site.kill()
    until = time.monotonic() + 5.0
    while Path(f"/proc/{children[0]}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{children[0]}").exists()
    monkeypatch.setattr("slurm_triage.service.build.report_on", child.report_on)
    site.work()
    assert len(site.records("201")) == 1


def _wait_for(path: Path, patience_s: float = 20.0) -> None:
    until = time.monotonic() + patience_s
    while not path.exists():
        assert time.monotonic() < until, f"{path} never appeared"
        time.sleep(0.05)


def test_sigterm_finishes_what_runs(site: FakeSite) -> None:
    for number in range(20):
        site.add(ended_job(site, str(300 + number)))
    site.start()
    _wait_for(site.home / "slurm-300.triage.json")
    status = site.kill(signal.SIGTERM)
    assert status == 0
    recorded = {r.job_id for r in site.all_records()}
    left = {name.split(".")[-2] for name in site.waiting()}
    assert recorded, "what ran was finished"
    assert recorded | left == set(site.table)
    assert recorded & left == set()


def test_second_worker_is_refused(site: FakeSite) -> None:
    site.add(ended_job(site, "401"))
    first = site.start()
    _until_empty(site, 20.0)
    with pytest.raises(LedgerError, match="another writer"):
        site.work()
    os.kill(first, 0)
    assert len(site.records("401")) == 1
    site.kill(signal.SIGTERM)
    site.add(ended_job(site, "402"))
    site.work()
    assert len(site.records("402")) == 1


def test_two_started_at_once_share_nothing(site: FakeSite, place: Path) -> None:
    for number in range(30):
        site.add(ended_job(site, str(500 + number)))
    log = place / "worker.log"
    one = site.start(log)
    two = site.start(log)
    _until_empty(site, 30.0)
    assert sorted(r.job_id for r in site.all_records()) == sorted(site.table)
    assert site.lines() == 30
    for pid in (one, two):
        if os.waitpid(pid, os.WNOHANG)[0] == 0:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
    site._pid = None
    assert "another writer" in log.read_text()


def test_ledger_that_cannot_be_written_keeps_the_events(site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    site.add(ended_job(site, "601"))
    whole = Writer.append

    def full(self: Writer, records: object) -> int:
        del self, records
        raise LedgerError("cannot write the ledger (No space left on device)")

    monkeypatch.setattr(Writer, "append", full)
    site.steps(20)
    assert len(site.waiting()) == 1
    monkeypatch.setattr(Writer, "append", whole)
    site.work()
    assert len(site.records("601")) == 1
    assert site.waiting() == []


def test_child_that_crashes_gives_up_in_the_end(site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(task: Task, *rest: object) -> bytes:
        del task, rest
        os.kill(os.getpid(), signal.SIGSEGV)
        return b""

    monkeypatch.setattr("slurm_triage.service.build.report_on", crash)
    monkeypatch.setattr("slurm_triage.service.making.TRY_AGAIN_S", 0.0)
    site.add(ended_job(site, "701"))
    worker = site.work()
    assert worker.making.failures == 3
    (record,) = site.records("701")
    assert (record.status, record.cls, record.state) == ("unknown", None, "FAILED")
    assert site.waiting() == []


def test_child_that_never_ends_is_killed(site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(task: Task, *rest: object) -> bytes:
        del task, rest
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
        return b""

    monkeypatch.setattr("slurm_triage.service.build.report_on", hang)
    monkeypatch.setattr("slurm_triage.service.making.TRIES", 1)
    site.add(ended_job(site, "702"))
    worker = site.work(settings=replace(site.settings, child_wall_s=1.0))
    assert worker.making.failures == 1
    assert site.records("702")[0].status == "unknown"


def test_child_that_talks_too_much_is_killed(site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurm_triage.service.build.report_on", lambda *_: b"x" * (8 << 20))
    monkeypatch.setattr("slurm_triage.service.making.TRIES", 1)
    site.add(ended_job(site, "703"))
    site.work()
    assert site.records("703")[0].status == "unknown"


def test_no_process_to_be_had(site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = [OSError(errno.EAGAIN, "Resource temporarily unavailable")] * 2
    start = pool.Pool.start

    def sometimes(self: pool.Pool, tasks: Sequence[Task]) -> None:
        if refusals:
            raise refusals.pop()
        start(self, tasks)

    monkeypatch.setattr(pool.Pool, "start", sometimes)
    monkeypatch.setattr("slurm_triage.service.making.TRY_AGAIN_S", 0.0)
    site.add(ended_job(site, "704"))
    site.work()
    assert site.records("704")[0].cls == "python-exception"
