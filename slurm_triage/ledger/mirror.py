"""A copy of the ledger in a SQL database, for questions over all clusters at once. The JSONL files stay the truth.

The database itself remembers how far it has got (``slurm_triage_mirror``), in the transaction that writes the rows. So
a copy that was interrupted, or a database that was restored from a backup, goes on where it stands; what is written
twice is the same row again, and of two revisions the higher one stays.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from slurm_triage.errors import LedgerError, UsageError
from slurm_triage.ledger.export import COLUMNS, row
from slurm_triage.ledger.fence import Mark, acknowledged_bytes, read_mark
from slurm_triage.ledger.frame import Damage, frames
from slurm_triage.ledger.read import ReadCounts, load
from slurm_triage.ledger.record import from_dict
from slurm_triage.ledger.segment import Segment, segments

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table

TABLE = "slurm_triage"
MARKS = "slurm_triage_mirror"
#: Characters: Slurm's cluster names have at most 40, and MariaDB indexes at most 3072 bytes, four to a character.
_KEY = {"cluster": 64, "job_id": 128, "attempt": 32}
#: Rows of one transaction.
_BATCH = 500
_TIMEOUT_S = 60
_DIALECTS = ("mysql", "mariadb", "postgresql", "sqlite")
#: Somebody else writes at the same time: MariaDB's lock wait and deadlock, PostgreSQL's serialization and deadlock.
_COLLISIONS = frozenset({1205, 1213, "40001", "40P01"})
_TRIES = 5


class _Place(NamedTuple):
    """Up to where a writer's segments have been copied. ``head``: checksum of the segment's first line, so that another
    ledger under the same name is not taken for this one."""

    number: int
    head: str
    offset: int


@dataclass(slots=True)
class Copied:
    records: int = 0
    counts: ReadCounts = field(default_factory=ReadCounts)


def read_password(path: Path) -> str:
    """The first line of a file that others may not read. Raises LedgerError."""
    try:
        with path.open() as file:
            if os.fstat(file.fileno()).st_mode & stat.S_IRWXO:
                raise LedgerError(f"others may use the password file {path}; chmod o= {path}")
            return file.readline().rstrip("\n")
    except OSError as error:
        raise LedgerError(f"cannot read the password file {path} ({error.strerror})") from error


class Mirror:
    """A database to copy into. Raises LedgerError, with one sentence that holds no password, whenever it cannot."""

    def __init__(self, url: str, password: str | None = None) -> None:
        try:
            import sqlalchemy
        except ImportError as error:
            raise LedgerError("the mirror needs SQLAlchemy: pip install 'slurm-triage[mirror]'") from error
        self._password = password
        try:
            parsed = sqlalchemy.make_url(url)
        except sqlalchemy.exc.ArgumentError as error:
            raise LedgerError(
                "the mirror is no database URL; write it as mysql+pymysql://user@host/database"
            ) from error
        if parsed.get_backend_name() not in _DIALECTS:
            raise UsageError(f"the mirror cannot be {parsed.get_backend_name()}; it can be {', '.join(_DIALECTS)}")
        if parsed.password is not None or "password" in parsed.query:
            raise UsageError("the mirror's URL must hold no password; use mirror_password_file")
        self.name = parsed.render_as_string(hide_password=True)
        if password is not None and parsed.get_backend_name() != "sqlite":
            parsed = parsed.set(password=password)
        try:
            self._engine: Engine = sqlalchemy.create_engine(
                parsed, poolclass=sqlalchemy.NullPool, connect_args=_limits(parsed.get_driver_name())
            )
        except (sqlalchemy.exc.SQLAlchemyError, ImportError) as error:
            raise LedgerError(
                f"cannot use the mirror {self.name} ({self._said(error)}); pip install 'slurm-triage[mirror]'"
            ) from error

    def catch_up(self, directory: Path, *, restart: bool = False) -> Copied:
        """Copies what one writer's ledger has and the database has not. ``restart``: all of it."""
        from sqlalchemy.exc import SQLAlchemyError

        try:
            with self._engine.connect() as connection:
                table, marks = self._tables(connection)
                return _copy(connection, table, marks, directory, restart)
        except SQLAlchemyError as error:
            raise LedgerError(
                f"cannot mirror {directory.name} into {self.name} ({self._said(error)}); the next run goes on from here"
            ) from error
        except OSError as error:
            raise LedgerError(f"cannot read {directory} ({error.strerror}); check its mode and the disk") from error

    def _tables(self, connection: Connection) -> tuple[Table, Table]:
        """Made if they are missing. Columns that the site has removed, or a newer version has added, are left out."""
        import sqlalchemy as sa

        kinds = {"TEXT": sa.Text, "BIGINT": sa.BigInteger, "DOUBLE PRECISION": sa.Double, "BOOLEAN": sa.Boolean}
        options: Any = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
        options |= {key.replace("mysql", "mariadb"): value for key, value in options.items()}
        columns = {
            name: sa.Column(name, sa.String(_KEY[name]), primary_key=True)
            if name in _KEY
            else sa.Column(name, kinds[kind])
            for name, kind in COLUMNS
        }
        metadata = sa.MetaData()
        marks = sa.Table(
            MARKS,
            metadata,
            sa.Column("writer", sa.String(64), primary_key=True),
            *(sa.Column(name, sa.BigInteger) for name in ("number", "offset")),
            sa.Column("head", sa.String(16)),
            **options,
        )
        present = sa.inspect(connection)
        if present.has_table(TABLE):
            names = {column["name"] for column in present.get_columns(TABLE)}
            if not names.issuperset((*_KEY, "revision")):
                raise LedgerError(f"the table {TABLE} in {self.name} is not ours; rename it")
            table = sa.Table(TABLE, metadata, *(c for name, c in columns.items() if name in names))
        else:
            table = sa.Table(TABLE, metadata, *columns.values(), sa.Index(f"{TABLE}_end", "end"), **options)
        for one in (table, marks):
            try:
                one.create(connection, checkfirst=True)
                connection.commit()
            except sa.exc.DBAPIError:
                connection.rollback()
                # The mirror of another cluster may have made it meanwhile.
                if not sa.inspect(connection).has_table(one.name):
                    raise
        connection.commit()
        return table, marks

    def _said(self, error: BaseException) -> str:
        """The driver's own words in one line."""
        words = getattr(error, "orig", None) or error
        text = " ".join(str(words.args[-1] if words.args else words).split()) or type(words).__name__
        return text.replace(self._password, "***") if self._password else text


