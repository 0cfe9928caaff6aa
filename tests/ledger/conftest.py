"""Ledger tests sync thousands of times: they run in memory where the host allows it."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_triage.ledger.mirror import MARKS, TABLE
from tests.ledger.databases import Database
from tests.ledger.samples import MEMORY
from tests.ledger.sql_servers import PASSWORD, MariaDB, PostgreSQL, Server, programs, server


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


@pytest.fixture(scope="session")
def servers() -> Iterator[Callable[[str], Server]]:
    """Each is started when the first test asks for it."""
    with contextlib.ExitStack() as stack:
        made: dict[str, Server] = {}

        def get(kind: str) -> Server:
            cls = {"mariadb": MariaDB, "postgresql": PostgreSQL}[kind]
            where = programs(cls.wanted)
            if where is None:
                pytest.skip(f"needs the server of {kind} (Debian: {kind}-server or {kind})")
            if kind not in made:
                made[kind] = stack.enter_context(server(cls, where))
            return made[kind]

        yield get


@pytest.fixture(params=["sqlite", "mariadb", "postgresql"])
def database(request: pytest.FixtureRequest, servers: Callable[[str], Server], tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        yield Database(f"sqlite:///{tmp_path}/history.db", None, None)
        return
    running = servers(request.param)
    found = Database(running.url, PASSWORD, running)
    yield found
    for table in (TABLE, MARKS):
        found.run(f"DROP TABLE IF EXISTS {table}")
