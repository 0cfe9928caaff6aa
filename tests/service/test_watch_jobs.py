"""``sbatch --triage=watch`` without Slurm: from the start event to the live report, and the end of it all."""

from __future__ import annotations

import json
import os
import pwd
import stat
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from slurm_triage.model.job import Job
from slurm_triage.service import build
from slurm_triage.service.worker import Worker
from slurm_triage.settings import Settings
from tests.service.conftest import ended_job
from tests.service.fake_site import POLL_S, FakeSite
from tests.service.test_watch import HEADER, step

STEPS = (HEADER + "".join(step(rank, number) for number in range(3) for rank in (0, 1))).encode()


@pytest.fixture
def settings(site: FakeSite) -> Settings:
    # Below the site's own directory, so that the owner may run it.
    notify = site.directory / "notify"
    notify.write_text(f'#!/bin/sh\necho "$(id -u) $SLURM_TRIAGE_STATUS $SLURM_TRIAGE_TEXT" >>{site.home}/told\n')
    notify.chmod(0o755)
    return replace(site.settings, watch_interval_s=0.1, watch_limit_s=0.5, watch_notify=str(notify), watch_jobs=2)


def running(site: FakeSite, job_id: str, log: bytes | None = STEPS, **changes: object) -> Job:
    job = ended_job(site, job_id, state="RUNNING", end=None, exit_code=None, final=False, **changes)
    return site.add(job, log, event=False)


def start(site: FakeSite, job_id: str, wish: str = "watch", **env: str) -> Path:
    return site.event(job_id, "prolog-slurmctld", SPANK_SLURM_TRIAGE=wish, **env)


