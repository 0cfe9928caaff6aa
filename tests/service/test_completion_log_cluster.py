"""Slurm's log of ended jobs on a real cluster: what users write into it, what admins do with it, and that slurmctld
never ends for want of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.layout import USERS
from tests.service.site import QUICK, Site, installed

ALICE, BOB = tuple(USERS)[:2]


@pytest.fixture(scope="module")
def site(host_cluster: Cluster) -> Iterator[Site]:
    """Accounting is never asked for jobs that nobody reported."""
    with installed(host_cluster, "log", "--completion-log", **{**QUICK, "reconcile_s": "0"}) as site:
        yield site


def test_what_alice_writes_into_it_keeps_no_report_from_bob(site: Site) -> None:
    cluster = site.cluster
    directory = cluster.workdir(ALICE, "flood")
    victim = cluster.submit(BOB, "sleep 300", cwd=cluster.workdir(BOB, "victim"))
    cluster.wait_state(victim, "RUNNING")
    names = [
        "".join(f"\nJobId={number} UserId=x " for number in (first, victim, 4294967295, 0, 9999999999))
        for first in range(50000, 50010)
    ]
    names += ["n" * 1024, "\x01\x1b[2J\x7f", "JobId=7JobId=", "x\nJobId=8"]
    for name in names:
        cluster.submit(ALICE, "exit 3", "-J", name, cwd=directory)
        # What is longer than 1 023 bytes is cut off, newline included (22.05).
        cluster.submit(ALICE, "exit 3", "-D", "/" + "d" * 200 + "/" + "e" * 900, cwd=directory)
    jobs = [cluster.submit(BOB, "exit 3", cwd=cluster.workdir(BOB, "work")) for _ in range(6)]
    assert {record["state"] for record in site.wait_for_reports(*jobs).values()} == {"FAILED"}
    assert {record["user"] for record in site.wait_for_reports(*jobs).values()} == {BOB}
    assert site.records(victim)[victim] == []
    cluster.scancel(victim)
    assert site.wait_for_reports(victim)[victim]["state"] == "CANCELLED"
    assert all(len(records) == 1 for records in site.records(victim, *jobs).values())


def test_rotated_by_renaming(site: Site) -> None:
    """slurmctld goes on in the old one until it is told."""
    cluster = site.cluster
    log = site.prefix / "var/completed/jobs.log"
    directory = cluster.workdir(ALICE, "rotated")
    first = cluster.submit(ALICE, "exit 3", cwd=directory)
    site.wait_for_reports(first)
    owner = log.stat()
    log.rename(log.with_suffix(".1"))
    log.touch()
    cluster.run(["chown", f"{owner.st_uid}:{owner.st_gid}", str(log)])
    second = cluster.submit(ALICE, "exit 3", cwd=directory)
    site.wait_for_reports(second)
    assert log.stat().st_size == 0
    cluster.scontrol("reconfigure")
    third = cluster.submit(ALICE, "exit 3", cwd=directory)
    site.wait_for_reports(third)
    assert f"JobId={third} " in log.read_text(errors="replace")


def test_copied_and_emptied_while_no_worker_runs(site: Site) -> None:
    cluster = site.cluster
    log = site.prefix / "var/completed/jobs.log"
    directory = cluster.workdir(ALICE, "emptied")
    site.wait_for_reports(cluster.submit(ALICE, "exit 3", cwd=directory))
    site.kill_worker()
    with open(log, "r+b") as file:
        file.truncate()
    jobs = [cluster.submit(ALICE, "exit 3", "-J", "n" * 600, cwd=directory) for _ in range(9)]
    cluster.wait(*jobs)
    cluster.wait_for("lines", lambda: log.read_bytes().count(b"JobId=") >= 9, 30.0)
    site.start_worker(**{**QUICK, "reconcile_s": "0"})
    site.wait_for_reports(*jobs)


def test_slurmctld_is_killed(site: Site) -> None:
    cluster = site.cluster
    directory = cluster.workdir(ALICE, "killed")
    job = cluster.submit(ALICE, "sleep 1; exit 3", cwd=directory)
    cluster.wait_state(job, "RUNNING")
    with open(site.prefix / "var/completed/jobs.log", "ab") as log:
        log.write(b"JobId=123 UserId=alice(2001) GroupId=alice(2001) Name=half a li")
    cluster.ctld_restart()
    assert site.wait_for_reports(job)[job]["state"] == "FAILED"


def test_it_may_be_taken_away_in_any_order(site: Site) -> None:
    """Reconfigured before the restart, slurmctld (22.05) ended: "fatal: open /var/log/slurm_jobcomp.log"."""
    cluster = site.cluster
    site.stop_worker()
    output = site.install("--uninstall", "--purge").stdout
    again = "restart slurmctld, and run install.sh --uninstall again"
    # From 23.11 on a reconfigure is enough.
    assert (again in output) == (cluster.release < (23, 11))
    cluster.scontrol("reconfigure")
    assert cluster.succeeds("scontrol", "ping")
    cluster.wait(cluster.submit(ALICE, "exit 3"))
    cluster.ctld_restart()
    assert "filetxt" not in cluster.output("scontrol", "show", "config")
    site.install("--uninstall", "--purge")
    cluster.scontrol("reconfigure")
    assert cluster.succeeds("scontrol", "ping")
    assert "JobCompLoc" not in cluster.layout.slurm_conf.read_text()
    assert not (site.prefix / "var/completed").exists()
