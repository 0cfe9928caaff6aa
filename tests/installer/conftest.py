"""A place of its own for each installation."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installer.place import Place


@pytest.fixture
def place() -> Iterator[Place]:
    # The hooks are tried out as Slurm's user, who must be able to come here.
    directory = Path(tempfile.mkdtemp(prefix="slurm-triage-test-"))
    directory.chmod(0o755)
    yield Place(directory)
    shutil.rmtree(directory)
