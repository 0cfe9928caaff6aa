"""The two lanes: the host's own Slurm, and a newer one with pyslurm in a root file system."""

from __future__ import annotations

import os
import shutil
import subprocess

from tests.cluster.cluster import Cluster
from tests.cluster.daemons import PATH
from tests.cluster.layout import host_layout
from tests.cluster.processes import ClusterError
from tests.cluster.rootfs import RootCluster

LANES = ("host", "root")

#: program -> Debian package that has it
HOST_PACKAGES = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "slurmdbd": "slurmdbd",
    "sacct": "slurm-client",
    "munged": "munge",
    "mariadbd": "mariadb-server",
}
#: Plugins and headers, which no program's presence shows.
HOST_EXTRA_PACKAGES = ("slurm-wlm-basic-plugins", "slurm-wlm-mysql-plugin", "libslurm-dev")


class LaneUnavailableError(ClusterError):
    """The lane cannot run on this machine; the message says why."""


def make(lane: str) -> Cluster:
    """The cluster of a lane, not started. Raises LaneUnavailableError with the reason."""
    if os.geteuid() != 0:
        raise LaneUnavailableError("the test cluster needs root")
    if lane == "host":
        missing = [package for program, package in HOST_PACKAGES.items() if shutil.which(program, path=PATH) is None]
        if missing:
            raise LaneUnavailableError(f"not installed: {', '.join(missing)} (python -m tests.cluster install)")
        return Cluster(host_layout())
    return RootCluster()


def install(lane: str) -> None:
    """Install what the lane needs. Raises LaneUnavailableError with the reason when that is not possible."""
    try:
        if lane == "root":
            RootCluster.install()
            return
        command = ["apt-get", "install", "-y", "-q", "--no-install-recommends"]
        subprocess.run(
            [*command, *HOST_PACKAGES.values(), *HOST_EXTRA_PACKAGES],
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        raise LaneUnavailableError(f"lane {lane} cannot be installed: {error}") from error
