"""sbatch --triage: built against the installed headers, seen by the hooks, harmless when missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.processes import ClusterError
from tests.slurm.played import install_hooks, read_spool, wait_for_nodes

BUILD = Path(__file__).resolve().parents[2] / "hooks/spank/build"


@pytest.fixture
def plugin(cluster: Cluster) -> Iterator[Path]:
    directory = cluster.dir / "plugins"
    directory.mkdir(exist_ok=True)
    inside = cluster.layout.inside / "plugins"
    built = cluster.run(["sh", f"{cluster.checkout}/hooks/spank/build", str(inside)], check=False)
    if built.returncode == 2:
        pytest.skip(built.stderr)
    assert built.returncode == 0, built.stderr
    plugstack = cluster.dir / "etc/plugstack.conf"
    plugstack.write_text(f"optional {inside}/slurm_triage.so\n")
    yield directory / "slurm_triage.so"
    plugstack.write_text("")


def test_the_wish_arrives_with_the_events(cluster: Cluster, plugin: Path) -> None:
    del plugin
    spool = install_hooks(cluster)
    ids = {
        wish: cluster.submit("alice", "true", f"--triage={wish}", "-o", "/dev/null") for wish in ("on", "off", "watch")
    }
    ids[""] = cluster.submit("alice", "true", "-o", "/dev/null")
    by_environment = cluster.submit("alice", "true", "-o", "/dev/null", SLURM_TRIAGE="off")
    option_wins = cluster.submit("alice", "true", "--triage=on", "-o", "/dev/null", SLURM_TRIAGE="off")
    no_wish = cluster.submit("alice", "true", "-o", "/dev/null", SLURM_TRIAGE="perhaps")
    cluster.wait(*ids.values(), by_environment, option_wins, no_wish)
    wait_for_nodes(cluster)
    for wish, job_id in [*ids.items(), ("off", by_environment), ("on", option_wins), ("", no_wish)]:
        for kind in ("prolog-slurmctld", "epilog-slurmctld", "epilog"):
            found = [event for event in read_spool(spool) if event.job_id == job_id and event.kind == kind]
            assert [event.wish for event in found] == [wish or None], (wish, kind)


def test_another_wish_is_refused_by_sbatch(cluster: Cluster, plugin: Path) -> None:
    del plugin
    with pytest.raises(ClusterError, match="use on, off or watch"):
        cluster.submit("alice", "true", "--triage=maybe")


def test_without_the_plugins_file_jobs_run(cluster: Cluster, plugin: Path) -> None:
    plugin.unlink()
    job_id = cluster.submit("alice", "true", "-o", "/dev/null")
    assert cluster.wait(job_id) == {job_id: "COMPLETED"}


def test_without_compiler_or_headers_only_this_is_missing(tmp_path: Path) -> None:
    for name in ("sh", "dirname"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    result = subprocess.run(
        ["sh", str(BUILD), str(tmp_path)], env={"PATH": str(tmp_path)}, text=True, capture_output=True, check=False
    )
    assert (result.returncode, result.stderr) == (2, "no C compiler: sbatch --triage is not available\n")
    compiler = tmp_path / "gcc"
    compiler.write_text(
        f"#!/bin/sh\nPATH={os.environ['PATH']}\ncat >/dev/null\necho 'fatal error: slurm/spank.h' >&2\nexit 1\n"
    )
    compiler.chmod(0o755)
    result = subprocess.run(
        ["sh", str(BUILD), str(tmp_path)], env={"PATH": str(tmp_path)}, text=True, capture_output=True, check=False
    )
    assert result.returncode == 2
    assert "slurm/spank.h is not installed" in result.stderr
