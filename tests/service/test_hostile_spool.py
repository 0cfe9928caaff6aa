"""What anybody may try who can write into the spool, and what a flood of jobs may do to other users' jobs."""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.cli.main import main
from slurm_triage.model.progress import Progress
from slurm_triage.service import build, spool, watch_jobs
from slurm_triage.service.notify import notify
from slurm_triage.service.spool import Spool
from slurm_triage.service.watch import Look
from slurm_triage.service.worker import Worker
from slurm_triage.slurm.hook_env import HookAccounting
from tests.service.conftest import ended_job
from tests.service.fake_site import FAILED_LOG, POLL_S, FakeSite

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs files of others")
STRANGER, OTHER_OWNER = 12345, 1
ESCAPES = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def forge(site: FakeSite, job_id: str, kind: str, *, at: int | None = None, pad: int = 0, uid: int = STRANGER) -> Path:
    """An event of somebody who is neither Slurm nor the job's owner."""
    path = site.settings.spool / "new" / f"forged-{kind}-{job_id}-{time.monotonic_ns()}"
    lines = ["slurm-triage-event=1", f"kind={kind}", "host=a", f"time={at or int(time.time())}"]
    lines += [f"SLURM_JOB_ID={job_id}", "SPANK_SLURM_TRIAGE=watch", *["kernel=" + "x" * 1000] * pad]
    path.write_text("\n".join([*lines, "end=1", ""]))
    os.chown(path, uid, uid)
    return path


def running(site: FakeSite, job_id: str) -> Path:
    site.add(ended_job(site, job_id, state="RUNNING", end=None, exit_code=None, final=False), b"x\n", event=False)
    return site.event(job_id, "prolog-slurmctld", SPANK_SLURM_TRIAGE="watch")


