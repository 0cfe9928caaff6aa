"""Bring the test cluster up, down, and break it: ``python -m tests.cluster up``."""

from __future__ import annotations

import argparse
import sys

from tests.cluster import lanes
from tests.cluster.cluster import Cluster
from tests.cluster.processes import ClusterError

COMMANDS = {
    "install": "install what the lane needs (apt; for lane root also a root file system and pyslurm)",
    "up": "start what is not running",
    "down": "stop our own daemons",
    "status": "nodes and daemons",
    "wipe": "stop and remove all state",
    "crash": "NODE: lose the node at once",
    "restore": "NODE: bring the node back",
    "dbd-down": "stop slurmdbd",
    "dbd-up": "start slurmdbd",
    "ctld-restart": "restart slurmctld",
    "env": "print how to reach the cluster from a shell",
    "run": "USER COMMAND ...: run a command in the cluster",
}


def main() -> int:
    lines = "\n".join(f"  {name:14}{text}" for name, text in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster", epilog=lines, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lane", choices=lanes.LANES, default="host")
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND")
    parser.add_argument("args", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    try:
        if options.command == "install":
            lanes.install(options.lane)
            return 0
        return _run(lanes.make(options.lane), options.command, options.args)
    except ClusterError as error:
        print(f"tests.cluster: {error}", file=sys.stderr)
        return 1


def _run(cluster: Cluster, command: str, args: list[str]) -> int:
    if command == "run":
        result = cluster.run(
            args[1:], user=args[0], cwd=cluster.home(args[0]) if args[0] != "root" else "/", check=False
        )
        print(result.stdout, end="")
        print(result.stderr, end="", file=sys.stderr)
        return result.returncode
    if command == "env":
        print(f"export SLURM_CONF={cluster.layout.slurm_conf}")
        return 0
    if command == "status":
        for name in cluster.processes.names():
            print(f"{name:16}{cluster.processes.pid(name) or 'not running'}")
        for node, state in cluster.node_states().items() if cluster.processes.pid("slurmctld") else ():
            print(f"{node:16}{state}")
        return 0
    with cluster.lock():
        getattr(cluster, command.replace("-", "_"))(*args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
