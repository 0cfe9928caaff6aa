from __future__ import annotations

from pathlib import Path

import pytest

from .tree import Outputs


@pytest.fixture
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Outputs:
    """An empty outputs directory; nothing of the surroundings leaks into the search for ids."""
    monkeypatch.delenv("SLURM_TRIAGE_OUTPUTS", raising=False)
    monkeypatch.delenv("JOB_WORKSPACE", raising=False)
    monkeypatch.chdir(tmp_path)
    return Outputs(tmp_path / "outputs")
