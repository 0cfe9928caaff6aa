"""``sbatch --triage=watch`` on a real cluster, installed by install.sh: from the option to the live report."""

from __future__ import annotations

import json
import os
import pwd
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.layout import USERS
from tests.service.launcher_jobs import JOBS
from tests.service.site import Site

ALICE, BOB = USERS
WORKER = {"settle_s": "1", "watch_interval_s": "0.5", "watch_limit_s": "4"}


@pytest.fixture(scope="module")
def site(host_cluster: Cluster) -> Iterator[Site]:
    cluster = host_cluster
    site = Site(cluster, cluster.dir / f"watch-{os.getpid()}")
    plugstack = cluster.dir / "etc/plugstack.conf"
    plugins = plugstack.read_text()
    cluster.reconfigure("EpilogSlurmctld=", "PrologSlurmctld=", "JobCompType=", "JobCompLoc=")
    try:
        output = site.install("--edit-slurm-conf", "--spank").stdout
        if "sbatch --triage is not available" in output:
            pytest.skip(output)
        cluster.ctld_restart()
        cluster.scontrol("reconfigure")
        cluster.wait_for("all nodes idle", cluster.all_idle, 30.0)
        notify = site.prefix / "notify"
        words = "$(id -un) $USER $HOME $SLURM_TRIAGE_TEXT"
        notify.write_text(f'#!/bin/sh\necho "{words}" >>/tmp/slurm-triage-told-$SLURM_TRIAGE_JOB\n')
        notify.chmod(0o755)
        site.start_worker(**WORKER, watch_notify=str(notify))
        yield site
    finally:
        site.stop_worker()
        site.install("--uninstall", "--purge", check=False)
        assert plugstack.read_text() == plugins
        cluster.reconfigure()


def test_a_hang_is_reported_while_the_job_runs(site: Site) -> None:
    cluster = site.cluster
    directory = site.outputs(ALICE, f"watched-{time.time_ns()}")
    watched = site.submit(JOBS["hang"], ALICE, directory, "--triage=watch")
    plain = site.submit(JOBS["hang"], ALICE, directory)
    off = cluster.submit(BOB, "exit 1", "-o", "/dev/null", SLURM_TRIAGE="off")
    reports = {
        job_id: cluster.path(directory) / f"outputs/{job_id}-{JOBS['hang'].job_name}/triage.json"
        for job_id in (watched, plain)
    }
    cluster.wait_for("live report", reports[watched].exists, 90.0)
    live = json.loads(reports[watched].read_bytes())
    assert (live["status"], live["primary"]["class"], live["job"]["state"]) == ("hanging", "hang", "RUNNING")
    assert reports[watched].stat().st_uid == cluster.uid(ALICE)
    assert not reports[plain].exists(), "only what asked for it is watched"
    told = Path(f"/tmp/slurm-triage-told-{watched}")
    cluster.wait_for("notification", told.exists, 30.0)
    owner = f"{ALICE} {ALICE} {pwd.getpwnam(ALICE).pw_dir}"
    assert told.read_text().startswith(f"{owner} {watched} hanging: step 6/14")
    told.unlink()
    # A worker that comes after a crash goes on; the event is still there.
    site.kill_worker()
    reports[watched].unlink()
    site.start_worker(**WORKER)
    cluster.wait_for("live report of the next worker", reports[watched].exists, 60.0)
    cluster.scancel(watched, plain)
    found = site.wait_for_reports(watched, plain)
    assert {record["state"] for record in found.values()} == {"CANCELLED"}
    final = json.loads(reports[watched].read_bytes())
    assert final["accounting"]["final"] is True
    cluster.wait(off)
    cluster.wait_for("empty spool", lambda: not list((site.prefix / "spool/new").iterdir()), 60.0)
    assert site.records(off)[off] == []
    assert cluster.drained() == {}
