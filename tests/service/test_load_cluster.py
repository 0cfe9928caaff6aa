"""A large array of instant jobs, without us and with us. Minutes long, so outside the default run:

SLURM_TRIAGE_LOAD_JOBS=10000 pytest -m slow tests/service/test_load_cluster.py -s
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.layout import USERS
from tests.service.site import Site

JOBS = int(os.environ.get("SLURM_TRIAGE_LOAD_JOBS", "2000"))
USER = next(iter(USERS))


def play(cluster: Cluster, name: str) -> tuple[str, float]:
    """Submit the array and wait for its end. Returns its id and the seconds it took."""
    directory = cluster.workdir(USER, f"{name}-{time.time_ns()}")
    began = time.monotonic()
    job_id = cluster.submit(
        USER, "echo here; exit $((SLURM_ARRAY_TASK_ID % 10 == 0))", "-a", f"0-{JOBS - 1}", cwd=directory
    )
    cluster.wait_for("end of the array", lambda: not cluster.output("squeue", "-h", "-j", job_id), 1800.0, 1.0)
    return job_id, time.monotonic() - began


@pytest.mark.slow
def test_array_of_instant_jobs(host_cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = host_cluster
    cluster.reconfigure("EpilogSlurmctld=", "JobCompType=", "JobCompLoc=")
    cluster.wait_for("all nodes idle", cluster.all_idle, 60.0)
    site = Site(cluster, cluster.dir / f"load-{os.getpid()}")
    _, without_s = play(cluster, "without")
    site.install("--edit-slurm-conf")
    cluster.ctld_restart()
    cluster.scontrol("reconfigure")
    cluster.wait_for("all nodes idle", cluster.all_idle, 60.0)
    pid = site.start_worker()
    try:
        job_id, with_s = play(cluster, "with")
        depth = len(list((site.prefix / "spool/new").iterdir()))
        began = time.monotonic()
        cluster.wait_for("empty spool", lambda: not list((site.prefix / "spool/new").iterdir()), 1800.0, 0.5)
        rest_s = time.monotonic() - began
        peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
        site.stop_worker()
        records = site.records(job_id)[job_id]
        queries = re.search(r"(\d+) queries", site.worker_log())
        assert queries is not None
        assert peak is not None
        with capsys.disabled():
            print(
                f"\n{JOBS} jobs: {without_s:.0f} s without, {with_s:.0f} s with; {depth} events waited at the end, "
                f"the last report came {rest_s:.0f} s later; {queries[1]} queries, worker's peak {int(peak[1]) >> 10} MiB"
            )
        assert len(records) == JOBS
        assert sum(r.get("status") == "failed" for r in records) == (JOBS + 9) // 10
        assert cluster.drained() == {}
        assert int(peak[1]) < 400 << 10
        assert int(queries[1]) <= 25 + (with_s + rest_s) / 10
    finally:
        site.stop_worker()
        site.install("--uninstall", "--purge", check=False)
        cluster.reconfigure()
