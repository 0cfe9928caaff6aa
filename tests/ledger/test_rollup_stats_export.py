"""Retention keeps the sums; exports are read back by the tools they are for."""

import csv
import io
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from slurm_triage.cli.main import main
from slurm_triage.errors import LedgerError
from slurm_triage.ledger import index
from slurm_triage.ledger.append import open_writer
from slurm_triage.ledger.export import COLUMNS, export
from slurm_triage.ledger.read import records, snapshot
from slurm_triage.ledger.record import LedgerRecord, to_dict
from slurm_triage.ledger.repair import repair
from slurm_triage.ledger.rollup import retire, rollup_path, rollups
from slurm_triage.ledger.segment import segments
from slurm_triage.ledger.stats import stats
from slurm_triage.ledger.verify import verify
from tests.ledger.faults import Crash, FaultyFiles
from tests.ledger.samples import DAY_S, T0, record


def write(root: Path, rows: list[LedgerRecord]) -> Path:
    with open_writer(root, "alpha", clock=lambda: T0, segment_bytes=3000) as writer:
        for row in rows:
            writer.append([row])
    return root / "alpha"


def old_and_new() -> list[LedgerRecord]:
    old = [record(i, node_evidence=(("chi2803", "fault"),)) for i in range(9)]
    again = replace(old[2], revision=old[2].revision + 9, cls="hang")
    return [*old, again, *(record(i, start=T0 + 40 * DAY_S, end=T0 + 41 * DAY_S) for i in range(20, 26))]


def test_sums_stay_the_same_when_segments_are_retired(tmp_path: Path) -> None:
    directory = write(tmp_path, old_and_new())
    index.refresh(directory)
    before = stats([tmp_path])
    assert before.total.attempts == 15
    assert before.total.classes["hang"][0] == 1
    assert before.total.nodes["chi2803"] == [15, 9]
    assert set(before.months) == {"202603", "202604"}
    removed = retire(directory, T0 + 20 * DAY_S)
    assert len(removed) == 2
    after = stats([tmp_path])
    assert after.months == before.months
    assert after.retired_segments == 2
    assert {p.stem for p in directory.glob("*.idx")} & {name.partition(".")[0] for name in removed} == set()
    assert not verify(directory).findings
    assert len(list(records(snapshot([tmp_path])))) < 15


def test_only_old_sealed_segments_go(tmp_path: Path) -> None:
    directory = write(tmp_path, [record(i) for i in range(9)])
    assert retire(directory, T0) == []
    retire(directory, T0 + 900 * DAY_S)
    assert len(segments(directory)) == 1


def test_a_crash_while_retiring_counts_nothing_twice(tmp_path: Path) -> None:
    before = stats([tmp_path]).total if write(tmp_path, old_and_new()) else None
    directory = tmp_path / "alpha"
    at = 0
    while True:
        files = FaultyFiles(at, "before")
        try:
            retire(directory, T0 + 20 * DAY_S, files)
        except Crash:
            files.abandon()
            assert stats([tmp_path]).total == before
            assert not verify(directory).new_losses
            at += 1
            continue
        break
    assert at > 5
    assert len(rollups(directory)) == 2
    assert len(list(directory.glob("*.seal"))) == len(segments(directory)) - 1


def test_a_full_disk_while_retiring_loses_nothing(tmp_path: Path) -> None:
    directory = write(tmp_path, old_and_new())
    with pytest.raises(LedgerError, match="nothing is lost"):
        retire(directory, T0 + 20 * DAY_S, FaultyFiles(1, 28, times=99))
    assert stats([tmp_path]).total.attempts == 15


def test_a_damaged_rollup_is_an_error_not_a_smaller_sum(tmp_path: Path) -> None:
    directory = write(tmp_path, old_and_new())
    name = retire(directory, T0 + 20 * DAY_S)[0]
    path = rollup_path(directory / name)
    path.write_bytes(path.read_bytes().replace(b'"attempts":', b'"attempts":1'))
    with pytest.raises(LedgerError, match="is damaged"):
        stats([tmp_path])


