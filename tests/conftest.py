"""Fixtures that every part may use: the engine (loaded once) and triage of a text."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_triage.logs.read import read_logs
from slurm_triage.model.facts import AttemptFacts
from slurm_triage.model.files import JobFiles, LogFile
from slurm_triage.model.report import Report
from slurm_triage.pipeline import Engine, triage_path
from slurm_triage.slurm.record_file import job_from_record

pytest_plugins = ["tests.cluster.fixtures"]

Triage = Callable[..., Report]


@pytest.fixture(scope="session")
def engine() -> Engine:
    return Engine.load()


@pytest.fixture
def triage_text(engine: Engine, tmp_path: Path) -> Triage:
    """Write a text as a job's log and triage it: ``triage_text(log, accounting={...}, now=...)``."""

    def run(
        text: str | bytes,
        *,
        accounting: dict[str, Any] | None = None,
        now: float | None = None,
        name: str = "7-JAX-x.log",
    ) -> Report:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        if accounting is None:
            return triage_path(str(path), engine=engine, now=now)
        return triage_path(str(path), engine=engine, now=now, job=job_from_record(json.loads(json.dumps(accounting))))

    return run


@pytest.fixture
def facts_of(engine: Engine, tmp_path: Path) -> Callable[[str | bytes], AttemptFacts]:
    """Facts of the last attempt in a text."""

    def run(text: str | bytes) -> AttemptFacts:
        path = tmp_path / "facts.log"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_logs(JobFiles(logs=(LogFile(str(path), "primary"),)), engine.ruleset, engine.matcher).last

    return run


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user may enter (pytest's own belong to the caller alone)."""
    directory = Path(tempfile.mkdtemp(prefix="slurm-triage-test-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)
