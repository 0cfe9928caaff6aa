"""Our units under a real systemd, installed by install.sh, with the jobs of a real cluster."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import booted
from tests.cluster.booted import Booted
from tests.cluster.cluster import Cluster
from tests.cluster.layout import CHECKOUT, USERS
from tests.ledger.databases import Database
from tests.ledger.sql_servers import PASSWORD, MariaDB, programs, server
from tests.service.site import Site

ALICE, BOB = USERS
WORKER, ONCE = "slurm-triage-worker.service", "slurm-triage-once.service"
PATH_UNIT, TIMER = "slurm-triage-spool.path", "slurm-triage-reconcile.timer"
MIRROR = "slurm-triage-mirror.service"
SETTINGS = "settle_s = 0.5\nreconcile_s = 5\nreconcile_lag_s = 2\n"


class BootedSite(Site):
    """The worker belongs to the booted machine; cluster and users' files are the host's."""

    machine: Booted

    def worker_log(self) -> str:
        return self.machine.journal(WORKER) + self.machine.journal(ONCE)


@pytest.fixture(scope="module")
def site(host_cluster: Cluster) -> Iterator[BootedSite]:
    if (reason := booted.missing()) is not None:
        pytest.skip(reason)
    cluster = host_cluster
    cluster.reconfigure("EpilogSlurmctld=", "JobCompType=", "JobCompLoc=")
    site = BootedSite(cluster, cluster.dir / f"systemd-{os.getpid()}")
    site.prefix.mkdir()
    python = {CHECKOUT, Path(sys.prefix), Path(sys.base_prefix)}
    shared = [path for path in sorted(python) if not path.is_relative_to("/usr")]
    site.machine = Booted(cluster.dir / f"booted-{os.getpid()}", [*shared, cluster.dir])
    try:
        site.machine.run(*site.install_argv("--edit-slurm-conf"), **cluster.env)
        site.own_queue()
        with open(site.prefix / "etc/config.toml", "a") as config:
            config.write(SETTINGS)
        site.machine.run("systemctl", "restart", WORKER)
        cluster.ctld_restart()
        cluster.scontrol("reconfigure")
        cluster.wait_for("all nodes idle", cluster.all_idle, 30.0)
        yield site
    finally:
        site.machine.run(*site.install_argv("--uninstall", "--purge"), check=False, **cluster.env)
        site.machine.stop()
        cluster.reconfigure()


def fail(site: Site, user: str, *args: str) -> str:
    directory = site.cluster.workdir(user, "systemd")
    return site.cluster.submit(user, "echo here; exit 3", *args, cwd=directory)


def test_systemd_has_nothing_to_say_about_the_units(site: BootedSite) -> None:
    installed = site.machine.run("find", "/etc/systemd/system", "-type", "f", "-name", "slurm-triage-*").stdout.split()
    assert {Path(unit).name for unit in installed} == {path.name for path in (CHECKOUT / "systemd").iterdir()}
    verified = site.machine.run("systemd-analyze", "verify", "--man=no", *installed, check=False)
    assert (verified.stdout, verified.stderr, verified.returncode) == ("", "", 0)


def test_the_worker_is_enabled_and_writes_into_its_users_directories(site: BootedSite) -> None:
    assert site.machine.run("systemctl", "is-enabled", WORKER).stdout.strip() == "enabled"
    for user in (ALICE, BOB):
        job_id = fail(site, user)
        record = site.wait_for_reports(job_id)[job_id]
        report = Path(str(record["report_path"]))
        assert report.stat().st_uid == site.cluster.uid(user)
        assert report.with_name(f"slurm-{job_id}.TRIAGE.md").stat().st_uid == site.cluster.uid(user)
    assert "cap_sys_admin" not in site.machine.show(WORKER, "CapabilityBoundingSet")
    assert site.machine.show(WORKER, "NRestarts") == "0"


def test_the_worker_leaves_the_processors_to_slurm(site: BootedSite) -> None:
    pid = site.machine.show(WORKER, "MainPID")
    assert "SCHED_IDLE" in site.machine.run("chrt", "-p", pid).stdout
    if not Path("/proc/self/autogroup").exists():
        pytest.skip("this kernel has no autogroups")

    def nice() -> str:
        return site.machine.run("cat", f"/proc/{pid}/autogroup").stdout.split()[-1]

    site.machine.wait_for("nothing to do", lambda: nice() == "0", 60.0)
    # All at once for the worker, whatever else this machine does.
    site.machine.run("kill", "-STOP", pid)
    job_id = fail(site, BOB, "-a", "0-89")
    site.cluster.wait(job_id)
    site.machine.run("kill", "-CONT", pid)
    site.machine.wait_for("a storm", lambda: nice() == "19", 120.0)
    site.wait_for_reports(*(f"{job_id}_{n}" for n in range(90)), timeout_s=240.0)
    site.machine.wait_for("nothing to do", lambda: nice() == "0", 60.0)


def test_a_killed_worker_is_started_again(site: BootedSite) -> None:
    first = site.machine.show(WORKER, "MainPID")
    site.machine.run("kill", "-KILL", first)
    job_id = fail(site, ALICE, "-a", "0-3")
    site.machine.wait_for("restart", lambda: site.machine.show(WORKER, "NRestarts") == "1", 30.0)
    tasks = [f"{job_id}_{n}" for n in range(4)]
    site.wait_for_reports(*tasks)
    assert all(len(site.records(task)[task]) == 1 for task in tasks)
    assert site.machine.show(WORKER, "MainPID") not in (first, "0")


def test_stopping_it_ends_what_runs_and_leaves_the_rest_in_the_spool(site: BootedSite) -> None:
    job_id = fail(site, BOB, "-a", "0-39")
    tasks = [f"{job_id}_{n}" for n in range(40)]
    site.machine.wait_for("first record", lambda: any(site.records(*tasks).values()), 60.0)
    began = time.monotonic()
    site.machine.run("systemctl", "stop", WORKER)
    assert time.monotonic() - began < 35.0
    assert site.machine.show(WORKER, "Result") == "success"
    assert site.machine.show(WORKER, "ExecMainStatus") == "0"
    assert "ended: " in site.machine.journal(WORKER)
    before = sum(len(found) for found in site.records(*tasks).values())
    site.machine.run("systemctl", "start", WORKER)
    site.wait_for_reports(*tasks)
    assert before >= 1
    assert all(len(site.records(task)[task]) == 1 for task in tasks)


# ---- started by the spool, and by the clock -----------------------------------------------------------------------


@pytest.fixture
def on_demand(site: BootedSite) -> Iterator[Booted]:
    """The .path unit instead of the worker that always runs."""
    machine = site.machine
    # What earlier jobs' nodes report late would start a worker as well.
    machine.wait_for("no event on its way", site.quiet, 60.0)
    machine.run("systemctl", "disable", "--now", WORKER)
    machine.run("systemctl", "enable", "--now", PATH_UNIT)
    yield machine
    machine.run("systemctl", "disable", "--now", PATH_UNIT, TIMER)
    machine.run("systemctl", "stop", ONCE)
    machine.run("systemctl", "enable", "--now", WORKER)


def test_an_event_starts_a_worker(site: BootedSite, on_demand: Booted) -> None:
    assert on_demand.show(ONCE, "ActiveState") == "inactive"
    job_id = fail(site, ALICE)
    site.wait_for_reports(job_id)
    assert on_demand.show(ONCE, "ActiveState") == "active"
    on_demand.run("systemctl", "stop", ONCE)
    assert on_demand.show(ONCE, "Result") == "success"
    assert on_demand.show(PATH_UNIT, "ActiveState") == "active"


def test_slurmctlds_own_line_starts_a_worker(site: BootedSite, on_demand: Booted) -> None:
    """On a site without anything of ours on its nodes."""
    hook = site.prefix / "libexec/record-event"
    hook.rename(hook.with_name("gone"))
    try:
        for _ in range(2):
            assert on_demand.show(ONCE, "ActiveState") == "inactive"
            job_id = fail(site, BOB)
            site.wait_for_reports(job_id)
            assert on_demand.show(ONCE, "ActiveState") == "active"
            on_demand.run("systemctl", "stop", ONCE)
    finally:
        hook.with_name("gone").rename(hook)
    assert on_demand.show(PATH_UNIT, "ActiveState") == "active"


def test_a_worker_that_cannot_work_is_tried_until_it_can(site: BootedSite, on_demand: Booted) -> None:
    ledger = site.prefix / "var/ledger"
    ledger.rename(ledger.with_name("away"))
    ledger.write_text("a file system that is not mounted")
    on_demand.drop_in(ONCE, "[Service]\nRestartSec=1\n")
    try:
        job_id = fail(site, ALICE)
        on_demand.wait_for("failures", lambda: int(on_demand.show(ONCE, "NRestarts") or "0") >= 6, 60.0)
    finally:
        ledger.unlink()
        ledger.with_name("away").rename(ledger)
    site.wait_for_reports(job_id)
    assert on_demand.show(PATH_UNIT, "ActiveState") == "active"


def test_the_timer_finds_jobs_that_no_hook_reported(site: BootedSite, on_demand: Booted) -> None:
    """Neither a node nor slurmctld's own line."""
    on_demand.run("systemctl", "disable", "--now", PATH_UNIT)
    on_demand.drop_in(ONCE, "[Service]\nEnvironment=SLURM_TRIAGE_COMPLETION_LOG=\n")
    hook = site.prefix / "libexec/record-event"
    hook.rename(hook.with_name("gone"))
    try:
        job_id = fail(site, BOB)
        site.cluster.wait(job_id)
        site.cluster.wait_for("all nodes idle", site.cluster.all_idle, 30.0)
    finally:
        hook.with_name("gone").rename(hook)
    time.sleep(3.0)  # reconcile_lag_s
    assert on_demand.show(ONCE, "ActiveState") == "inactive"
    on_demand.drop_in(TIMER, "[Timer]\nOnActiveSec=1s\nAccuracySec=1s\n")
    on_demand.run("systemctl", "enable", "--now", TIMER)
    assert site.wait_for_reports(job_id)[job_id]["state"] == "FAILED"
    assert "reported by no hook" in on_demand.journal(ONCE)


