"""Both ways in which slurmctld tells of ended jobs, on a real cluster: each is enough for every end of every run. In
the other tests it is the one that the installer chooses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster import scenarios
from tests.cluster.cluster import Cluster
from tests.cluster.layout import USERS
from tests.service.site import QUICK, Site, installed
from tests.service.test_endings_cluster import ENDINGS, runs

ALICE = next(iter(USERS))

#: One of each way in which slurmctld comes to the end of a run. "endings" has the others.
NAMES = ("success", "exit-3", "cancelled-pending", "requeued", "het")


LINE, SCRIPT = "--completion-log", "--jobcomp-script"


@pytest.fixture(scope="module", params=[LINE, SCRIPT])
def way(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def site(host_cluster: Cluster, way: str) -> Iterator[Site]:
    """Accounting is never asked for jobs that nobody reported, and the nodes tell nothing."""
    with installed(host_cluster, "way", way, **{**QUICK, "reconcile_s": "0"}) as site:
        for node_hook in host_cluster.dir.glob("hooks/epilog.d/50-slurm-triage"):
            node_hook.write_text("#!/bin/sh\nexit 0\n")
        yield site


def test_what_slurm_does_for_us(site: Site, way: str) -> None:
    config = site.cluster.output("scontrol", "show", "config")
    assert (str(site.prefix / "libexec") in config) == (way == SCRIPT)
    assert ("line about each ended job" in site.command("doctor", check=False).stdout) == (way == LINE)


def test_every_run_has_its_report(site: Site) -> None:
    cluster = site.cluster
    started = scenarios.start_all(cluster, list(NAMES))
    array = cluster.submit(ALICE, "exit 3", "-a", "0-4", cwd=cluster.workdir(ALICE, "completion"))
    scenarios.finish_all(cluster, started)
    site.wait_for_reports(*(f"{array}_{task}" for task in range(5)))
    cluster.wait_for(
        "all runs", lambda: all(len(runs(site, started.ids[name])) >= len(ENDINGS[name]) for name in NAMES), 90.0
    )
    for name in NAMES:
        found = [(record["state"], record.get("class")) for record in runs(site, started.ids[name])]
        assert found == ENDINGS[name]


def test_a_line_forged_by_a_jobs_name_changes_nothing(site: Site, way: str) -> None:
    """It makes the worker look at a job that still runs, and find that it does."""
    if way != LINE:
        pytest.skip("there are no lines")
    cluster = site.cluster
    directory = cluster.workdir(ALICE, "forged")
    victim = cluster.submit(ALICE, "sleep 60", cwd=directory)
    cluster.wait_state(victim, "RUNNING")
    forger = cluster.submit(
        ALICE, "exit 3", "-J", f"x\nJobId={victim} UserId=root(0) JobState=FAILED ExitCode=9:0 ", cwd=directory
    )
    assert site.wait_for_reports(forger)[forger]["state"] == "FAILED"
    assert f"\nJobId={victim} " in (site.prefix / "var/completed/jobs.log").read_text()
    assert site.records(victim)[victim] == []
    cluster.scancel(victim)
    assert site.wait_for_reports(victim)[victim]["state"] == "CANCELLED"
    assert len(site.records(victim)[victim]) == 1
