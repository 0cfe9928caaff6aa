"""Slurm's memory limits kill for real, under either version of control groups, and everybody says so afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.layout import CHECKOUT
from tests.slurm.expected import check
from tests.slurm.played import accounting, play

OWN_KERNEL = CHECKOUT / "tests/cluster/own-kernel"


def test_a_job_over_its_memory_is_killed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    if cluster.memory_cgroup is None:
        pytest.skip("this kernel has no memory cgroup that may be used")
    monkeypatch.setenv("SLURM_CONF", str(cluster.layout.slurm_conf))
    played = play(cluster, ["oom-step", "oom-batch"])
    jobs = accounting(cluster).jobs(list(played.ids.values()))
    for name, job_id in played.ids.items():
        check(name, jobs[job_id], version=cluster.version, exit_codes_true=False)
    # Not from the node's snapshot, which goes by the kernel's clock: user-mode Linux stamps its messages with 0.
    kernel = cluster.output("dmesg").splitlines()
    assert any("oom-kill:" in line and f"/job_{played.ids['oom-batch']}/" in line for line in kernel), kernel[-20:]
    print(f"killed under version {cluster.memory_cgroup.version}")


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.xdist_group("own-kernel")
def test_the_same_under_version_2_which_this_machine_may_not_have() -> None:
    if os.geteuid() != 0:
        pytest.skip("a kernel of its own needs root")
    if shutil.which("linux.uml") is None:
        pytest.skip("user-mode-linux is not installed (python -m tests.cluster install)")
    test = f"{Path(__file__).relative_to(CHECKOUT)}::{test_a_job_over_its_memory_is_killed.__name__}[host]"
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    environment = {**inherited, "SLURM_TRIAGE_TEST_DIR": "/srv/own-kernel", "SLURM_TRIAGE_REQUIRE_LANES": "host"}
    result = subprocess.run(
        [str(OWN_KERNEL), sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", test],
        cwd=CHECKOUT,
        env=environment,
        text=True,
        capture_output=True,
        timeout=600.0,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "killed under version 2" in result.stdout
    assert "1 passed" in result.stdout
