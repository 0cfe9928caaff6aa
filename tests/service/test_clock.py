"""The worker's clock is set forwards and back while it works: nothing is lost, and what is newest stays the newest."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.model.job import Job
from slurm_triage.service import lookup, pending
from slurm_triage.service.reconcile import Reconciler
from slurm_triage.service.spool import Spool
from tests.service.conftest import ended_job
from tests.service.fake_site import FAILED_LOG, FakeSite, TableAccounting

HOUR_S, DAY_S = 3600.0, 86400.0
LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """``set_clock(s)``: from now on ``time.time`` is this far from the truth, in workers and their children, too."""
    true, ahead = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: true() + ahead[0])

    def set_to(seconds: float) -> None:
        ahead[0] = seconds

    return set_to


@pytest.mark.parametrize("step_s", [-2 * HOUR_S, 2 * HOUR_S, -30 * DAY_S, 30 * DAY_S])
def test_final_report_replaces_the_provisional_one(
    site: FakeSite, set_clock: Callable[[float], None], step_s: float
) -> None:
    job = site.add(ended_job(site, "951", final=False))
    site.steps(10, replace(site.settings, final_wait_s=0.0))
    assert site.records("951")[0].provisional
    set_clock(step_s)
    site.table["951"] = replace(job, final=True)
    site.publish()
    site.work()
    (record,) = site.records("951")
    assert not record.provisional
    assert site.waiting() == []
    assert json.loads((site.home / "slurm-951.triage.json").read_bytes())["accounting"]["final"] is True


@pytest.mark.parametrize("step_s", [-2 * HOUR_S, 2 * HOUR_S, -30 * DAY_S, 30 * DAY_S])
def test_repeated_events_are_recognised(site: FakeSite, set_clock: Callable[[float], None], step_s: float) -> None:
    site.add(ended_job(site, "952"))
    site.start()
    _until_empty(site)
    site.kill(signal.SIGTERM)
    set_clock(step_s)
    site.event("952", "jobcomp")
    site.work()
    assert site.waiting() == []
    assert len(site.records("952")) == 1


def test_jobs_missed_while_the_clock_was_ahead(tmp_path: Path) -> None:
    """Only this host's clock is set, an hour ahead and after five minutes back; accounting's ends are the true ones."""
    true = [1.75e9]
    ahead = [0.0]
    reconciler = Reconciler(tmp_path, every_s=60.0, lag_s=10.0)
    reconciler.load(true[0])
    found: set[float] = set()
    ends = [1.75e9 + minute * 60.0 + 1.0 for minute in range(30)]
    for second in range(0, 3600, 10):
        true[0] = 1.75e9 + second
        ahead[0] = HOUR_S if 600 <= second < 900 else 0.0
        span = reconciler.due(float(second), true[0] + ahead[0])
        if span is not None:
            jobs = [Job(job_id="1", state="FAILED", end=end, final=True) for end in ends if end <= true[0]]
            found |= {run.end or 0.0 for job in jobs for run in span.ended(job)}
            reconciler.begin(span, ())
    assert found == set(ends)


class WindowedAccounting(TableAccounting):
    """Shows what ended since then, as sacct does."""

    def jobs(self, ids: Sequence[str], *, since: float | None = None, until: float | None = None) -> dict[str, Job]:
        found = super().jobs(ids, since=since, until=until)
        return {job_id: job for job_id, job in found.items() if since is None or (job.end or 0.0) >= since}


@pytest.mark.parametrize("step_s", [9 * DAY_S, 30 * DAY_S, 400 * DAY_S, -400 * DAY_S])
@pytest.mark.parametrize("before", [True, False], ids=["events before", "events after"])
def test_no_job_is_dropped_by_a_clock_that_is_wrong_by_days(
    site: FakeSite, set_clock: Callable[[float], None], monkeypatch: pytest.MonkeyPatch, step_s: float, before: bool
) -> None:
    """So many that accounting is asked about a stretch of time, which is reckoned by this host's clock."""
    monkeypatch.setattr(lookup, "FEW_IDS", 3)
    monkeypatch.setattr(pending, "UNKNOWN_WAIT_S", 1.0)
    jobs = [ended_job(site, str(970 + number)) for number in range(6)]
    for job in jobs:
        site.add(job, event=before)
    set_clock(step_s)
    for job in () if before else jobs:
        site.event(job.job_id or "")
    site.accounting = WindowedAccounting(site.directory / "accounting")
    assert site.work().counts.dropped == 0
    assert {record.job_id for record in site.all_records()} == {job.job_id for job in jobs}
    assert site.waiting() == []


