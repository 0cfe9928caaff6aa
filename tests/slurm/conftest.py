"""The scenarios, played once per lane and run; the hooks in every shell."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.bench.hooks import install
from tests.cluster.cluster import Cluster
from tests.slurm.hook_files import SHELLS, Hooks
from tests.slurm.played import Played, play


@pytest.fixture(scope="session")
def played(cluster: Cluster) -> Played:
    return play(cluster)


@pytest.fixture(params=SHELLS)
def hooks(request: pytest.FixtureRequest, place: Path) -> Hooks:
    binary = shutil.which(request.param)
    if binary is None:
        pytest.skip(f"{request.param} is not installed")
    install(place)
    # Called as "sh", bash and busybox become POSIX shells.
    (place / "bin").mkdir()
    shell = place / "bin/sh"
    shell.symlink_to(binary)
    (place / "cwd").mkdir()
    for path in place.iterdir():
        if path.is_file():
            path.write_text(path.read_text().replace("/bin/sh", str(shell)))
    found = Hooks(place, shell)
    found.kernel_says("")
    found.replace("carry-events", "dmesg -S -s 65536", f"cat {place}/kernel")
    (place / "uptime").write_text("10000.55 1.00\n")
    for name in ("carry-events", "record-event"):
        found.replace(name, "/proc/uptime", f"{place}/uptime")
    found.configure("guard=off")
    for seconds in (1, 5):
        found.replace("record-event", f"seconds={seconds}\n", "seconds=0\n")
    return found
