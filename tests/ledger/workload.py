"""What the crash matrix runs and how it judges the outcome."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from slurm_triage.ledger.append import Writer, open_writer
from slurm_triage.ledger.files import Files
from slurm_triage.ledger.read import records, snapshot
from slurm_triage.ledger.record import LedgerRecord, to_dict
from slurm_triage.ledger.verify import verify
from tests.ledger.faults import FaultyFiles
from tests.ledger.samples import DAY_S, T0, record

#: Small, so that a short workload rotates a few times.
SEGMENT_BYTES = 4000
MONTH_S = 31 * DAY_S


@dataclass
class Row:
    """``lost``: acknowledged records that cannot be read. ``doubled``: attempts read twice or in an old revision.
    ``undetected``: damage that verify does not report, or that changed what is read."""

    accident: str
    injected: int = 0
    acknowledged: int = 0
    lost: int = 0
    doubled: int = 0
    undetected: int = 0

    @property
    def sound(self) -> bool:
        return self.injected > 0 and not (self.lost or self.doubled or self.undetected)

    def __str__(self) -> str:
        return (
            f"| {self.accident} | {self.injected} | {self.acknowledged} | {self.lost} | {self.doubled} "
            f"| {self.undetected} |"
        )


def batches() -> list[list[LedgerRecord]]:
    """What a worker appends: single records and groups, an attempt that is triaged again, a job name with every kind of
    character."""
    plain = [record(i) for i in range(1, 12)]
    again = replace(plain[1], revision=plain[1].revision + 5, cls="hang")
    odd = record(20, name='a"b\\c\nd{"crc":"e', user="ünïcode")
    return [[plain[0]], plain[1:4], [again], [plain[4], odd], plain[5:8], [plain[8]], plain[9:11]]


@dataclass
class Worker:
    """Appends batches the way the real worker does: what was not acknowledged is tried again."""

    root: Path
    acknowledged: list[LedgerRecord]
    lock: bool = False

    def open(self, files: Files, now: float) -> Writer:
        elect = None if self.lock else (lambda _directory, _timeout: lambda: None)
        return open_writer(
            self.root, "alpha", files=files, clock=lambda: now, segment_bytes=SEGMENT_BYTES, elect=elect, timeout_s=5
        )

    def run(self, files: Files, on_ack: Callable[[LedgerRecord], None] = lambda _: None) -> None:
        """Two runs of a worker, a month apart, each opening and closing the ledger."""
        todo = batches()
        for part, now in ((todo[:4], T0), (todo[4:], T0 + MONTH_S)):
            writer = self.open(files, now)
            for batch in part:
                self.append(writer, batch, on_ack)
            writer.close()

    def append(
        self, writer: Writer, batch: list[LedgerRecord], on_ack: Callable[[LedgerRecord], None] = lambda _: None
    ) -> None:
        if writer.append(batch) != len(batch):
            raise AssertionError("a batch was acknowledged in part")
        self.acknowledged += batch
        for one in batch:
            on_ack(one)

    def catch_up(self) -> None:
        """A new worker, on a healthy system, appends everything that nobody acknowledged."""
        done = {(r.key, r.revision) for r in self.acknowledged}
        with self.open(Files(), T0 + MONTH_S) as writer:
            for batch in batches():
                missing = [r for r in batch if (r.key, r.revision) not in done]
                if missing:
                    self.append(writer, missing)


def judge(row: Row, worker: Worker) -> None:
    """Counts what the accident did: first as it was left, then after the next worker has caught up."""
    row.injected += 1
    row.acknowledged += len(worker.acknowledged)
    _compare(row, worker)
    worker.catch_up()
    _compare(row, worker)
    verdict = verify(worker.root / "alpha")
    if verdict.new_losses:
        row.undetected += 1
        print(f"{row.accident}: {verdict.new_losses}", file=sys.stderr)


def _compare(row: Row, worker: Worker) -> None:
    newest: dict[str, LedgerRecord] = {}
    for one in worker.acknowledged:
        if one.key not in newest or one.revision >= newest[one.key].revision:
            newest[one.key] = one
    read: dict[str, LedgerRecord] = {}
    for one in records(snapshot([worker.root])) if worker.root.exists() else ():
        row.doubled += one.key in read
        read[one.key] = one
    for key, expected in newest.items():
        got = read.get(key)
        if got is None:
            row.lost += 1
        elif to_dict(got) != to_dict(expected) and got.revision <= expected.revision:
            row.doubled += 1


def workload_calls() -> int:
    """How many calls that change something one workload makes."""
    with scratch() as root:
        files = FaultyFiles()
        Worker(root, []).run(files)
        return files.calls


class scratch:  # noqa: N801
    """A fresh directory, removed afterwards."""

    base: Path | None = None

    def __enter__(self) -> Path:
        self.path = Path(tempfile.mkdtemp(prefix="ledger-", dir=self.base))
        return self.path / "root"

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path)
