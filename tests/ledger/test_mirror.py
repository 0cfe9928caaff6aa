"""The copy in a SQL database: real servers, outages, damage, several clusters, passwords that nobody sees."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from slurm_triage.cli.main import main
from slurm_triage.errors import LedgerError
from slurm_triage.ledger.append import open_writer
from slurm_triage.ledger.export import COLUMNS, row
from slurm_triage.ledger.mirror import MARKS, TABLE, Mirror, read_password
from slurm_triage.ledger.read import records, snapshot
from slurm_triage.ledger.record import LedgerRecord
from slurm_triage.ledger.rollup import retire
from slurm_triage.ledger.segment import segments
from tests.ledger.samples import DAY_S, T0, record
from tests.ledger.sql_servers import PASSWORD, MariaDB, PostgreSQL, Server, programs, server

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


@pytest.fixture(scope="module")
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


def test_every_column_arrives_as_it_is(database: Database, tmp_path: Path) -> None:
    root = tmp_path / "l"
    directory = write(root, *ROWS)
    assert database.mirror().catch_up(directory).records == 3
    names = [name for name, _ in COLUMNS]
    order = ["job_id", *(n for n in names if n != "job_id")]
    for got, wanted in zip(database.rows(*order), expected(root, *order), strict=True):
        assert [bool(v) if n == "degraded" else v for n, v in zip(order, got, strict=True)] == list(wanted)


def test_the_sql_export_is_read_by_the_servers_own_clients(database: Database, tmp_path: Path) -> None:
    root = tmp_path / "l"
    write(root, *ROWS, record(4, name="C:\\new\\'; DROP TABLE x; --"))
    target = tmp_path / "out.sql"
    assert main(["ledger", "export", "--ledger", str(root), "--format", "sql", "-O", str(target)]) == 0
    database.load(target)
    order = ["job_id", *(n for n, _ in COLUMNS if n not in ("job_id", "degraded"))]
    assert database.rows(*order) == expected(root, *order)


def test_only_what_is_new_is_copied_and_revisions_win(database: Database, tmp_path: Path) -> None:
    root = tmp_path / "l"
    directory = write(root, *ROWS)
    mirror = database.mirror()
    assert [mirror.catch_up(directory).records for _ in range(3)] == [3, 0, 0]
    newer = replace(ROWS[0], revision=ROWS[0].revision + 5, cls="hang")
    older = replace(ROWS[1], revision=ROWS[1].revision - 5, cls="oom-host")
    write(root, newer, older, *(record(i) for i in range(10, 25)))
    assert mirror.catch_up(directory).records == 17
    assert mirror.catch_up(directory).records == 0
    assert database.rows(*KEY) == expected(root, *KEY)
    assert mirror.catch_up(directory, restart=True).records == 20
    assert database.rows(*KEY) == expected(root, *KEY)


def test_revisions_in_one_batch_and_in_the_wrong_order(database: Database, tmp_path: Path) -> None:
    root = tmp_path / "l"
    versions = [replace(ROWS[0], revision=n, cls=f"c{n}") for n in (5, 9, 7, 9, 3)]
    directory = write(root, *versions, segment_bytes=1 << 20)
    database.mirror().catch_up(directory)
    assert database.rows(*KEY) == [("7001", ROWS[0].attempt, 9, "c9", "alpha")] == expected(root, *KEY)


def test_while_the_writer_is_at_work(database: Database, tmp_path: Path) -> None:
    """Lines that are not acknowledged yet are left for the next time."""
    root = tmp_path / "l"
    mirror = database.mirror()
    with open_writer(root, "alpha") as writer:
        writer.append(ROWS[:2])
        path = segments(root / "alpha")[-1].path
        assert mirror.catch_up(root / "alpha").records == 2
        with path.open("ab") as file:
            file.write(b'{"crc":"00000000","seq":9,"len":612,"key":"alp')
        assert mirror.catch_up(root / "alpha").records == 0
    # A torn line at the end: the next writer seals it off and begins a new segment.
    with open_writer(root, "alpha") as writer:
        writer.append(ROWS[2:])
    copied = mirror.catch_up(root / "alpha")
    assert (copied.records, copied.counts.damaged) == (1, 0)
    assert database.rows(*KEY) == expected(root, *KEY)


def test_a_damaged_record_is_left_out_and_told(database: Database, tmp_path: Path) -> None:
    root = tmp_path / "l"
    directory = write(root, *(record(i) for i in range(12)))
    path = segments(directory)[1].path
    path.write_bytes(path.read_bytes().replace(b"alice", b"alicf", 1))
    copied = database.mirror().catch_up(directory)
    assert (copied.records, copied.counts.damaged) == (11, 1)
    assert database.rows(*KEY) == expected(root, *KEY)
    assert database.mirror().catch_up(directory).records == 0


def test_retired_segments_stay_in_the_database(database: Database, tmp_path: Path) -> None:
    root = tmp_path / "l"
    directory = write(root, *(record(i) for i in range(9)), segment_bytes=600)
    mirror = database.mirror()
    mirror.catch_up(directory)
    marked = segments(directory)[-1].name
    later = (record(i, start=T0 + 40 * DAY_S, end=T0 + 41 * DAY_S) for i in range(20, 26))
    write(root, *later, segment_bytes=600)
    assert marked in retire(directory, T0 + 20 * DAY_S)
    copied = mirror.catch_up(directory)
    assert copied.records == 6
    assert len(database.rows(*KEY)) == 15


def test_another_ledger_of_the_same_name_is_copied_from_its_start(database: Database, tmp_path: Path) -> None:
    mirror = database.mirror()
    mirror.catch_up(write(tmp_path / "old", *(record(i) for i in range(9))))
    other = write(tmp_path / "new", *(record(i) for i in range(50, 53)), segment_bytes=1 << 20)
    assert mirror.catch_up(other).records == 3
    assert len(database.rows(*KEY)) == 12


def test_several_clusters_at_once_in_one_table(database: Database, tmp_path: Path) -> None:
    root = tmp_path / "l"
    names = ("alpha", "beta", "gamma")
    for name in names:
        with open_writer(root, name) as writer:
            writer.append(record(i, cluster=name) for i in range(1200))
    failures: list[BaseException] = []

    def copy(name: str) -> None:
        try:
            database.mirror().catch_up(root / name)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=copy, args=(name,)) for name in (*names, "alpha")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert database.rows("cluster", "job_id", "revision") == expected(root, "cluster", "job_id", "revision")


def test_columns_that_the_site_does_not_want_are_left_out(database: Database, tmp_path: Path) -> None:
    root = tmp_path / "l"
    mirror = database.mirror()
    mirror.catch_up(write(root, ROWS[0]))
    quote = database.engine.dialect.identifier_preparer.quote_identifier
    database.run(f"ALTER TABLE {TABLE} DROP COLUMN {quote('user')}")
    directory = write(root, *ROWS[1:])
    assert mirror.catch_up(directory).records == 2
    assert database.rows(*KEY) == expected(root, *KEY)


def test_a_table_of_somebody_else_is_not_touched(database: Database, tmp_path: Path) -> None:
    database.run(f"CREATE TABLE {TABLE} (x INTEGER)")
    with pytest.raises(LedgerError, match="is not ours"):
        database.mirror().catch_up(write(tmp_path / "l", *ROWS))


def test_a_database_restored_from_a_backup_is_filled_up(database: Database, tmp_path: Path) -> None:
    """Rows and mark come from the same transaction, so an old backup holds an old mark."""
    root = tmp_path / "l"
    mirror = database.mirror()
    mirror.catch_up(write(root, *(record(i) for i in range(5))))
    quote = database.engine.dialect.identifier_preparer.quote_identifier
    with database.engine.connect() as connection:
        old = connection.exec_driver_sql(f"SELECT {quote('number')}, {quote('offset')}, head FROM {MARKS}").one()
    directory = write(root, *(record(i) for i in range(5, 20)))
    mirror.catch_up(directory)
    database.run(f"DELETE FROM {TABLE} WHERE job_id >= '7005'")
    database.run(f"UPDATE {MARKS} SET {quote('number')}={old[0]}, {quote('offset')}={old[1]}, head='{old[2]}'")
    assert mirror.catch_up(directory).records == 15
    assert database.rows(*KEY) == expected(root, *KEY)


def command(database: Database, root: Path, *args: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "slurm_triage",
        "ledger",
        "mirror",
        "--to",
        database.url,
        "--ledger",
        str(root),
        *args,
    ]


def environment(database: Database) -> dict[str, str]:
    return {**os.environ, "SLURM_TRIAGE_MIRROR_PASSWORD": database.password or ""}


@pytest.mark.parametrize("database", ["mariadb", "postgresql"], indirect=True)
def test_outages_while_the_writer_goes_on(database: Database, tmp_path: Path) -> None:
    """The server dies three times, the mirror twice; the writer notices nothing, and in the end all is there."""
    assert database.server is not None
    root = tmp_path / "l"
    stop = threading.Event()
    written: list[int] = []

    def work() -> None:
        with open_writer(root, "alpha", segment_bytes=100_000) as writer:
            number = 0
            while not stop.is_set():
                writer.append([record(number)])
                number += 1
                time.sleep(0.002)
            written.append(number)

    thread = threading.Thread(target=work)
    thread.start()
    errors = open(tmp_path / "errors", "wb")  # noqa: SIM115

    def follow() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command(database, root, "--follow", "--interval", "0.05"),
            env=environment(database),
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )

    while not root.exists():
        time.sleep(0.01)
    mirror = follow()
    try:
        for turn in range(3):
            time.sleep(1.5)
            database.server.stop(signal.SIGKILL)
            time.sleep(0.7)
            if turn < 2:
                mirror.send_signal(signal.SIGKILL)
                mirror.wait()
                mirror = follow()
            database.server.start()
        time.sleep(1.0)
        stop.set()
        thread.join()
        until = time.monotonic() + 60
        while len(database.rows("job_id", "attempt")) < written[0] and time.monotonic() < until:
            time.sleep(0.2)
        assert mirror.poll() is None, "the follower must outlive every outage"
    finally:
        stop.set()
        thread.join()
        mirror.kill()
        mirror.wait()
        errors.close()
    assert written[0] > 200
    assert database.rows(*KEY) == expected(root, *KEY)
    told = (tmp_path / "errors").read_text()
    assert "cannot mirror alpha into" in told
    assert "Traceback" not in told
    assert PASSWORD not in told


@pytest.mark.parametrize("database", ["mariadb", "postgresql"], indirect=True)
def test_errors_are_one_sentence_without_the_password(
    database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "l"
    write(root, *ROWS)
    args = ["ledger", "mirror", "--ledger", str(root), "--to"]
    monkeypatch.setenv("SLURM_TRIAGE_MIRROR_PASSWORD", "wr0ng-pa55")
    assert main([*args, database.url]) == 5
    refused = capsys.readouterr()
    monkeypatch.setenv("SLURM_TRIAGE_MIRROR_PASSWORD", PASSWORD)
    assert main([*args, database.url.replace("/history", "/nowhere")]) == 5
    unknown = capsys.readouterr()
    assert main([*args, database.url.replace(f":{database.url.split(':')[-1]}", ":1/history")]) == 5
    away = capsys.readouterr()
    assert main([*args, database.url]) == 0
    done = capsys.readouterr()
    for text in (refused.err, unknown.err, away.err):
        assert text.startswith("slurm-triage: cannot mirror alpha into ")
        assert text.count("\n") == 1
    assert "wr0ng-pa55" not in refused.err
    assert done.out.startswith("alpha: 3 records copied to ")
    assert PASSWORD not in "".join((refused.err, unknown.err, away.err, done.out, done.err))


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("nonsense", "is no database URL"),
        ("oracle://u@h/d", "cannot be oracle"),
        ("mysql+pymysql://u:geheim@h/d", "must hold no password"),
        ("postgresql+psycopg://u@h/d?password=geheim", "must hold no password"),
        ("mysql+nosuch://u@h/d", "pip install 'slurm-triage[mirror]'"),
    ],
)
def test_urls_that_cannot_be_used(
    url: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, *ROWS)
    monkeypatch.delenv("SLURM_TRIAGE_MIRROR_PASSWORD", raising=False)
    assert main(["ledger", "mirror", "--ledger", str(tmp_path), "--to", url]) in (2, 5)
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1
    assert "geheim" not in error


def test_settings_and_password_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "l"
    write(root, *ROWS)
    secret = tmp_path / "password"
    secret.write_text(f"{PASSWORD}\n")
    secret.chmod(0o644)
    config = tmp_path / "config.toml"
    config.write_text(f'mirror = "sqlite:///{tmp_path}/h.db"\nmirror_password_file = "{secret}"\n')
    monkeypatch.setenv("SLURM_TRIAGE_CONFIG", str(config))
    monkeypatch.delenv("SLURM_TRIAGE_MIRROR_PASSWORD", raising=False)
    assert main(["ledger", "mirror", "--ledger", str(root)]) == 5
    assert "others may use the password file" in capsys.readouterr().err
    secret.chmod(0o640)
    assert read_password(secret) == PASSWORD
    assert main(["ledger", "mirror", "--ledger", str(root)]) == 0
    assert main(["config", "show", "--origin"]) == 0
    assert PASSWORD not in capsys.readouterr().out
    config.write_text(f'mirror = "mysql+pymysql://u:{PASSWORD}@h/d"\n')
    assert main(["config", "show"]) == 2
    text = capsys.readouterr()
    assert "mirror must hold no password" in text.err
    assert PASSWORD not in text.err + text.out
    config.write_text("")
    assert main(["ledger", "mirror", "--ledger", str(root)]) == 2
    assert "no database is named" in capsys.readouterr().err


def test_damage_shows_in_the_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "l"
    path = segments(write(root, *ROWS))[0].path
    path.write_bytes(path.read_bytes().replace(b"alice", b"alicf", 1))
    assert main(["ledger", "mirror", "--ledger", str(root), "--to", f"sqlite:///{tmp_path}/h.db"]) == 5
    assert "run slurm-triage ledger verify" in capsys.readouterr().err
