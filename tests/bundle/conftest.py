"""Bundles are made and unpacked as a person would do it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slurm_triage.bundle.make import Bundle, make_bundle
from slurm_triage.locate import locate
from slurm_triage.model.job import NO_JOB
from slurm_triage.pipeline import Engine
from slurm_triage.slurm.record_file import load_record

CORPUS = Path(__file__).resolve().parents[1] / "corpus"


@dataclass(frozen=True)
class Unpacked:
    made: Bundle
    tree: Path

    def texts(self) -> dict[str, str]:
        """Names and contents of all members, as text."""
        files = (p for p in sorted(self.tree.rglob("*")) if p.is_file())
        return {str(p.relative_to(self.tree)): p.read_bytes().decode("utf-8", "replace") for p in files}


Pack = Callable[..., Unpacked]


def corpus_cases() -> list[Path]:
    return sorted(p.parent for p in CORPUS.glob("*/*/expect.json"))


def target_of(case: Path) -> Path:
    return case / "job" if (case / "job").is_dir() else case / "log.txt"


@pytest.fixture
def pack(engine: Engine, tmp_path: Path) -> Pack:
    """Makes a bundle of a log or job directory and unpacks it with tar."""
    count = 0

    def run(target: Path, accounting: Path | None = None, **options: Any) -> Unpacked:
        nonlocal count
        count += 1
        home = tmp_path / f"unpacked-{count}"
        home.mkdir()
        job = load_record(str(accounting)) if accounting is not None and accounting.exists() else NO_JOB
        archive = tmp_path / f"bundle-{count}.tar.gz"
        made = make_bundle(job, locate(str(target), job=job), engine, archive, name="triage-bundle-x", **options)
        subprocess.run(["tar", "xf", str(archive), "-C", str(home)], check=True, timeout=60)
        return Unpacked(made, home / "triage-bundle-x")

    return run


@pytest.fixture
def pack_text(pack: Pack, tmp_path: Path) -> Pack:
    """The same for a text."""

    def run(text: str | bytes, **options: Any) -> Unpacked:
        log = tmp_path / "7-JAX-x.log"
        log.write_bytes(text if isinstance(text, bytes) else text.encode())
        return pack(log, **options)

    return run