# ---- the copy in a database ---------------------------------------------------------------------------------------


@pytest.fixture
def database(site: BootedSite) -> Iterator[Database]:
    """A real server, and the mirror's unit at work on it."""
    where = programs(MariaDB.wanted)
    if where is None:
        pytest.skip("needs the server of MariaDB (Debian: mariadb-server)")
    config, secret = site.prefix / "etc/config.toml", site.prefix / "etc/mirror.password"
    before = config.read_text()
    secret.write_text(f"{PASSWORD}\n")
    secret.chmod(0o600)
    program = f"{site.prefix}/bin/slurm-triage"
    unit = site.machine.run("cat", site.machine.show(MIRROR, "FragmentPath")).stdout
    assert f"ExecStart={program} ledger mirror --follow\n" in unit
    quick = f"RestartSec=1\nExecStart=\nExecStart={program} ledger mirror --follow --interval 1\n"
    # Tests may use a Python below /tmp.
    quick += f"BindReadOnlyPaths={sys.prefix}\n"
    with server(MariaDB, where) as running:
        config.write_text(f'{before}mirror = "{running.url}"\nmirror_password_file = "{secret}"\n')
        site.machine.drop_in(MIRROR, f"[Service]\n{quick}")
        site.machine.run("systemctl", "enable", "--now", MIRROR)
        yield Database(running.url, PASSWORD, running)
        site.machine.run("systemctl", "disable", "--now", MIRROR)
        config.write_text(before)


