"""``install.sh --demo``: a Slurm cluster on this machine, slurm-triage installed on it, six jobs and what is said of them.

Nothing of the machine's own Slurm is touched: the cluster has its own directory, ports and users, and goes at the end.
"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
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


#: What each job does, for people who have not seen it yet.
STORIES = {
    "success": "runs 15 steps and ends well",
    "exception": "one of two ranks raises an exception after step 6",
    "oom-gpu": "one rank runs out of GPU memory after step 3",
    "hang": "stands still after step 6, and is cancelled",
    "soft-success": "runs all 15 steps; then one rank exits with 1",
    "prolog-kill": "its log's name is too long: Slurm kills it before it starts",
}


def _play(site: Site, keep: bool) -> int:
    cluster, user = site.cluster, next(iter(USERS))
    say(f"bringing up a Slurm cluster of {len(cluster.layout.nodes)} nodes on this machine, in {cluster.dir}")
    cluster.up()
    # As a site that has no hooks of the controller yet.
    cluster.reconfigure("EpilogSlurmctld=", "JobCompType=", "JobCompLoc=")
    say(f"Slurm {cluster.version} runs; installing slurm-triage on it: install.sh --edit-slurm-conf")
    told = site.install("--edit-slurm-conf").stdout.splitlines(keepends=True)
    print(textwrap.indent("".join(line for line in told if not line.startswith(("directory ", "file "))), "    "))
    say("restarting slurmctld and reconfiguring, as it says, and starting the worker")
    print("    (here three seconds without a step are a hang, not ten minutes as usual: stall_after_s)")
    cluster.ctld_restart()
    cluster.scontrol("reconfigure")
    cluster.wait_for("all nodes idle", cluster.all_idle, 30.0)
    site.start_worker(settle_s="1", stall_after_s="3")
    directory = site.outputs(user, f"demo-{int(time.time())}")
    say(f"submitting six jobs as user {user}; each prints what a training launcher prints")
    ids = {name: site.submit(job, user, directory) for name, job in JOBS.items()}
    for name, job_id in ids.items():
        print(f"    job {job_id}: {STORIES[name]}", flush=True)
    for name, job_id in ids.items():
        if JOBS[name].cancel:
            cluster.wait_state(job_id, "RUNNING")
            time.sleep(6.0)
            say(f"scancel {job_id}: that is the one that stands still")
            cluster.scancel(job_id)
    say("waiting for the reports; nobody asks for them, the worker makes them")
    found = site.wait_for_reports(*ids.values(), timeout_s=120.0)
    wrong = 0
    for name, job_id in ids.items():
        record = found[job_id]
        classes = ("hang",) if name == "hang" else JOBS[name].classes
        ok = record["status"] in JOBS[name].statuses and record.get("class") in classes
        wrong += not ok
        verdict = ": ".join(dict.fromkeys(str(record[key]) for key in ("status", "class") if record.get(key)))
        print(f"    job {job_id}: {verdict}{'' if ok else '   (WRONG)'}")
        if not record.get("report_path"):
            print("        no report on disk: there is no directory that can have this name")
        print(textwrap.indent(_beginning(site.command("show", job_id, user=user).stdout), " " * 8), flush=True)
    say(f"the whole report of job {ids['exception']}, as its user sees it: slurm-triage {ids['exception']}")
    print(textwrap.indent(site.command("show", ids["exception"], user=user).stdout, "    "))
    say("what sacct shows, because the worker has written AdminComment for the jobs that failed")
    print(textwrap.indent(cluster.sacct("-X", "-o", "jobid%-6,state%-12,exitcode%-8,admincomment%-110"), "    "))
    drained = cluster.drained()
    say(f"nodes that Slurm has drained meanwhile: {drained or 'none'}")
    if keep:
        say("the cluster stays. To look around:")
        print(f"    export SLURM_CONF={cluster.layout.slurm_conf}\n    {site.prefix}/bin/slurm-triage list")
        print("    to take it away, run the demo again without --keep")
    else:
        say("taking the cluster down again; its directory and its user go with it")
    if wrong or drained:
        say(f"THE DEMO FAILED: {wrong} of {len(ids)} verdicts are wrong, {len(drained)} nodes are drained")
        return 1
    return 0


def _beginning(report: str) -> str:
    """What a report says before its tables: what happened, and what it means."""
    return "\n\n".join(report.split("\n\n")[:3]).rstrip() + "\n"


def say(text: str) -> None:
    print(f"== {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
