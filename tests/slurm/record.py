"""Records what a real cluster says about the scenarios, for the tests that run without one.

python -m tests.slurm.record LANE        writes tests/slurm/recorded/VERSION.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from slurm_triage.slurm import record
from tests.cluster import lanes
from tests.cluster.cluster import Cluster
from tests.cluster.rootfs import RootCluster
from tests.slurm.played import play

DELIMITER = "~|~"

#: Scenarios about which slurmctld knows something that accounting does not.
ASKED = ("exit-200", "exit-137", "step-killed", "cancelled", "node-lost", "requeued", "array", "hostile-name")
ASKED += ("output-name-too-long", "cancelled-pending", "launch-failed-held")


def main(lane: str) -> None:
    cluster = lanes.make(lane) if lane in lanes.LANES else RootCluster(Path(lane))
    with cluster.lock():
        cluster.wipe()
        try:
            cluster.up()
            path = Path(__file__).with_name("recorded") / f"{cluster.version}.json"
            path.write_text(json.dumps(recording(cluster), indent=1, ensure_ascii=False) + "\n")
        finally:
            cluster.wipe()


def recording(cluster: Cluster) -> dict[str, Any]:
    played = play(cluster)
    known = cluster.sacct("--helpformat").lower().split()
    columns = [column for column in record.COLUMNS if column in known]
    env = {"TZ": "UTC", "SLURM_TIME_FORMAT": "%s"}
    ids = sorted(played.ids.values(), key=int)
    query = ["sacct", "-npD", f"--delimiter={DELIMITER}", "-o", ",".join(columns), "-j", ",".join(ids)]
    return {
        "version": cluster.version,
        "ids": played.ids,
        "columns": columns,
        "delimiter": DELIMITER,
        "sacct": cluster.run(query, env=env).stdout,
        "scontrol": {
            name: cluster.run(["scontrol", "show", "job", played.ids[name]], env=env).stdout for name in ASKED
        },
        "events": {
            name: {event.kind: dict(event.env) for event in played.events if event.job_id == job_id}
            for name, job_id in played.ids.items()
        },
    }


if __name__ == "__main__":
    main(sys.argv[1])
