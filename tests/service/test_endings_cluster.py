"""Every way in which Slurm itself ends a job, on a real cluster with slurm-triage installed: the report names it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import scenarios
from tests.cluster.cluster import Cluster
from tests.cluster.layout import USERS
from tests.service.site import QUICK, Site, installed

ALICE = next(iter(USERS))

#: Scenario -> (Slurm's state, our class) of every run, oldest first. The batch scripts print nothing that would explain
#: their own exit codes.
ENDINGS: Mapping[str, list[tuple[str, str | None]]] = {
    "success": [("COMPLETED", None)],
    "step-fails-script-goes-on": [("COMPLETED", None)],
    "exit-3": [("FAILED", "unknown-death")],
    "exit-200": [("FAILED", "unknown-death")],
    "step-killed": [("FAILED", "signal-kill")],
    "output-name-too-long": [("FAILED", "prolog-kill-no-log")],
    "bad-interpreter": [("FAILED", "launch-fail")],
    "work-dir-missing": [("COMPLETED", None)],
    "time-limit": [("TIMEOUT", "time-limit")],
    "deadline": [("DEADLINE", "time-limit")],
    "cancelled": [("CANCELLED", "cancelled")],
    "cancelled-term-trapped": [("CANCELLED", "cancelled")],
    "cancelled-pending": [("CANCELLED", "cancelled")],
    "node-lost": [("NODE_FAIL", "node-fail")],
    "requeued": [("REQUEUED", "requeued"), ("COMPLETED", None)],
    "preempted": [("PREEMPTED", "preempted"), ("COMPLETED", None)],
    "oom-step": [("FAILED", "oom-host")],
    "oom-batch": [("OUT_OF_MEMORY", "oom-host")],
    "prolog-fails": [("CANCELLED", "prolog-fail")],
    "prolog-slurmctld-fails": [("CANCELLED", "prolog-fail")],
    "launch-failed-held": [("REQUEUED", "prolog-fail")],
    "het": [("COMPLETED", None), ("COMPLETED", None)],
}


#: By Slurm's state; a job that could not be started has failed, whatever Slurm then did with it.
STATUS = {"COMPLETED": "completed"} | dict.fromkeys(
    ("CANCELLED", "TIMEOUT", "DEADLINE", "REQUEUED", "PREEMPTED"), "cancelled"
)

CLOUD = """\
SuspendProgram=/bin/true
ResumeProgram=/bin/true
ResumeTimeout=5
SuspendTimeout=5
SuspendTime=60
SuspendExcNodes=node[01-06]
NodeName=cloud01 NodeAddr=127.0.0.1 Port={port} CPUs=8 RealMemory=8000 State=CLOUD
PartitionName=cloud Nodes=cloud01 MaxTime=INFINITE State=UP
"""
BOOTED = ("--requeue", "--no-requeue")


@pytest.fixture(scope="module")
def site(host_cluster: Cluster) -> Iterator[Site]:
    with installed(host_cluster, "endings", **QUICK) as site:
        yield site


@pytest.fixture(scope="module")
def ids(site: Site) -> Iterator[Mapping[str, str]]:
    """Job ids by scenario; all have ended, but the one that Slurm holds, and every run has its record."""
    cluster = site.cluster
    started = scenarios.start_all(cluster, list(ENDINGS))
    scenarios.finish_all(cluster, started)
    ids = {**started.ids, "deadline": past_its_deadline(cluster)}
    until = time.monotonic() + 120.0
    while time.monotonic() < until and any(len(runs(site, ids[name])) < len(ENDINGS[name]) for name in ids):
        time.sleep(0.5)
    yield ids
    cluster.scancel(ids["launch-failed-held"])


def past_its_deadline(cluster: Cluster) -> str:
    """A job that cannot start before it would be too late for its minute."""
    directory = cluster.workdir(ALICE, "deadline")
    blocker = cluster.submit(ALICE, "sleep 300", "-w", "node06", "--exclusive", "-t", "5", cwd=directory)
    job_id = cluster.submit(ALICE, "true", "-w", "node06", "-t", "1", "--deadline=now+65seconds", cwd=directory)
    cluster.wait(job_id)
    cluster.scancel(blocker)
    return job_id


def runs(site: Site, job_id: str) -> list[Mapping[str, Any]]:
    """Final records of a job's runs."""
    return [record for record in site.records(job_id)[job_id] if not record.get("provisional")]


@pytest.mark.parametrize("name", ENDINGS)
def test_the_report_names_how_it_ended(site: Site, ids: Mapping[str, str], name: str) -> None:
    if name not in ids:
        pytest.skip("this kernel has no memory cgroup that may be used")
    records = runs(site, ids[name])
    assert [(record["state"], record.get("class")) for record in records] == ENDINGS[name]
    for record in records:
        never_ran = record.get("class") == "prolog-fail"
        assert record["status"] == ("failed" if never_ran else STATUS.get(record["state"], "failed"))
        if record.get("report_path") is not None:
            report = Path(record["report_path"])
            assert json.loads(report.read_bytes())["accounting"] == {"source": "sacct", "final": True}
            assert report.stat().st_uid == site.cluster.uid(ALICE)


def test_a_job_that_is_held_after_a_failed_launch_is_explained_while_it_waits(
    site: Site, ids: Mapping[str, str]
) -> None:
    shown = site.command("show", ids["launch-failed-held"], "--fresh", user=ALICE).stdout
    assert "launch-fail" in shown
    assert "held" in shown


def test_a_node_that_never_boots(site: Site, ids: Mapping[str, str]) -> None:
    """One of a cloud, and whatever is said to start it does nothing."""
    del ids
    cluster = site.cluster
    conf = cluster.path(cluster.layout.slurm_conf)
    before = conf.read_text()
    try:
        conf.write_text(before + CLOUD.format(port=cluster.layout.base_port + 80))
        cluster.ctld_restart()
        cluster.scontrol("reconfigure")
        directory = cluster.workdir(ALICE, "cloud")
        jobs = [cluster.submit(ALICE, "true", "-p", "cloud", again, cwd=directory) for again in BOOTED]
        cluster.wait_for("both given up", lambda: all(runs(site, job_id) for job_id in jobs), 120.0)
        for job_id in jobs:
            record = runs(site, job_id)[0]
            assert (record["state"], record["status"], record.get("class")) == ("NODE_FAIL", "failed", "node-fail")
            assert record["nodes"] == "cloud01"
        cluster.scancel(*jobs)
    finally:
        conf.write_text(before)
        cluster.ctld_restart()
        cluster.scontrol("reconfigure")
    cluster.wait_for("all nodes idle", cluster.all_idle, 60.0)


def test_only_the_sites_own_prolog_has_drained_a_node(site: Site, ids: Mapping[str, str]) -> None:
    """finish_all has put the nodes of the failing prologs back; nothing after that may drain one."""
    del ids
    assert site.cluster.drained() == {}