def until(worker: Worker, what: str, condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 20.0
    while not condition():
        assert time.monotonic() < limit, f"waited in vain for: {what}"
        worker.step()


def report(site: FakeSite, job_id: str) -> Path:
    return site.home / f"slurm-{job_id}.triage.json"


def status(site: FakeSite, job_id: str) -> str | None:
    path = report(site, job_id)
    found: str | None = json.loads(path.read_bytes())["status"] if path.exists() else None
    return found


def is_hanging(site: FakeSite, job_id: str) -> bool:
    return status(site, job_id) == "hanging"


def children(worker: Worker) -> int:
    return len(worker.watching.pool)


def test_a_hang_is_reported_while_it_lasts(site: FakeSite, settings: Settings) -> None:
    job = running(site, "301")
    event = start(site, "301")
    with build.worker(settings, site.accounting, site.engine) as worker:
        worker.poll_s = POLL_S
        until(worker, "live report", partial(is_hanging, site, "301"))
        live = json.loads(report(site, "301").read_bytes())
        assert (live["job"]["state"], live["accounting"]["final"]) == ("RUNNING", False)
        assert live["primary"]["class"] == "hang"
        assert "after step 2" in live["primary"]["title"]
        found = report(site, "301").stat()
        assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (site.uid, 0o644)
        until(worker, "notification", (site.home / "told").exists)
        with open(site.home / "slurm-301.out", "ab") as log:
            log.write((step(0, 3) + step(1, 3)).encode())
        until(worker, "end of the hang", lambda: status(site, "301") == "running")
        until(worker, "second hang", partial(is_hanging, site, "301"))
        assert site.records("301") == [], "only what has ended is in the ledger"
        assert event.exists(), "a worker that comes after a crash goes on watching"
        # The end.
        site.table["301"] = replace(job, state="CANCELLED", exit_signal=15, end=time.time(), final=True)
        site.publish()
        site.event("301")
        until(worker, "final report", lambda: bool(site.records("301")))
        until(worker, "end of the watch", lambda: children(worker) == 0)
        assert (len(worker.watching), site.waiting()) == (0, [])
        worker.drain()
    assert json.loads(report(site, "301").read_bytes())["accounting"]["final"] is True
    told = (site.home / "told").read_text().splitlines()
    assert [line.split()[:2] for line in told] == [[str(site.uid), word] for word in ("hanging", "running", "hanging")]
    assert "301 hanging: step 2" in told[0]
    assert "all 2 ranks stopped after step 2" in told[0]


def test_a_live_report_tells_what_happened_before(site: FakeSite, settings: Settings) -> None:
    before = time.time() - 3600.0
    times = {"submit": before - 100, "start": before - 90, "end": before}
    good = ended_job(site, "312", state="COMPLETED", exit_code=0, name="llama", nodes=("node02",), **times)
    site.add(good, b"epoch 1\ndone\n")
    site.work()
    running(site, "313", name="llama")
    start(site, "313")
    with build.worker(settings, site.accounting, site.engine) as worker:
        worker.poll_s = POLL_S
        until(worker, "live report", partial(is_hanging, site, "313"))
        worker.drain()
    history = json.loads(report(site, "313").read_bytes())["history"]
    assert history["sentences"] == ["Changed since job 312, which worked: nodes without node02, with node01."]


def test_the_command_runs_as_the_owner_in_his_home(site: FakeSite, settings: Settings) -> None:
    owner = pwd.getpwuid(site.uid)
    notify = site.directory / "notify"
    notify.write_text(f'#!/bin/sh\necho "$HOME $USER $(id -u)" >{site.home}/told\n')
    running(site, "321")
    start(site, "321")
    with build.worker(settings, site.accounting, site.engine) as worker:
        worker.poll_s = POLL_S
        until(worker, "notification", (site.home / "told").exists)
        until(worker, "the command's words", lambda: bool((site.home / "told").read_text()))
        worker.drain()
    assert (site.home / "told").read_text() == f"{owner.pw_dir} {owner.pw_name} {site.uid}\n"


def test_the_end_is_noticed_without_any_event(
    site: FakeSite, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurm_triage.service.watch_jobs.ASK_EVERY_S", 0.2)
    job = running(site, "302")
    start(site, "302")
    with build.worker(settings, site.accounting, site.engine) as worker:
        worker.poll_s = POLL_S
        until(worker, "watch", lambda: children(worker) == 1)
        site.table["302"] = replace(job, state="COMPLETED", exit_code=0, end=time.time(), final=True)
        site.publish()
        until(worker, "end of the watch", lambda: children(worker) == 0 and not len(worker.watching))
    assert site.waiting() == []


def test_the_next_worker_goes_on(site: FakeSite, settings: Settings) -> None:
    running(site, "303")
    start(site, "303")
    for _ in range(2):
        report(site, "303").unlink(missing_ok=True)
        with build.worker(settings, site.accounting, site.engine) as worker:
            worker.poll_s = POLL_S
            until(worker, "live report", partial(is_hanging, site, "303"))
            (child,) = worker.watching.pool._children
            worker.drain()
        assert not Path(f"/proc/{child}").exists()
        assert len(site.waiting()) == 1


def test_a_log_that_comes_later_is_followed(site: FakeSite, settings: Settings) -> None:
    running(site, "304", None)
    start(site, "304")
    with build.worker(settings, site.accounting, site.engine) as worker:
        worker.poll_s = POLL_S
        until(worker, "watch", lambda: children(worker) == 1)
        for _ in range(10):
            worker.step()
        assert status(site, "304") is None
        log = site.home / "slurm-304.out"
        log.write_bytes(STEPS)
        os.chown(log, site.uid, site.uid)
        until(worker, "live report", partial(is_hanging, site, "304"))


def test_as_many_as_the_site_allows(site: FakeSite, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurm_triage.service.watch_jobs.ASK_EVERY_S", 0.2)
    jobs = [running(site, str(number)) for number in range(310, 315)]
    for job in jobs:
        start(site, job.job_id or "")
    with build.worker(settings, site.accounting, site.engine) as worker:
        worker.poll_s = POLL_S
        seen = set()
        for job in jobs:
            job_id = job.job_id or ""
            until(worker, f"live report of {job_id}", partial(is_hanging, site, job_id))
            seen.add(children(worker))
            # Its end gives way to another one.
            site.table[job_id] = replace(job, state="FAILED", end=time.time(), final=True)
            site.publish()
            site.event(job_id)
        assert max(seen) <= 2
        until(worker, "all reports", lambda: all(site.records(job.job_id or "") for job in jobs))


@pytest.mark.parametrize(
    "wish, changes",
    [
        ("on", {}),
        ("watch", {"comment": "triage=off"}),
        ("watch", {"submit_line": "sbatch --export=ALL,SLURM_TRIAGE=off x.sh"}),
        ("watch", {"partition": "private"}),
        ("watch", {"state": "COMPLETED", "end": 2e9}),
    ],
)
def test_not_watched(site: FakeSite, settings: Settings, wish: str, changes: dict[str, object]) -> None:
    running(site, "320", STEPS)
    site.table["320"] = replace(site.table["320"], **changes)  # type: ignore[arg-type]
    site.publish()
    start(site, "320", wish)
    with build.worker(replace(settings, off_partitions=("private",)), site.accounting, site.engine) as worker:
        worker.poll_s = POLL_S
        until(worker, "empty spool", lambda: site.waiting() == [])
        assert (children(worker), len(worker.watching)) == (0, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs files of others")
def test_nobody_watches_anothers_job(site: FakeSite, settings: Settings) -> None:
    running(site, "321")
    os.chown(start(site, "321"), 12345, 12345)
    with build.worker(settings, site.accounting, site.engine) as worker:
        worker.poll_s = POLL_S
        until(worker, "empty spool", lambda: site.waiting() == [])
        assert children(worker) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs files of others")
def test_nobody_switches_off_anothers_report(site: FakeSite) -> None:
    site.add(ended_job(site, "322"))
    os.chown(site.event("322", "task-epilog", SLURM_TRIAGE="off"), 12345, 12345)
    site.add(ended_job(site, "323"), event=False)
    os.chown(site.event("323", "task-epilog", SLURM_TRIAGE="off"), site.uid, site.uid)
    worker = site.work()
    assert len(site.records("322")) == 1
    assert (site.records("323"), worker.counts.off) == ([], 1)


def test_the_next_run_of_a_requeued_job_is_watched(site: FakeSite, settings: Settings) -> None:
    running(site, "330")
    first = start(site, "330")
    with build.worker(settings, site.accounting, site.engine) as worker:
        worker.poll_s = POLL_S
        until(worker, "live report", partial(is_hanging, site, "330"))
        (child,) = worker.watching.pool._children
        time.sleep(1.1)  # the name of an event has whole seconds
        second = start(site, "330", SLURM_JOB_RESTART_COUNT="1")
        assert second != first
        until(worker, "another child", lambda: child not in worker.watching.pool._children and children(worker) == 1)
        assert site.waiting() == [second.name]