def _limits(driver: str) -> dict[str, Any]:
    """A server that does not answer holds nobody up for long."""
    if driver == "pymysql":
        return {"connect_timeout": 10, "read_timeout": _TIMEOUT_S, "write_timeout": _TIMEOUT_S}
    if driver == "psycopg":
        return {"connect_timeout": 10, "tcp_user_timeout": _TIMEOUT_S * 1000, "options": "-c statement_timeout=60s"}
    return {"timeout": _TIMEOUT_S} if driver == "pysqlite" else {}


def _copy(connection: Connection, table: Table, marks: Table, directory: Path, restart: bool) -> Copied:
    from sqlalchemy import select

    found = connection.execute(select(marks).where(marks.c.writer == directory.name)).mappings().first()
    connection.rollback()
    mark = read_mark(directory)
    parts = segments(directory)
    begin = None if restart or found is None else _Place(found["number"], found["head"], found["offset"])
    copied = Copied()
    for batch, place in _batches(parts, begin, mark, copied.counts):
        _write(connection, table, marks, directory.name, batch, place)
        copied.records += len(batch)
    return copied


def _batches(
    parts: tuple[Segment, ...], begin: _Place | None, mark: Mark | None, counts: ReadCounts
) -> Iterator[tuple[list[dict[str, Any]], _Place]]:
    """Rows from ``begin`` on, each batch with the place behind it."""
    first, offset = _where(parts, begin)
    for segment in parts[first:]:
        data = load(segment, counts)
        sure = acknowledged_bytes(mark, segment.name) if segment.seal is None else None
        limit = int(min(len(data), sure if sure is not None else len(data)))
        head = _head(data)
        batch: list[dict[str, Any]] = []
        for item in frames(data, limit, offset):
            if isinstance(item, Damage):
                counts.note(segment, item)
                continue
            offset = min(item.end + 1, limit)
            if item.kind == b"rec":
                batch.append(_row(orjson.loads(item.payload)))
            if len(batch) >= _BATCH:
                yield batch, _Place(segment.number, head, offset)
                batch = []
        if batch or segment.number > (begin.number if begin else 0):
            yield batch, _Place(segment.number, head, max(offset, limit if segment.seal else 0))
        offset = 0


