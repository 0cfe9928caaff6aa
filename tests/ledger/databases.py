"""Databases to mirror into, rows that are hard to carry over, and what must have arrived."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import sqlalchemy as sa

from slurm_triage.ledger.append import open_writer
from slurm_triage.ledger.export import COLUMNS, row
from slurm_triage.ledger.mirror import TABLE, Mirror
from slurm_triage.ledger.read import records, snapshot
from slurm_triage.ledger.record import LedgerRecord
from tests.ledger.samples import T0, record
from tests.ledger.sql_servers import Server

ROWS = [
    record(1, name='it\'s a "näme" \\ 😀 %s :x', node_evidence=(("n3", "fault"), ("n4", "died-first"))),
    record(2, status="completed", cls=None, fingerprint=None, versions={"JAX_VERSION": "0.8"}, degraded=True),
    record(3, gpu_hours=None, job_id="local_20260310_080000_ab12", cluster="alpha"),
]


class Database:
    """``server`` is None for SQLite."""

    def __init__(self, url: str, password: str | None, server: Server | None) -> None:
        self.url = url
        self.password = password
        self.server = server
        engine_url = sa.make_url(url)
        self.engine = sa.create_engine(
            engine_url.set(password=password) if password else engine_url, poolclass=sa.NullPool
        )

    def mirror(self) -> Mirror:
        return Mirror(self.url, self.password)

    def rows(self, *columns: str) -> list[tuple[object, ...]]:
        quote = self.engine.dialect.identifier_preparer.quote_identifier
        names = ", ".join(map(quote, columns))
        with self.engine.connect() as connection:
            return [tuple(r) for r in connection.exec_driver_sql(f"SELECT {names} FROM {TABLE} ORDER BY 1, 2")]

    def load(self, script: Path) -> None:
        """Statements from a file, through the client that comes with the server."""
        if self.server is None:
            with sqlite3.connect(str(self.engine.url.database)) as connection:
                connection.executescript(script.read_text())
            return
        with script.open() as file:
            self.server.client(file)

    def run(self, statement: str) -> None:
        with self.engine.begin() as connection:
            connection.exec_driver_sql(statement)


def write(root: Path, *rows: LedgerRecord, cluster: str = "alpha", segment_bytes: int = 3000) -> Path:
    with open_writer(root, cluster, clock=lambda: T0, segment_bytes=segment_bytes) as writer:
        for one in rows:
            writer.append([one])
    return root / cluster


def expected(root: Path, *columns: str) -> list[tuple[object, ...]]:
    """What the ledger says, as rows of the table."""
    places = [[name for name, _ in COLUMNS].index(column) for column in columns]
    found = [tuple(row(r)[place] for place in places) for r in records(snapshot([root]))]
    return sorted(found, key=lambda cells: (str(cells[0]), str(cells[1])))


KEY = ("job_id", "attempt", "revision", "class", "cluster")
