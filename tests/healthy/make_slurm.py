"""Records the logs of ordinary jobs of a real Slurm: ``python -m tests.healthy.make_slurm``.

The scripts in ``slurm_jobs/`` run as a user on the test cluster (tests/cluster, lane "host"). Each log is kept with what
accounting said of its job. A job that did not end as COMPLETED is refused. Set SLURM_TRIAGE_TEST_DIR and
SLURM_TRIAGE_TEST_PORT_HOST to leave a cluster alone that is in use.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

from slurm_triage.slurm.record_file import job_from_record
from tests.cluster import lanes
from tests.cluster.cluster import Cluster
from tests.cluster.layout import USERS
from tests.healthy.jobs import SLURM_LOGS as LOGS
from tests.healthy.jobs import SLURM_SCRIPTS as SCRIPTS
from tests.healthy.scrub import scrub

_FIELDS = "jobid,jobidraw,jobname,state,exitcode,start,end,elapsed,timelimit,nodelist,partition"
#: Slurm waits two minutes before it starts a requeued job again.
_TIME_LIMIT_S = 400.0


def main() -> int:
    cluster = lanes.make("host")
    with cluster.lock():
        cluster.wipe()
        cluster.up()
        try:
            return record(cluster, next(iter(USERS)))
        finally:
            cluster.wipe()


def record(cluster: Cluster, user: str) -> int:
    """Submit all scripts, wait for all, keep logs and records. Returns the number of refused jobs."""
    directory = cluster.workdir(user, "healthy")
    output = "--output=%x-%A_%a.log"
    names = {
        cluster.submit(user, script.read_text(), output if "--array" in script.read_text() else "--output=%x-%j.log", cwd=directory): script.stem
        for script in sorted(SCRIPTS.glob("*.sh"))
    }  # fmt: skip
    cluster.wait(*names, timeout_s=_TIME_LIMIT_S)
    LOGS.mkdir(exist_ok=True)
    refused = 0
    for job_id, name in names.items():
        rows = cluster.sacct("-nPX", "-j", job_id, "-o", _FIELDS).splitlines()
        for row in rows:
            shown, raw, job_name, *values = row.split("|")
            state, exit_code, start, end, elapsed, limit, nodes, partition = values
            array, _, task = shown.partition("_")
            log = cluster.path(directory) / f"{job_name}-{f'{array}_{task}' if task else raw}.log"
            if state != "COMPLETED" or not log.exists():
                print(f"{name} {shown}: {state} {exit_code}, refused")
                refused += 1
                continue
            known = {
                "job_id": raw,
                "name": job_name,
                "state": state,
                "exit_code": exit_code,
                "start": start,
                "end": end,
            }
            known |= {"elapsed": elapsed, "time_limit": limit, "nodes": nodes, "partition": partition}
            job_from_record(known)
            keep(name + (f"-{task}" if task else ""), log.read_bytes(), known, directory)
    return refused


def keep(name: str, text: bytes, accounting: dict[str, object], directory: Path) -> None:
    text = scrub(text, {directory: "/home/user/run", directory.parent.parent.parent: "/opt/slurm"})
    (LOGS / f"{name}.log.gz").write_bytes(gzip.compress(text, 9, mtime=0))
    (LOGS / f"{name}.json").write_text(json.dumps(accounting, indent=1) + "\n")
    print(f"{name}: {len(text)} bytes")


if __name__ == "__main__":
    sys.exit(main())