def _where(parts: tuple[Segment, ...], begin: _Place | None) -> tuple[int, int]:
    """Index of the segment to go on in, and the offset in it. From the start for a ledger that is another one."""
    if begin is None:
        return 0, 0
    for index, segment in enumerate(parts):
        if segment.number == begin.number:
            with segment.path.open("rb") as file:
                same = _head(file.read(64)) == begin.head
            return (index, begin.offset) if same else (0, 0)
        if segment.number > begin.number:
            # Retention has removed what was copied.
            return index, 0
    return 0, 0


def _head(data: bytes) -> str:
    return data[8:16].decode("latin-1")


def _row(values: Mapping[str, Any]) -> dict[str, Any]:
    record = from_dict(values)
    cells = {name: value for (name, _), value in zip(COLUMNS, row(record), strict=True)}
    cells["cluster"] = cells["cluster"] or "-"
    cells |= {name: str(cells[name])[:length] for name, length in _KEY.items()}
    # NUL cannot stand in PostgreSQL's text.
    return {name: value.replace("\0", "") if isinstance(value, str) else value for name, value in cells.items()}


def _write(
    connection: Connection, table: Table, marks: Table, writer: str, batch: list[dict[str, Any]], place: _Place
) -> None:
    """One transaction, tried again when another mirror was in its way."""
    import time

    from sqlalchemy.exc import DBAPIError

    names = [column.name for column in table.columns]
    rows = [{name: cells[name] for name in names} for cells in batch]
    for attempt in range(1, _TRIES + 1):
        try:
            with connection.begin():
                if rows:
                    connection.execute(_upsert(table, names, connection.dialect.name, newest="revision"), rows)
                mark = {"writer": writer, **place._asdict()}
                connection.execute(_upsert(marks, list(mark), connection.dialect.name), mark)
            return
        except DBAPIError as error:
            code = getattr(error.orig, "sqlstate", None) or next(iter(getattr(error.orig, "args", ())), None)
            if code not in _COLLISIONS or attempt == _TRIES:
                raise
            time.sleep(0.1 * attempt)


def _upsert(table: Table, names: list[str], dialect: str, newest: str | None = None) -> Any:
    """INSERT that replaces the row with the same key, if there is one and its ``newest`` is not greater."""
    import sqlalchemy as sa

    rest = [name for name in names if not table.c[name].primary_key]
    if dialect in ("mysql", "mariadb"):
        from sqlalchemy.dialects import mysql

        new = mysql.insert(table)
        if newest is None:
            return new.on_duplicate_key_update({name: new.inserted[name] for name in rest})
        wins = new.inserted[newest] >= table.c[newest]
        # Assignments take effect from left to right: what they are compared by must be the last one.
        ordered = sorted(rest, key=lambda name: name == newest)
        return new.on_duplicate_key_update([(n, sa.func.if_(wins, new.inserted[n], table.c[n])) for n in ordered])
    from sqlalchemy.dialects import postgresql, sqlite

    insert = (postgresql.insert if dialect == "postgresql" else sqlite.insert)(table)
    return insert.on_conflict_do_update(
        index_elements=[column.name for column in table.primary_key],
        set_={name: insert.excluded[name] for name in rest},
        where=None if newest is None else insert.excluded[newest] >= table.c[newest],
    )
