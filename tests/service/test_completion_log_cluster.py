"""install.sh --completion-log on a real cluster: every end of every run, from slurmctld's own lines alone."""

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


@pytest.fixture(scope="module")
def site(host_cluster: Cluster) -> Iterator[Site]:
    """Accounting is never asked for jobs that nobody reported."""
    with installed(host_cluster, "completion", "--completion-log", **{**QUICK, "reconcile_s": "0"}) as site:
        yield site


def test_slurm_calls_nothing_of_ours(site: Site) -> None:
    config = site.cluster.output("scontrol", "show", "config")
    assert str(site.prefix / "libexec") not in config
    assert "line about each ended job" in site.command("doctor", check=False).stdout


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


def test_a_line_forged_by_a_jobs_name_changes_nothing(site: Site) -> None:
    """It makes the worker look at a job that still runs, and find that it does."""
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
