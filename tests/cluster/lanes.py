"""The two lanes: the host's own Slurm, and a newer one with pyslurm in a root file system."""

from __future__ import annotations

import os
import shutil

from tests.cluster import apt
from tests.cluster.cluster import Cluster
from tests.cluster.daemons import PATH
from tests.cluster.layout import host_layout
from tests.cluster.processes import ClusterError
from tests.cluster.rootfs import RootCluster

LANES = ("host", "root")
#: Clusters of lane "host", each as good as the other.
HOST_CLUSTERS = ("host", "host2")

#: program -> Debian package that has it
HOST_PACKAGES = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "slurmdbd": "slurmdbd",
    "sacct": "slurm-client",
    "munged": "munge",
    "mariadbd": "mariadb-server",
}
#: Plugins, headers, what the SPANK plugin is built with, what our units run under, a kernel with version 2 of control
#: groups, and one more shell for the hooks.
HOST_EXTRA_PACKAGES = (
    "slurm-wlm-basic-plugins",
    "slurm-wlm-mysql-plugin",
    "libslurm-dev",
    "gcc",
    "libc6-dev",
    "systemd",
    "user-mode-linux",
    "busybox",
)


class LaneUnavailableError(ClusterError):
    """The lane cannot run on this machine; the message says why."""


def make(lane: str) -> Cluster:
    """The cluster of a lane (or one of HOST_CLUSTERS), not started. Raises LaneUnavailableError with the reason."""
    if os.geteuid() != 0:
        raise LaneUnavailableError("the test cluster needs root")
    if lane in HOST_CLUSTERS:
        missing = [package for program, package in HOST_PACKAGES.items() if shutil.which(program, path=PATH) is None]
        if missing:
            raise LaneUnavailableError(f"not installed: {', '.join(missing)} (python -m tests.cluster install)")
        return Cluster(host_layout(lane))
    try:
        return RootCluster()
    except ClusterError as error:
        raise LaneUnavailableError(str(error)) from error


def install(lane: str) -> None:
    """Install what the lane needs. Raises LaneUnavailableError with the reason when that is not possible."""
    try:
        if lane == "root":
            RootCluster.install()
        else:
            apt.install(*HOST_PACKAGES.values(), *HOST_EXTRA_PACKAGES)
    except ClusterError as error:
        raise LaneUnavailableError(f"lane {lane} cannot be installed: {error}") from error
