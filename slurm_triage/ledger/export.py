"""The ledger as other tools read it: JSON lines, CSV, SQL, Parquet."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import IO, Any

import orjson

from slurm_triage.errors import LedgerError
from slurm_triage.ledger.record import LedgerRecord, to_dict

FORMATS = ("jsonl", "csv", "sql", "parquet")

#: name, SQL type. Lists become text: culprits as ``n1,n2``, versions as JSON.
COLUMNS: tuple[tuple[str, str], ...] = (
    ("cluster", "TEXT"),
    ("job_id", "TEXT"),
    ("attempt", "TEXT"),
    ("revision", "BIGINT"),
    ("array_job_id", "TEXT"),
    ("array_task_id", "TEXT"),
    ("het_job_id", "TEXT"),
    ("restarts", "BIGINT"),
    ("user", "TEXT"),
    ("account", "TEXT"),
    ("partition", "TEXT"),
    ("name", "TEXT"),
    ("state", "TEXT"),
    ("exit_code", "TEXT"),
    ("status", "TEXT"),
    ("class", "TEXT"),
    ("rule", "TEXT"),
    ("fingerprint", "TEXT"),
    ("confidence", "TEXT"),
    ("domain", "TEXT"),
    ("stage", "TEXT"),
    ("nodes", "TEXT"),
    ("node_count", "BIGINT"),
    ("culprits", "TEXT"),
    ("submit", "DOUBLE PRECISION"),
    ("start", "DOUBLE PRECISION"),
    ("end", "DOUBLE PRECISION"),
    ("elapsed_s", "DOUBLE PRECISION"),
    ("gpus", "BIGINT"),
    ("gpu_hours", "DOUBLE PRECISION"),
    ("gpu_hours_lost", "DOUBLE PRECISION"),
    ("steps_this_run", "BIGINT"),
    ("last_step", "BIGINT"),
    ("step_time_s", "DOUBLE PRECISION"),
    ("setup_s", "DOUBLE PRECISION"),
    ("throughput", "DOUBLE PRECISION"),
    ("throughput_unit", "TEXT"),
    ("degraded", "BOOLEAN"),
    ("model", "TEXT"),
    ("image", "TEXT"),
    ("versions", "TEXT"),
    ("job_dir", "TEXT"),
    ("report_path", "TEXT"),
    ("generated_at", "DOUBLE PRECISION"),
    ("rules_digest", "TEXT"),
)
#: Rows per INSERT, and per Parquet row group: bounds memory.
_SQL_ROWS = 200
_PARQUET_ROWS = 50_000
#: A cell that a spreadsheet would run as a formula gets a quote in front: names of jobs are chosen by users.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
#: CSV is looked at on terminals, and a line of it should be a record.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def row(record: LedgerRecord) -> list[Any]:
    """One value for each of ``COLUMNS``."""
    values: dict[str, Any] = {**to_dict(record), "degraded": record.degraded}
    values["culprits"] = ",".join(record.culprits) or None
    values["versions"] = orjson.dumps(record.versions).decode() if record.versions else None
    return [values.get(name) for name, _ in COLUMNS]


def export(records: Iterable[LedgerRecord], fmt: str, out: IO[bytes]) -> int:
    """Writes all records in one of ``FORMATS``; returns how many. Raises LedgerError if a library is missing."""
    writers = {"jsonl": _jsonl, "csv": _csv, "sql": _sql, "parquet": _parquet}
    return writers[fmt](records, out)


def _jsonl(records: Iterable[LedgerRecord], out: IO[bytes]) -> int:
    count = 0
    for record in records:
        out.write(orjson.dumps(to_dict(record), option=orjson.OPT_APPEND_NEWLINE))
        count += 1
    return count


class _Encoded:
    """What ``csv`` writes text to."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out

    def write(self, text: str) -> int:
        return self._out.write(text.encode("utf-8", "replace"))


def _csv(records: Iterable[LedgerRecord], out: IO[bytes]) -> int:
    writer = csv.writer(_Encoded(out), lineterminator="\n")
    writer.writerow([name for name, _ in COLUMNS])
    count = 0
    for record in records:
        writer.writerow([_cell(value) for value in row(record)])
        count += 1
    return count


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return _CONTROL.sub("?", "'" + value if value.startswith(_FORMULA) else value)


def _sql(records: Iterable[LedgerRecord], out: IO[bytes]) -> int:
    """Standard SQL. What stands between ``/*!`` and ``*/`` is a comment to all but MariaDB and MySQL."""
    out.write(b"/*!40101 SET NAMES utf8mb4 */;\n")
    out.write(b"/*!40101 SET sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES,NO_BACKSLASH_ESCAPES') */;\n")
    columns = ",\n  ".join(f'"{name}" {kind}' for name, kind in COLUMNS)
    charset = "/*!40101 CHARACTER SET utf8mb4 */"
    out.write(f"CREATE TABLE IF NOT EXISTS slurm_triage (\n  {columns}\n) {charset};\n".encode())
    names = ", ".join(f'"{name}"' for name, _ in COLUMNS)
    rows = iter(records)
    count = 0
    while batch := list(islice(rows, _SQL_ROWS)):
        values = ",\n".join("(" + ", ".join(_literal(v) for v in row(record)) + ")" for record in batch)
        out.write(f"INSERT INTO slurm_triage ({names}) VALUES\n{values};\n".encode("utf-8", "replace"))
        count += len(batch)
    return count


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return repr(value)
    # NUL cannot stand in SQL text; a backslash is an ordinary character in standard SQL.
    return "'" + str(value).replace("\0", "").replace("'", "''") + "'"


def _parquet(records: Iterable[LedgerRecord], out: IO[bytes]) -> int:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise LedgerError("Parquet needs pyarrow: pip install 'slurm-triage[parquet]'") from error
    kinds = {"TEXT": pa.string(), "BIGINT": pa.int64(), "DOUBLE PRECISION": pa.float64(), "BOOLEAN": pa.bool_()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in COLUMNS])
    rows = iter(records)
    count = 0
    with pq.ParquetWriter(out, schema) as writer:
        while batch := list(islice(rows, _PARQUET_ROWS)):
            columns: Sequence[Sequence[Any]] = list(zip(*(row(record) for record in batch), strict=True))
            arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            count += len(batch)
    return count
