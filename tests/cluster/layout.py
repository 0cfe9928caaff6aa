"""Where a test cluster lives: directories, ports, node names, users."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(os.environ.get("SLURM_TRIAGE_TEST_CACHE", "/var/cache/slurm-triage-tests"))
"""Things that are slow to make and stay valid: root file systems. Outside the checkout, kept between runs."""

STATE = Path(os.environ.get("SLURM_TRIAGE_TEST_DIR", "/srv/slurm-triage-tests"))
"""State of running clusters, removed by ``wipe``."""

CHECKOUT = Path(__file__).resolve().parents[2]
CLUSTER_NAME = "triage"
ACCOUNT = "test"
USERS = {
    name: int(uid)
    for name, _, uid in (
        entry.partition(":") for entry in os.environ.get("SLURM_TRIAGE_TEST_USERS", "alice:2001,bob:2002").split(",")
    )
}
USER_COMMENT = "slurm-triage test user"
NODES = ("node01", "node02", "node03", "node04", "node05", "node06")

#: Number of ports one cluster uses, counted from its base port: slurmctld +0, nodes +1 .. , slurmdbd +90, MariaDB +91.
#: "host2" is a second cluster of lane "host", for tests that run at the same time.
BASE_PORTS = {"host": 17000, "root": 18000, "host2": 19000}


@dataclass(frozen=True)
class Layout:
    """``root`` is the file system the daemons run in (``/`` for lane "host"); ``inside`` is the cluster's directory
    as the daemons see it."""

    lane: str
    root: Path
    inside: Path
    nodes: tuple[str, ...] = NODES

    def seen_from_host(self, path: str | Path) -> Path:
        """The same file as ``path`` (which the daemons see), for a process outside the root file system."""
        return self.root / Path(path).relative_to("/")

    @property
    def outside(self) -> Path:
        return self.seen_from_host(self.inside)

    @property
    def base_port(self) -> int:
        return int(os.environ.get(f"SLURM_TRIAGE_TEST_PORT_{self.lane.upper()}", BASE_PORTS[self.lane]))

    @property
    def database_port(self) -> int:
        return self.base_port + 91

    @property
    def dbd_port(self) -> int:
        return self.base_port + 90

    def node_port(self, node: str) -> int:
        return self.base_port + 1 + self.nodes.index(node)

    @property
    def slurm_conf(self) -> Path:
        return self.inside / "etc/slurm.conf"

    @property
    def munge_socket(self) -> Path:
        return self.inside / "munge/munge.socket"


def host_layout(name: str = "host") -> Layout:
    return Layout(name, Path("/"), STATE / name)


def root_layout(root: Path) -> Layout:
    return Layout("root", root, Path("/srv/cluster"))
