"""Where the nodes of the test cluster may make their memory control groups, so that Slurm's limits kill for real."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class MemoryCgroup:
    """``base``: a group of this machine in which groups with a memory limit can be made."""

    version: int
    base: Path


def find() -> MemoryCgroup | None:
    """None where the kernel has no memory controller that may be used. The controller belongs to version 1 or to
    version 2 of the whole machine, never to both."""
    return _version_1() or _version_2()


def _version_1() -> MemoryCgroup | None:
    """Below our own group."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        base = Path("/sys/fs/cgroup/memory") / path.lstrip("/")
        if "memory" in controllers.split(",") and os.access(base, os.W_OK):
            return MemoryCgroup(1, base)
    return None


def _version_2() -> MemoryCgroup | None:
    """At the top: a group that has processes, such as our own, can give its children no controller."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    for top in [Path(mount[1]) for mount in mounts if mount[2] == "cgroup2"]:
        with contextlib.suppress(OSError):
            controllers = (top / "cgroup.controllers").read_text().split()
            if "memory" in controllers:
                # Slurm overlooks the last one of a list.
                (top / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))
                return MemoryCgroup(2, top)
    return None
