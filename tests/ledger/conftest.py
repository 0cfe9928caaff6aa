"""Ledger tests sync thousands of times: they run in memory where the host allows it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ledger.samples import MEMORY


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ledger-test-", dir=MEMORY) as name:
        path = Path(name) / "t"
        path.mkdir()
        yield path


@pytest.fixture
def fresh() -> Iterator["Fresh"]:
    """Makes a directory for each example of a property test."""
    with tempfile.TemporaryDirectory(prefix="ledger-test-", dir=MEMORY) as name:
        yield Fresh(Path(name))


class Fresh:
    def __init__(self, base: Path) -> None:
        self._base = base
        self._count = 0

    def __call__(self) -> Path:
        self._count += 1
        path = self._base / str(self._count)
        path.mkdir()
        return path
