"""The copy in a SQL database: real servers, damage, retention, several clusters, backups, tables of others."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.cli.main import main
from slurm_triage.errors import LedgerError
from slurm_triage.ledger.append import open_writer
from slurm_triage.ledger.export import COLUMNS
from slurm_triage.ledger.mirror import MARKS, TABLE
from slurm_triage.ledger.rollup import retire
from slurm_triage.ledger.segment import segments
from tests.ledger.databases import KEY, ROWS, Database, expected, write
from tests.ledger.samples import DAY_S, T0, record


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