@pytest.mark.parametrize("which", [0, 1])
def test_a_damaged_rollup_is_found_put_into_quarantine_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], which: int
) -> None:
    """The rest of the ledger is verified all the same, and no number is taken for lost that the roll-up only knew."""
    directory = write(tmp_path, old_and_new())
    names = retire(directory, T0 + 20 * DAY_S)
    path = rollup_path(directory / names[:: len(names) - 1][which])
    before = stats([tmp_path]).total.attempts
    lost = sum(
        tally.attempts
        for tally in next(r for r in rollups(directory) if r.segment == path.stem + ".jsonl").months.values()
    )
    path.write_bytes(path.read_bytes().replace(b'"attempts":', b'"attempts":1'))
    damaged = path.read_bytes()
    verdict = verify(directory)
    assert [(f.kind, f.file) for f in verdict.new_losses] == [("rollup-damaged", path.name)]
    assert main(["ledger", "verify", "--ledger", str(tmp_path)]) == 5
    assert repair(directory, lambda: T0).quarantined == 1
    assert path.read_bytes() == damaged == (directory / "quarantine" / f"{path.name}@0").read_bytes()
    assert verify(directory).new_losses == ()
    found = stats([tmp_path])
    assert (found.lost_rollups, found.total.attempts) == (1, before - lost)
    capsys.readouterr()
    assert main(["ledger", "stats", "--ledger", str(tmp_path)]) == 0
    assert "1 sums of retired segments are damaged" in capsys.readouterr().out
    path.write_bytes(damaged[:-9])
    assert verify(directory).new_losses


ROWS = [
    record(1, name="it's a \"name\", with\nall; of 'it' \\ --", node_evidence=(("n3", "fault"), ("n4", "died-first"))),
    record(2, status="completed", cls=None, fingerprint=None, versions={"JAX_VERSION": "0.8"}, degraded=True),
    record(3, name='=HYPERLINK("http://x")', gpu_hours=None),
]  # fmt: skip


def written(rows: Iterator[LedgerRecord] | list[LedgerRecord], fmt: str) -> bytes:
    out = io.BytesIO()
    assert export(rows, fmt, out) == len(ROWS)
    return out.getvalue()


def test_json_lines() -> None:
    assert [orjson.loads(line) for line in written(ROWS, "jsonl").splitlines()] == [
        orjson.loads(orjson.dumps(to_dict(row))) for row in ROWS
    ]


def test_csv_is_read_back_and_runs_no_formula() -> None:
    rows = list(csv.DictReader(io.StringIO(written(ROWS, "csv").decode(), newline="")))
    name = (ROWS[0].name or "").replace("\n", "?")
    assert [row["name"] for row in rows] == [name, ROWS[1].name, '\'=HYPERLINK("http://x")']
    assert rows[0]["culprits"] == "n3,n4"
    assert rows[1]["class"] == ""
    assert float(rows[0]["gpu_hours"]) == 32.0


def test_sql_is_read_back_by_a_database() -> None:
    database = sqlite3.connect(":memory:")
    database.executescript(written(ROWS, "sql").decode())
    names = [row[0] for row in database.execute("SELECT name FROM slurm_triage ORDER BY job_id")]
    assert names == [row.name for row in ROWS]
    (lost,) = database.execute('SELECT sum(gpu_hours_lost) FROM slurm_triage WHERE "class" IS NOT NULL').fetchone()
    assert lost == 16.0
    assert database.execute("SELECT degraded, gpu_hours FROM slurm_triage WHERE job_id = '7002'").fetchone() == (
        1,
        32.0,
    )


def test_sql_of_many_rows_is_complete() -> None:
    out = io.BytesIO()
    export((record(i) for i in range(450)), "sql", out)
    database = sqlite3.connect(":memory:")
    database.executescript(out.getvalue().decode())
    assert database.execute("SELECT count(DISTINCT job_id) FROM slurm_triage").fetchone() == (450,)


def test_parquet_is_read_back() -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(written(ROWS, "parquet")))
    assert table.column_names == [name for name, _ in COLUMNS]
    assert table["name"].to_pylist() == [row.name for row in ROWS]
    assert table["gpu_hours"].to_pylist() == [32.0, 32.0, None]
    assert table["degraded"].to_pylist() == [False, True, False]
