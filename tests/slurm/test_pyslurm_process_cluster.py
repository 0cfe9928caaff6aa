"""pyslurm's own process, with a real pyslurm: it may die and freeze, we do not."""

from __future__ import annotations

import os
import signal
import time

import pytest

from slurm_triage.errors import AccountingError
from slurm_triage.slurm.pyslurm_source import PyslurmAccounting
from tests.cluster.rootfs import RootCluster


def pyslurm(cluster: RootCluster, **limits: float) -> PyslurmAccounting:
    return PyslurmAccounting(cluster.python, child=cluster.checkout / "slurm_triage/slurm/pyslurm_child.py", **limits)


def test_it_is_started_again_when_it_has_died(root_cluster: RootCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", str(root_cluster.layout.slurm_conf))
    source = pyslurm(root_cluster)
    job_id = root_cluster.submit("alice", "true")
    root_cluster.wait(job_id)
    for _ in range(2):
        assert source.jobs([job_id])[job_id].state == "COMPLETED"
        assert source._process is not None
        os.kill(source._process.pid, signal.SIGKILL)
        source._process.wait()
    source.close()


def test_without_configuration_it_cannot_freeze_us(root_cluster: RootCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing pyslurm without a slurm.conf retries for a minute and then ends the interpreter."""
    monkeypatch.setenv("SLURM_CONF", "/no/such/slurm.conf")
    source = pyslurm(root_cluster, start_timeout_s=1.0)
    started = time.monotonic()
    with pytest.raises(AccountingError, match=r"slurm\.conf"):
        source.jobs(["1"])
    assert time.monotonic() - started < 10.0
    assert source._process is None
