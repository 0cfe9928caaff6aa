"""``install.sh --demo``: a Slurm cluster on this machine, slurm-triage installed on it, six jobs, six reports.

Nothing of the machine's own Slurm is touched: the cluster has its own directory, ports and users, and goes at the end.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

DIRECTORY = Path("/srv/slurm-triage-demo")
os.environ.setdefault("SLURM_TRIAGE_TEST_DIR", str(DIRECTORY))
os.environ.setdefault("SLURM_TRIAGE_TEST_PORT_HOST", "19000")
os.environ.setdefault("SLURM_TRIAGE_TEST_USERS", "triage-demo:29001")

from tests.cluster import lanes  # noqa: E402  (reads the variables above)
from tests.cluster.layout import USERS  # noqa: E402
from tests.cluster.processes import ClusterError  # noqa: E402
from tests.service.launcher_jobs import JOBS  # noqa: E402
from tests.service.site import Site  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(prog="install.sh --demo")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--keep", action="store_true", help="leave the cluster running")
    args = parser.parse_args()
    try:
        return run(args.python, keep=args.keep)
    except (ClusterError, TimeoutError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def run(python: str, *, keep: bool) -> int:
    try:
        cluster = lanes.make("host")
    except lanes.LaneUnavailableError:
        say("installing Slurm's Debian packages (nothing is started by them)")
        lanes.install("host")
        cluster = lanes.make("host")
    try:
        with cluster.lock():
            cluster.wipe()
            site = Site(cluster, cluster.dir / "site", python)
            try:
                return _play(site, keep)
            finally:
                site.stop_worker()
                if not keep:
                    cluster.wipe()
    finally:
        if not keep:
            cluster.dir.with_suffix(".lock").unlink(missing_ok=True)
            cluster.dir.parent.rmdir()


def _play(site: Site, keep: bool) -> int:
    cluster, user = site.cluster, next(iter(USERS))
    say("bringing up a cluster of five nodes")
    cluster.up()
    # As a site that has no hooks of the controller yet.
    cluster.reconfigure("EpilogSlurmctld=", "JobCompType=", "JobCompLoc=")
    say(f"Slurm {cluster.version} runs; installing slurm-triage on it")
    print(site.install("--edit-slurm-conf").stdout)
    cluster.ctld_restart()
    cluster.scontrol("reconfigure")
    cluster.wait_for("all nodes idle", cluster.all_idle, 30.0)
    site.start_worker(settle_s="1")
    directory = site.outputs(user, f"demo-{int(time.time())}")
    ids = {name: site.submit(job, user, directory) for name, job in JOBS.items()}
    say("six jobs: " + ", ".join(f"{job_id} {name}" for name, job_id in ids.items()))
    for name, job_id in ids.items():
        if JOBS[name].cancel:
            cluster.wait_state(job_id, "RUNNING")
            time.sleep(6.0)
            say(f"job {job_id} stands still; scancel {job_id}")
            cluster.scancel(job_id)
    found = site.wait_for_reports(*ids.values(), timeout_s=120.0)
    wrong = 0
    print()
    for name, job_id in ids.items():
        record = found[job_id]
        ok = record["status"] in JOBS[name].statuses and record.get("class") in JOBS[name].classes
        wrong += not ok
        verdict = f"{record['status']} {record.get('class') or ''}"
        print(
            f"{'ok   ' if ok else 'WRONG'} job {job_id:3} {name:13} {verdict:32} {record.get('report_path', '-')[-120:]}"
        )
    drained = cluster.drained()
    print(f"\ndrained nodes: {drained or 'none'}\n")
    print(site.command("show", ids["exception"], user=user).stdout)
    print(cluster.sacct("-XP", "-o", "jobid,state,exitcode,admincomment"))
    if keep:
        print(f"the cluster stays: export SLURM_CONF={cluster.layout.slurm_conf}; {site.prefix}/bin/slurm-triage list")
    return 1 if wrong or drained else 0


def say(text: str) -> None:
    print(f"== {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
