"""Several jobs in one child: what one of them does to it costs that one alone, and users never share a child."""

from __future__ import annotations

import os
import pwd
import signal
import stat
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from slurm_triage.service import pool
from slurm_triage.service.child import report_on
from slurm_triage.service.task import Task
from tests.service.conftest import ended_job
from tests.service.fake_site import FakeSite

#: Work that goes wrong, by the end of a job's name.
WRONG: dict[str, Callable[[], bytes]] = {
    "crash": lambda: _die(signal.SIGSEGV),
    "kill": lambda: _die(signal.SIGKILL),
    "exit": lambda: os._exit(0),
    "status": lambda: os._exit(3),
    "hang": lambda: _hang(),
    "memory": lambda: bytes(1 << 50),
    "flood": lambda: b"x" * (8 << 20),
    "garbage": lambda: b"{",
    "raise": lambda: _refuse(),
}


def _die(number: int) -> bytes:
    os.kill(os.getpid(), number)
    return b""


def _hang() -> bytes:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
    return b""


def _refuse() -> bytes:
    raise ValueError("a line\nand another")


@pytest.fixture
def batches(site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the batches that children got. One child at a time, so that batches are as long as they may be."""
    sizes: list[int] = []
    start = pool.Pool.start

    def noted(self: pool.Pool, tasks: list[Task]) -> None:
        sizes.append(len(tasks))
        start(self, tasks)

    def work(task: Task, *rest: object) -> bytes:
        wrong = WRONG.get((task.job.name or "").rpartition("-")[2])
        return wrong() if wrong is not None else report_on(task, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(pool.Pool, "start", noted)
    monkeypatch.setattr("slurm_triage.service.build.report_on", work)
    monkeypatch.setattr("slurm_triage.service.making.TRY_AGAIN_S", 0.0)
    site.settings = replace(site.settings, children=1, child_wall_s=1.0)
    return sizes


@pytest.mark.parametrize("wrong", WRONG)
def test_a_job_costs_its_own_report_alone(site: FakeSite, batches: list[int], wrong: str) -> None:
    for number in range(12):
        site.add(ended_job(site, str(980 + number), name=f"job-{wrong}" if number in (0, 5, 11) else "job"))
    worker = site.work()
    assert max(batches) > 1, "there was a batch"
    records = {record.job_id: record for record in site.all_records()}
    assert sorted(records) == sorted(site.table)
    assert site.lines() == 12
    for job_id, job in site.table.items():
        good = not (job.name or "").endswith(wrong)
        assert (site.home / f"slurm-{job_id}.triage.json").exists() is good
        assert records[job_id].status == ("failed" if good else "unknown")
    assert worker.making.failures == 9


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes two users")
def test_users_never_share_a_child(site: FakeSite, batches: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty private logs of two users; a child of the first also answers for jobs that it was not given."""
    monkeypatch.setitem(WRONG, "lie", lambda: b'{"record": {"status": "completed"}}\n' * 500)
    users = [pwd.getpwnam(name).pw_uid for name in ("nobody", "daemon")]
    for number in range(40):
        uid, job_id = users[number % 2], str(1100 + number)
        home = site.directory / f"home-{uid}"
        home.mkdir(exist_ok=True)
        log = home / f"slurm-{job_id}.out"
        log.write_bytes(b"ValueError: boom\n")
        log.chmod(0o600)
        for path in (home, log):
            os.chown(path, uid, uid)
        name = "job-lie" if number == 38 else "job"
        user = pwd.getpwuid(uid).pw_name
        job = ended_job(site, job_id, uid=uid, user=user, name=name, work_dir=str(home), stdout=str(log))
        site.add(job, None)
    site.work()
    assert max(batches) > 1
    assert site.lines() == 40
    for job_id, job in site.table.items():
        if job.name == "job":
            report = site.directory / f"home-{job.uid}/slurm-{job_id}.triage.json"
            assert (report.stat().st_uid, stat.S_IMODE(report.stat().st_mode)) == (job.uid, 0o600)
            assert site.records(job_id)[0].status == "failed"


@pytest.mark.usefixtures("batches")
def test_a_long_job_keeps_nobody_waiting(site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others of its batch go to another child long before it ends."""

    def long() -> bytes:
        time.sleep(4.0)
        return b'{"record": {}}'

    monkeypatch.setattr(pool, "BATCH_S", 0.1)
    monkeypatch.setitem(WRONG, "long", long)
    site.settings = replace(site.settings, children=2, child_wall_s=20.0)
    for number in range(12):
        site.add(ended_job(site, str(1200 + number), name="job-long" if number == 0 else "job"), event=False)
    for job_id in site.table:
        site.event(job_id)
    site.start()
    others = [site.home / f"slurm-{job_id}.triage.json" for job_id in site.table if job_id != "1200"]
    until = time.monotonic() + 3.0
    while not all(path.exists() for path in others):
        assert time.monotonic() < until
        time.sleep(0.02)
    assert site.records("1200") == []
    until = time.monotonic() + 10.0
    while site.waiting():
        assert time.monotonic() < until
        time.sleep(0.02)
    assert site.lines() == 12