def test_the_mirror_follows_through_its_own_death_and_the_databases(site: BootedSite, database: Database) -> None:
    machine, server_of_it = site.machine, database.server
    assert server_of_it is not None

    def copied(*jobs: str) -> bool:
        # The table is made before the first copy is told.
        told = "records copied" in machine.journal(MIRROR)
        return told and set(jobs) <= {row[0] for row in database.rows("job_id", "attempt")}

    first = fail(site, ALICE)
    site.wait_for_reports(first)
    machine.wait_for("first row", lambda: copied(first), 30.0)
    pid = machine.show(MIRROR, "MainPID")
    machine.run("kill", "-KILL", pid)
    machine.wait_for("restart", lambda: machine.show(MIRROR, "NRestarts") == "1", 30.0)
    second = fail(site, BOB)
    site.wait_for_reports(second)
    machine.wait_for("row after the restart", lambda: copied(first, second), 30.0)
    server_of_it.stop()
    third = fail(site, ALICE)
    site.wait_for_reports(third)
    machine.wait_for("words about it", lambda: "cannot mirror" in machine.journal(MIRROR), 30.0)
    assert machine.show(MIRROR, "ActiveState") == "active"
    server_of_it.start()
    machine.wait_for("row after the outage", lambda: copied(first, second, third), 60.0)
    assert machine.show(MIRROR, "NRestarts") == "1"
    machine.run("systemctl", "stop", MIRROR)
    assert machine.show(MIRROR, "Result") == "success"
    assert PASSWORD not in machine.journal(MIRROR)
    assert "Traceback" not in machine.journal(MIRROR)


@pytest.mark.usefixtures("database")
def test_the_mirror_may_read_everything_and_write_nothing(site: BootedSite) -> None:
    pid = site.machine.show(MIRROR, "MainPID")
    status = dict(line.split(":\t", 1) for line in site.machine.run("cat", f"/proc/{pid}/status").stdout.splitlines())
    # CAP_DAC_READ_SEARCH alone.
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 1 << 2
    assert status["NoNewPrivs"] == "1"
    for place in (site.prefix / "var/ledger", Path("/etc")):
        refused = site.machine.run("nsenter", f"--target={pid}", "--mount", "touch", f"{place}/x", check=False)
        assert "Read-only file system" in refused.stderr
    assert PASSWORD not in site.machine.run("cat", f"/proc/{pid}/cmdline").stdout
    assert PASSWORD not in site.machine.run("cat", f"/proc/{pid}/environ").stdout