def test_event_that_is_being_written_survives_a_clock_set_ahead(
    site: FakeSite, set_clock: Callable[[float], None]
) -> None:
    tmp = site.settings.spool / "tmp"
    (tmp / "dead").touch()
    site.steps(2)
    (tmp / "being-written").touch()
    set_clock(DAY_S)
    site.steps(2)
    assert sorted(path.name for path in tmp.iterdir()) == ["being-written", "dead"], "one look tells nothing"
    spool = Spool(site.settings.spool, frozenset())
    spool.sweep()
    (tmp / "dead").rename(tmp / "late")
    spool.sweep()
    assert [path.name for path in tmp.iterdir()] == ["late"]


@pytest.fixture
def faked(site: FakeSite) -> Iterator[Callable[[str], None]]:
    """``slurm-triage worker``, the real command; ``faked("+1d")`` sets the clock that its whole process sees."""
    if not LIBRARIES:
        pytest.skip("libfaketime is missing (Debian package libfaketime)")
    stamp, config = site.directory / "clock", site.directory / "config.toml"
    settings = {"cluster": "fake", "accounting": "hook", "admin_comment": "off"}
    settings |= {name: str(getattr(site.settings, name)) for name in ("spool", "ledger", "state")}
    config.write_text("".join(f'{name} = "{value}"\n' for name, value in settings.items()) + "settle_s = 0\n")
    for path in (stamp, config):
        path.touch()
        path.chmod(0o644)
    env = {
        **os.environ,
        "LD_PRELOAD": str(LIBRARIES[0]),
        "FAKETIME_TIMESTAMP_FILE": str(stamp),
        "FAKETIME_NO_CACHE": "1",
        # The kernel's monotonic clock is not set with the other one.
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }

    def set_to(offset: str) -> None:
        # Whole at any moment: libfaketime ends a process that reads an empty one.
        new = stamp.with_suffix(".new")
        new.write_text(f"{offset}\n")
        new.chmod(0o644)
        new.rename(stamp)

    set_to("+0")
    with open(site.directory / "worker.log", "wb") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "slurm_triage", "worker", "--config", str(config)], env=env, stderr=log
        )
    try:
        yield set_to
        worker.terminate()
        assert worker.wait(60.0) == 0, (site.directory / "worker.log").read_text()
    finally:
        worker.kill()
        worker.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's hooks are believed by root's worker")
def test_real_worker_under_a_clock_that_jumps(site: FakeSite, faked: Callable[[str], None]) -> None:
    shown = {}
    for number, offset in enumerate(("+0", "+3d", "-3d", "+1h", "-1h", "+400d", "+0")):
        faked(offset)
        job_id = str(960 + number)
        log = site.home / f"slurm-{job_id}.out"
        log.write_bytes(FAILED_LOG)
        os.chown(log, site.uid, site.uid)
        now = int(time.time())
        site.event(
            job_id, SLURM_JOB_UID=str(site.uid), SLURM_JOB_USER=pwd.getpwuid(site.uid).pw_name,
            SLURM_JOB_WORK_DIR=str(site.home), SLURM_JOB_EXIT_CODE2="1:0", SLURM_JOB_START_TIME=str(now - 90),
            SLURM_JOB_END_TIME=str(now - 1),
        )  # fmt: skip
        _until_empty(site)
        (record,) = site.records(job_id)
        assert record.cls == "python-exception"
        assert (site.home / f"slurm-{job_id}.triage.json").exists()
        shown[offset] = (record.generated_at or 0.0) - time.time()
    assert shown["+400d"] > 399 * DAY_S, "the clock was really set"
    assert shown["-3d"] < -2 * DAY_S


def _until_empty(site: FakeSite) -> None:
    until = time.monotonic() + 30.0
    while site.waiting():
        assert time.monotonic() < until, f"{site.waiting()} are left"
        time.sleep(0.05)
