"""install.sh on a live cluster: no node notices that it comes or goes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.service.site import Site
from tests.slurm.hook_files import events_in


def run_jobs(cluster: Cluster) -> None:
    job_id = cluster.submit("alice", "exit 0", "-N", str(len(cluster.layout.nodes)), "-o", "/dev/null")
    assert cluster.wait(job_id) == {job_id: "COMPLETED"}
    cluster.wait_for("nodes idle or drained", lambda: "completing" not in cluster.node_states().values(), 30.0)
    assert cluster.drained() == {}


def kinds(spool: Path) -> set[str]:
    return {event.kind for event in events_in(spool)}


@pytest.mark.parametrize("way", ["--completion-log", "--jobcomp-script"])
def test_coming_and_going_drains_no_node(host_cluster: Cluster, way: str) -> None:
    """The site has no Epilog of its own, so the directory would be empty without us: slurmd drains a node for that."""
    cluster = host_cluster
    site = Site(cluster, cluster.dir / f"installed-{os.getpid()}")
    conf = cluster.path(cluster.layout.slurm_conf)
    hook = conf.parent / "epilog.d/50-slurm-triage"
    cluster.reconfigure("Epilog=", "EpilogSlurmctld=", "JobCompType=", "JobCompLoc=")
    before = conf.read_text()
    try:
        site.install("--edit-slurm-conf", "--epilog", way)
        cluster.ctld_restart()
        cluster.scontrol("reconfigure")
        run_jobs(cluster)
        spool, log = site.prefix / "spool", site.prefix / "var/completed/jobs.log"
        wanted = {"epilog"} if way == "--completion-log" else {"epilog", "jobcomp"}
        # What a node has to say comes some seconds after its job's end.
        cluster.wait_for("events of nodes", lambda: wanted <= kinds(spool), 15.0)
        assert kinds(spool) <= {*wanted, "node"}, "one of the controller's hooks is enough"
        assert (log.exists() and b"JobState=" in log.read_bytes()) == (way == "--completion-log")
        # Slurm still has the old configuration when everything is gone.
        output = site.install("--uninstall").stdout
        assert "run install.sh --uninstall again" in output
        # Before 23.11 slurmctld keeps its plugin until it is restarted, and ends at a reconfigure that finds no place
        # for it.
        left = [line for line in conf.read_text().removeprefix(before).splitlines() if not line.startswith("#")]
        stays = way == "--completion-log" and cluster.release < (23, 11)
        assert left == ([f"JobCompLoc={log}"] if stays else [])
        assert not (site.prefix / "libexec").exists()
        run_jobs(cluster)
        cluster.scontrol("reconfigure")
        run_jobs(cluster)
        cluster.ctld_restart()
        cluster.scontrol("reconfigure")
        run_jobs(cluster)
        site.install("--uninstall", "--purge")
        assert conf.read_text() == before
        assert not hook.exists()
        run_jobs(cluster)
    finally:
        hook.unlink(missing_ok=True)
        cluster.reconfigure()
        for node in cluster.drained():
            cluster.resume(node)


def test_without_any_file_a_node_is_drained(host_cluster: Cluster) -> None:
    """The test above can fail."""
    cluster = host_cluster
    empty = cluster.dir / "empty.d"
    empty.mkdir()
    cluster.reconfigure(f"Epilog={cluster.layout.inside}/empty.d/*")
    try:
        job_id = cluster.submit("alice", "exit 0", "-w", "node01", "-o", "/dev/null")
        cluster.wait(job_id)
        cluster.wait_for("node drained", lambda: "node01" in cluster.drained(), 30.0)
    finally:
        cluster.reconfigure()
        cluster.resume("node01")
        empty.rmdir()
    cluster.wait_for("all nodes idle", cluster.all_idle, 30.0)
