"""Packs written by the tests, and a cache of their own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Every test has an empty cache, and never touches the user's."""
    with tempfile.TemporaryDirectory(prefix="slurm-triage-test-") as name:
        directory = Path(name)
        monkeypatch.setenv("SLURM_TRIAGE_CACHE_DIR", name)
        monkeypatch.setattr("slurm_triage.rules.cache.SYSTEM_DIR", directory / "nowhere")
        yield directory


@pytest.fixture
def only_packs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Replaces the built-in packs by the given texts; returns the directory."""

    def install(**packs: str) -> Path:
        directory = tmp_path / "packs"
        directory.mkdir(exist_ok=True)
        for name, text in packs.items():
            (directory / f"{name}.toml").write_text(text)
        for module in ("load", "lint"):
            monkeypatch.setattr(f"slurm_triage.rules.{module}.PACKS_DIR", directory)
        monkeypatch.setattr("slurm_triage.rules.load.SITE_DIR", tmp_path / "site")
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        return directory

    return install
