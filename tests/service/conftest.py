"""A worker without Slurm: accounting is a table, jobs are directories of a user, the rest is the real thing."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.model.job import Job
from slurm_triage.pipeline import Engine
from slurm_triage.service import build
from slurm_triage.settings import Settings
from tests.service.fake_site import POLL_S, FakeSite


def job_owner() -> int:
    """A user that is not root, where we may become one."""
    return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else os.geteuid()


@pytest.fixture(scope="session")
def rehearsed(engine: Engine) -> Engine:
    build.rehearse(engine)
    return engine


@pytest.fixture
def site(place: Path, rehearsed: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSite]:
    monkeypatch.setattr("slurm_triage.service.lookup.WINDOW_S", POLL_S)
    settings = Settings(
        cluster="fake",
        spool=place / "spool",
        ledger=place / "ledger",
        state=place / "state",
        children=2,
        child_wall_s=20.0,
        settle_s=0.0,
        final_wait_s=0.5,
        reconcile_s=0.0,
        admin_comment="off",
        trusted_users=("root",),
    )
    made = FakeSite(place, settings, rehearsed, job_owner())
    yield made
    made.kill()


def ended_job(site: FakeSite, job_id: str, **changes: object) -> Job:
    """A final record of a failed job of the owner."""
    now = float(int(time.time()))
    job = Job(
        job_id=job_id,
        restarts=0,
        name=f"job-{job_id}",
        user=pwd.getpwuid(site.uid).pw_name,
        uid=site.uid,
        gid=site.uid,
        account="test",
        partition="debug",
        cluster="fake",
        state="FAILED",
        exit_code=1,
        submit=now - 100,
        start=now - 90,
        end=now - 1,
        elapsed_s=89.0,
        nodes=("node01",),
        node_count=1,
        source="sacct",
        final=True,
    )
    return replace(job, **changes)  # type: ignore[arg-type]
