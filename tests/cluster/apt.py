"""Debian packages that the tests need."""

from __future__ import annotations

import os
import subprocess

from tests.cluster.processes import ClusterError


def install(*packages: str) -> None:
    """Install what is missing. Raises ClusterError; apt-get itself has said why by then."""
    argv = ["install", "-y", "-q", "--no-install-recommends", *packages]
    if _apt_get(*argv):
        # A fresh machine has no package lists, an old one outdated ones.
        _apt_get("update", "-q")
        if _apt_get(*argv):
            raise ClusterError(f"apt-get cannot install {' '.join(packages)}")


def _apt_get(*args: str) -> int:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        return subprocess.run(["apt-get", *args], env=environment, check=False, stdin=subprocess.DEVNULL).returncode
    except FileNotFoundError as error:
        raise ClusterError("apt-get is not here: install the packages by hand") from error