def steps(worker: Worker, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        worker.step()


def test_nobody_ends_anothers_watch(site: FakeSite) -> None:
    genuine = running(site, "500")
    with build.worker(site.settings, site.accounting, site.engine) as worker:
        worker.poll_s = POLL_S
        steps(worker, 0.5)
        (child,) = worker.watching.pool._children
        forged = forge(site, "500", "spank", at=999_999_999_999)
        steps(worker, 1.0)
        assert list(worker.watching.pool._children) == [child]
        assert genuine.exists()
        assert not forged.exists()


def test_forged_starts_do_not_crowd_out_a_genuine_one(site: FakeSite) -> None:
    """A stranger's word first, in number, also about the job itself; those that find no place wait in the spool."""
    number = watch_jobs.MAX_UNTRUSTED + 30
    site.publish()
    for job_id in ["500", *map(str, range(70_000, 70_000 + number))]:
        forge(site, job_id, "spank")
    with build.worker(site.settings, site.accounting, site.engine) as worker:
        worker.poll_s = POLL_S
        steps(worker, 0.3)
        genuine = running(site, "500")
        steps(worker, 1.5)
        assert (len(worker.watching.pool), genuine.exists()) == (1, True)
        assert len(worker.watching) <= watch_jobs.MAX_UNTRUSTED + 1
        assert len(site.waiting()) >= number


def test_the_owners_word_counts_beside_a_strangers(site: FakeSite) -> None:
    forge(site, "501", "spank", at=999_999_999_999)
    running(site, "501").unlink()
    own = forge(site, "501", "spank", uid=site.uid)
    with build.worker(site.settings, site.accounting, site.engine) as worker:
        worker.poll_s = POLL_S
        steps(worker, 1.0)
        assert (len(worker.watching.pool), site.waiting()) == (1, [own.name])


def test_nobodys_events_keep_the_reader_from_others(site: FakeSite) -> None:
    """Every look at the clock costs 10 ms here, every event so many seconds."""
    ticks = itertools.count()
    at_a_time = int(spool.READ_S / 0.01)
    forged = {forge(site, str(93_000 + number), "node", pad=10).name for number in range(3 * at_a_time)}
    other = forge(site, "94000", "node", uid=OTHER_OWNER)
    other = other.rename(other.with_name("z-last"))
    genuine = site.event("95000", "node")
    reader = Spool(site.settings.spool, frozenset({0}), clock=lambda: next(ticks) * 0.01)
    found = [{item.name for item in reader.arrivals()} for _ in range(5)]
    assert {other.name, genuine.name} < found[0]
    assert max(map(len, found)) <= at_a_time + 4
    assert set().union(*found) == {*forged, other.name, genuine.name}


def test_forged_halves_do_not_take_the_time_of_a_genuine_one(site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event is found while its hook writes it, among more halves of somebody else's than are waited for."""
    monkeypatch.setattr(spool, "MAX_CUT_OFF", 5)
    for number in range(20):
        forged = forge(site, str(96_000 + number), "node")
        forged.write_text(forged.read_text().removesuffix("end=1\n"))
    genuine = site.event("97000", "node")
    genuine = genuine.rename(genuine.with_name("z-last"))
    whole = genuine.read_text()
    genuine.write_text(whole.removesuffix("end=1\n"))
    reader = Spool(site.settings.spool, frozenset({0}))
    assert reader.arrivals() == []
    assert len(list(genuine.parent.iterdir())) == 5 + 1, "beyond those that are waited for, they are refused"
    genuine.write_text(whole)
    assert [item.name for item in reader.arrivals()] == ["z-last"]


def test_untrusted_events_are_held_small_and_few(site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MAX_OF_USER", 20)
    monkeypatch.setattr(spool, "READ_S", 60.0)
    for number in range(30):
        forge(site, str(90_000 + number // 15), "node", pad=200)
        forge(site, str(91_000 + number), "node", pad=1)
    genuine = site.event("92000", "node", SLURM_JOB_NAME="x")
    reader = Spool(site.settings.spool, frozenset({0}))
    seen = set()
    while arrived := reader.arrivals():
        forged = [item for item in arrived if not item.trusted]
        assert len(forged) <= 20
        jobs = [item.event.job_id for item in forged]
        assert max(map(jobs.count, jobs)) <= spool.MAX_OF_JOB
        assert all((dict(item.event.env), item.event.kernel) == ({"SLURM_TRIAGE": "watch"}, ()) for item in forged)
        assert all("SLURM_JOB_NAME" in item.event.env for item in arrived if item.trusted)
        assert reader.arrivals() == [], "one that waits is not read at every look"
        seen |= {item.name for item in arrived}
        reader.remove([item.name for item in arrived])
    assert len(seen) == 61, "in the end each has had its turn"
    assert genuine.name in seen
    assert site.waiting() == []
    assert not [*reader.known, *reader._untrusted, *reader._of_user, *reader._of_job, *reader._unread]


def test_nobody_sets_anothers_end(site: FakeSite) -> None:
    (site.home / "slurm-950.out").write_bytes(FAILED_LOG)
    env = {"SLURM_JOB_UID": str(site.uid), "SLURM_JOB_USER": "nobody", "SLURM_JOB_WORK_DIR": str(site.home)}
    site.event("950", SLURM_CLUSTER_NAME="fake", SLURM_JOB_EXIT_CODE2="1:0", **env)
    forge(site, "950", "hook", at=999_999_999_999)
    with build.worker(site.settings, HookAccounting([]), site.engine) as worker:
        worker.poll_s = POLL_S
        until = time.monotonic() + 20.0
        while not site.records("950"):
            assert time.monotonic() < until
            worker.step()
        worker.drain()
    assert (site.records("950")[0].end or 0.0) <= time.time()


def job_of_another(site: FakeSite, job_id: str) -> None:
    home = site.directory / "other"
    home.mkdir(exist_ok=True)
    log = home / f"slurm-{job_id}.out"
    log.write_bytes(FAILED_LOG)
    for path in (home, log):
        os.chown(path, OTHER_OWNER, OTHER_OWNER)
    site.add(ended_job(site, job_id, uid=OTHER_OWNER, user="daemon", work_dir=str(home), stdout=str(log)), None)


@pytest.mark.parametrize("children", [2, 3])
def test_endless_logs_leave_a_child_to_others(site: FakeSite, children: int) -> None:
    """Neither the first tries nor those again take the last child; of two only those again do not."""
    for number in range(6):
        site.add(ended_job(site, str(860 + number)))
        os.truncate(site.home / f"slurm-{860 + number}.out", 8 << 40)
    settings = replace(site.settings, child_wall_s=2.0, children=children)
    with build.worker(settings, site.accounting, site.engine) as worker:
        worker.poll_s = POLL_S
        steps(worker, 1.0)
        while children == 2 and (not worker.making.failures or worker.making.pool.children_of(site.uid) > 1):
            worker.step()
        for number in range(4):
            job_of_another(site, str(890 + number))
            until = time.monotonic() + 30.0
            while not site.records(str(890 + number)):
                assert time.monotonic() < until
                worker.step()
                endless = worker.making.pool.children_of(site.uid)
                assert endless < children, "the other child is for somebody else"
            steps(worker, 2.5)
        assert worker.making.failures > 0


def test_a_notification_knows_nothing_of_roots_environment(site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JWT", "root-token")
    told = site.directory / "told"
    command = site.directory / "command"
    command.write_text(f"#!/bin/sh\nexec /usr/bin/env >{told}\n")
    command.chmod(0o755)
    seen = Look("hanging", "train", 1.0, 1.0, Progress())
    assert notify(str(command), "1", seen) is None
    names = {line.partition("=")[0] for line in told.read_text().splitlines()}
    assert {"PATH", "SLURM_TRIAGE_JOB", "SLURM_TRIAGE_STATUS", "SLURM_TRIAGE_TEXT"} <= names
    assert "SLURM_JWT" not in names


def test_escapes_in_directories_and_changed_reports(
    site: FakeSite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = site.home / "w\x1b]0;pwn\x07\x1b[2J\nX-EVIL: 1"
    log = directory / "slurm-810.out"

    def lay() -> None:
        directory.mkdir()
        log.write_bytes(FAILED_LOG)

    site.as_owner(lay)
    site.add(ended_job(site, "810", work_dir=str(directory), stdout=str(log)), None)
    site.add(ended_job(site, "811"))
    site.work()
    changed = site.home / "slurm-811.triage.json"
    changed.write_text(json.dumps({**json.loads(changed.read_bytes()), "status": "fa\x1b[2Jiled"}))
    (directory / "slurm-810.triage.json").unlink()
    monkeypatch.setenv("SLURM_TRIAGE_LEDGER", str(site.settings.ledger))
    for arguments in (["show", "810"], ["show", "811"], ["list"], ["ledger", "export", "--format", "csv"]):
        main(arguments)
        said = "".join(capsys.readouterr())
        assert said
        assert ESCAPES.search(said) is None
        assert re.search("^X-EVIL", said, re.MULTILINE) is None
