"""Ledger speed: durable appends, and look-ups by job id against grep and SQLite on the same records.

    python -m tests.bench.ledger [--records 1000000] [--dir DIR]

All figures come from one run, one after the other, on the same file system. ``cold files`` means that the page cache
was told to forget the files first.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from slurm_triage.ledger.append import open_writer
from slurm_triage.ledger.frame import encode
from slurm_triage.ledger.record import LedgerRecord, to_json
from slurm_triage.ledger.segment import segments
from tests.ledger.samples import T0, record

GROUP = 1000
ROUNDS = 11
#: Promised: appends a second, and milliseconds for a look-up from cold files, interpreter included.
MIN_APPENDS = 20_000
MAX_LOOK_UP_MS = 150.0


def rows(count: int) -> Iterator[LedgerRecord]:
    base = record(
        1, node_evidence=(("chi2803", "fault"),), model="llama2-70b", job_dir="/shared/outputs/123456-JAX-llama2-70b",
        report_path="/shared/outputs/123456-JAX-llama2-70b/triage.json", rules_digest="0123456789abcdef",
        nodes="chi[2801-2816]", image="rocm/jax-training:maxtext-v26.2",
    )  # fmt: skip
    for i in range(count):
        start = T0 + i
        yield replace(base, job_id=str(100_000 + i), attempt=f"s{int(start)}", start=start, end=start + 3600)


def appends(root: Path, count: int) -> tuple[float, float]:
    """Records a second, each group of 1 000 synced before it is acknowledged; and the seconds that the writer then
    needs to index what it sealed (it does so when it has time)."""
    source, spent = rows(count), 0.0
    writer = open_writer(root, "alpha")
    while batch := list(islice(source, GROUP)):
        # Making the records up is not the ledger's work; encoding them is.
        began = time.perf_counter()
        writer.append(batch)
        spent += time.perf_counter() - began
    began = time.perf_counter()
    writer.close()
    return count / spent, time.perf_counter() - began


def one_sync_each(path: Path, seconds: float = 2.0) -> float:
    """The same lines, one fdatasync per record."""
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    done, spent = 0, 0.0
    for one in rows(10**9):
        began = time.perf_counter()
        os.write(fd, encode("rec", done, one.key, one.revision, to_json(one)))
        os.fdatasync(fd)
        spent += time.perf_counter() - began
        done += 1
        if spent > seconds:
            break
    os.close(fd)
    return done / spent


def sqlite_copy(path: Path, count: int) -> float:
    """The same records as JSON in an indexed table; seconds to build it."""
    began = time.perf_counter()
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE record (job_id TEXT, json TEXT)")
    database.executemany("INSERT INTO record VALUES (?, ?)", ((r.job_id, to_json(r).decode()) for r in rows(count)))
    database.execute("CREATE INDEX by_job ON record (job_id)")
    database.commit()
    database.close()
    return time.perf_counter() - began


def process_ms(command: Sequence[str], before: Callable[[], None] = lambda: None) -> tuple[float, float, float]:
    """Of a whole process: median and least wall time, median CPU time. As an installed command runs: with compiled
    modules, which the first, unmeasured run may have to write."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    wall, cpu = [], []
    for _ in range(ROUNDS):
        before()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        wall.append((time.perf_counter() - began) * 1000)
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append((now.ru_utime - used.ru_utime + now.ru_stime - used.ru_stime) * 1000)
    return statistics.median(wall), min(wall), statistics.median(cpu)


def forget(paths: Sequence[Path]) -> None:
    """Drops the files from the page cache."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--dir", type=Path)
    args = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="ledger-bench-", dir=args.dir))
    try:
        return measure(base, args.records)
    finally:
        shutil.rmtree(base)


def measure(base: Path, count: int) -> int:
    root, database = base / "ledger", base / "copy.sqlite"
    single = one_sync_each(base / "single.jsonl")
    rate, indexing_s = appends(root, count)
    parts = segments(root / "alpha")
    size_mb = sum(s.size_bytes for s in parts) / 1e6
    what = f"{count} records, {size_mb:.0f} MB, {len(parts)} segments"
    print(f"append, group commit of {GROUP}    {rate:10.0f} records/s  ({what})")
    print(
        f"append, one fdatasync each      {single:10.0f} records/s  (group commit is {rate / single:.0f} times as fast)"
    )

    job = str(100_000 + count // 2)
    # What the installed command runs: python -m would add the cost of runpy.
    start = "import sys; from slurm_triage.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", start, "list", "--ledger", str(root), "-P", "-j", job]
    made = len(list((root / "alpha").glob("*.idx")))
    print(f"indexing afterwards             {indexing_s:10.1f} s  ({made} segments)")
    print(f"SQLite copy with index          {sqlite_copy(database, count):10.1f} s")

    files = sorted(f for f in (root / "alpha").iterdir() if f.is_file())
    query = f"SELECT json FROM record WHERE job_id = '{job}'"
    script = f"import sqlite3; print(sqlite3.connect({str(database)!r}).execute({query!r}).fetchall())"
    grep = ["grep", "-h", "-F", f'"job_id":"{job}"', *(str(s.path) for s in parts)]
    print("\nlook-up of one job, whole process       wall ms   least   CPU ms")
    took = {}
    for name, what, before in (
        ("bare python3 -c pass", [sys.executable, "-c", "pass"], lambda: None),
        ("slurm-triage, warm files", command, lambda: None),
        ("slurm-triage, cold files", command, lambda: forget(files)),
        ("python3 + sqlite3, warm", [sys.executable, "-c", script], lambda: None),
        ("python3 + sqlite3, cold", [sys.executable, "-c", script], lambda: forget([database])),
        ("grep -F, warm", grep, lambda: None),
        ("grep -F, cold", grep, lambda: forget([s.path for s in parts])),
    ):
        took[name] = process_ms(what, before)
        print(f"{name:36} {took[name][0]:10.1f} {took[name][1]:7.1f} {took[name][2]:8.1f}")
    extra = {
        name: took[f"slurm-triage, {name} files"][0] - took["bare python3 -c pass"][0] for name in ("warm", "cold")
    }
    print(f"on top of bare python3: {extra['warm']:.1f} ms, with cold files {extra['cold']:.1f} ms")
    good = rate >= MIN_APPENDS and took["slurm-triage, cold files"][0] <= MAX_LOOK_UP_MS
    print("targets met" if good else f"targets missed: {MIN_APPENDS} appends/s, {MAX_LOOK_UP_MS:.0f} ms")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
