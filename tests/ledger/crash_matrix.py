"""Crash matrix of the ledger: stops, power cuts, failing calls, cut files and flipped bits, and what survives.

    python -m tests.ledger.crash_matrix [--quick] [--dir DIR]

prints one row per kind of accident. The default directory is in memory; the accidents are made above the file system.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from slurm_triage.errors import LedgerError
from slurm_triage.ledger import index, query
from slurm_triage.ledger.append import Writer, open_writer
from slurm_triage.ledger.files import Files
from slurm_triage.ledger.read import records, snapshot
from slurm_triage.ledger.record import LedgerRecord, to_dict
from slurm_triage.ledger.segment import segments
from slurm_triage.ledger.verify import verify
from tests.ledger.faults import Crash, FaultyFiles
from tests.ledger.samples import DAY_S, T0, record

#: Small, so that a short workload rotates a few times.
SEGMENT_BYTES = 4000
_MONTH_S = 31 * DAY_S


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
        for part, now in ((todo[:4], T0), (todo[4:], T0 + _MONTH_S)):
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
        with self.open(Files(), T0 + _MONTH_S) as writer:
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


STOPS = (("before", 0.0), ("after", 0.0), ("torn", 0.02), ("torn", 0.4), ("torn", 0.97))


def stops(every: int = 1) -> Row:
    """The process dies at each call; the system lives on."""
    row = Row("process killed at each call")
    for at in range(0, workload_calls(), every):
        for how, part in STOPS:
            with scratch() as root:
                _stopped(row, Worker(root, []), FaultyFiles(at, how, partial=part))
    return row


def _stopped(row: Row, worker: Worker, files: FaultyFiles, power: random.Random | None = None) -> None:
    with contextlib.suppress(Crash):
        worker.run(files)
    files.abandon()
    if power is not None:
        files.lose_power(power)
    judge(row, worker)


def power_cuts(seeds: int, every: int = 1) -> Row:
    """The machine dies at each call; of what was not synced any part may be left."""
    row = Row("power cut at each call")
    for at in range(0, workload_calls(), every):
        for seed in range(seeds):
            how, part = STOPS[seed % len(STOPS)]
            with scratch() as root:
                _stopped(row, Worker(root, []), FaultyFiles(at, how, partial=part), random.Random(at * 1000 + seed))
    return row


def stops_while_recovering(every: int = 1) -> Row:
    """The process dies, and its successor dies at each call of its take-over."""
    row = Row("successor killed at each call of its take-over")
    for first in range(9, workload_calls(), 14 * every):
        for second in range(0, 40, every):
            for how, part in (("before", 0.0), ("torn", 0.5)):
                with scratch() as root:
                    worker = Worker(root, [])
                    files = FaultyFiles(first, "torn", partial=0.6)
                    with contextlib.suppress(Crash):
                        worker.run(files)
                    files.abandon()
                    heir = FaultyFiles(second, how, partial=part)
                    try:
                        with worker.open(heir, T0 + _MONTH_S) as writer:
                            worker.append(writer, [record(50)])
                            worker.append(writer, [record(51)])
                    except Crash:
                        pass
                    heir.abandon()
                    judge(row, worker)
    return row


def failures(code: int, every: int = 1) -> Iterator[Row]:
    """Each call fails, once or for a while, after writing nothing or a part; the worker tries again."""
    name = errno.errorcode[code]
    calm, cut = Row(f"{name} at each call, then tried again"), Row(f"{name} at each call, then power cut")
    for at in range(0, workload_calls(), every):
        for times, part in ((1, 0.0), (1, 0.5), (6, 0.0), (6, 0.9)):
            for row in (calm, cut):
                with scratch() as root:
                    worker = Worker(root, [])
                    files = FaultyFiles(at, code, times=times, partial=part)
                    _insist(worker, files)
                    files.abandon()
                    if row is cut:
                        files.lose_power(random.Random(at))
                    judge(row, worker)
    yield from (calm, cut)


def _insist(worker: Worker, files: FaultyFiles) -> None:
    """Tries every batch until it is acknowledged, opening the ledger anew where its writer gave up."""
    for part, now in ((batches()[:4], T0), (batches()[4:], T0 + _MONTH_S)):
        writer = _retry(lambda now=now: worker.open(files, now))
        for batch in part:
            _retry(lambda writer=writer, batch=batch: worker.append(writer, batch))
        try:
            writer.close()
        except LedgerError:
            continue


def _retry(action: Callable[[], Writer | None]) -> Writer:
    for _ in range(12):
        try:
            return action()  # type: ignore[return-value]
        except LedgerError:
            continue
    raise AssertionError("the ledger did not recover after the fault had gone")


def real_stops(every: int = 1) -> Row:
    """A real process, with the real lock, leaves by os._exit at each call; another one takes over."""
    row = Row("real process, _exit at each call, real lock")
    for at in range(0, workload_calls(), every):
        for how, part in (("before", 0.0), ("torn", 0.5), ("after", 0.0)):
            with scratch() as root:
                files = FaultyFiles(at, how, partial=part, on_crash=lambda: os._exit(9))
                acknowledged = _in_child(root, files, None)
                judge(row, Worker(root, acknowledged, lock=True))
    return row


def random_kills(count: int) -> Row:
    """A real process is killed at a random moment."""
    row = Row("real process, SIGKILL at a random moment")
    rng = random.Random(4)
    for _ in range(count):
        with scratch() as root:
            acknowledged = _in_child(root, Files(), rng.uniform(0.0, 0.02))
            judge(row, Worker(root, acknowledged, lock=True))
    return row


def _in_child(root: Path, files: Files, kill_after_s: float | None) -> list[LedgerRecord]:
    """Runs the workload in a child, which tells each acknowledged record by a byte in a pipe."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(told)
        try:
            Worker(root, [], lock=True).run(files, lambda _: _tell(tell))
        finally:
            os._exit(0)
    os.close(tell)
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(told, "rb") as pipe:
        heard = len(pipe.read())
    os.waitpid(child, 0)
    flat = [one for batch in batches() for one in batch]
    return flat[:heard]


def _tell(fd: int) -> None:
    os.write(fd, b".")


def _finished(root: Path) -> Worker:
    worker = Worker(root, [])
    worker.run(Files())
    return worker


def cuts(step: int = 1) -> Row:
    """Each segment is cut at each byte of its last two lines, and everywhere in between."""
    row = Row("segment cut at each byte of a record")
    with scratch() as root:
        worker = _finished(root)
        for segment in segments(root / "alpha"):
            data = segment.path.read_bytes()
            lines = data.splitlines(keepends=True)
            from_byte = len(data) - sum(len(line) for line in lines[-2:])
            for length in range(max(0, from_byte), len(data), step):
                segment.path.write_bytes(data[:length])
                whole = data[:length].count(b'"rec":{') - (
                    b'"rec":{' in data[data.rfind(b"\n", 0, length) + 1 : length]
                )
                _damaged(row, worker, segment.path.name, max_lost=data.count(b'"rec":{') - whole)
            segment.path.write_bytes(data)
    return row


def flips(step: int = 1) -> Row:
    """Each bit of each file of the ledger is flipped."""
    row = Row("each bit of a record, head, seal, fence and mark flipped")
    with scratch() as root:
        worker = _finished(root)
        index.refresh(root / "alpha")
        first = segments(root / "alpha")[0].path
        last = segments(root / "alpha")[-1].path
        for path, limit in (
            (first, 2200),
            (first.with_suffix(".seal"), None),
            (last, 1200),
            (root / "alpha" / "fence", None),
            (root / "alpha" / "high-water", 120),
        ):
            data = path.read_bytes()
            for bit in range(0, 8 * min(len(data), limit or len(data)), step):
                path.write_bytes(_flip(data, bit))
                _damaged(row, worker, path.name, max_lost=1)
            path.write_bytes(data)
    return row


def index_flips(step: int = 1) -> Row:
    """Each bit of an index is flipped: look-ups must stay right."""
    row = Row("each bit of an index flipped, then looked up")
    with scratch() as root:
        worker = _finished(root)
        directory = root / "alpha"
        index.refresh(directory)
        path = index.index_path(segments(directory)[0].path)
        data = path.read_bytes()
        for bit in range(0, 8 * len(data), step):
            path.write_bytes(_flip(data, bit))
            row.injected += 1
            for one in worker.acknowledged[:2]:
                found = query.by_job([root], one.job_id)
                row.undetected += [f.key for f in found] != [one.key]
    return row


def _flip(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def _damaged(row: Row, worker: Worker, name: str, max_lost: int) -> None:
    """Verify must say something, every other record must be read, and none wrongly."""
    row.injected += 1
    row.acknowledged += len(worker.acknowledged)
    row.undetected += not any(
        f.file.split(".")[0] == name.split(".")[0] or f.lost for f in verify(worker.root / "alpha").findings
    )
    revisions = {(r.key, r.revision): to_dict(r) for r in worker.acknowledged}
    keys = {r.key for r in worker.acknowledged}
    read = list(records(snapshot([worker.root])))
    row.undetected += sum(revisions.get((r.key, r.revision)) != to_dict(r) for r in read)
    row.doubled += len(read) - len({r.key for r in read})
    row.lost += max(0, len(keys) - len(read) - max_lost)


def matrix(quick: bool) -> Iterator[Row]:
    """All rows; ``quick`` takes a sample of each."""
    every = 9 if quick else 1
    yield stops(every)
    yield power_cuts(3 if quick else 12, every)
    yield stops_while_recovering(every)
    for code in (errno.ENOSPC, errno.EIO, errno.EROFS):
        yield from failures(code, every + 2 if quick else 1)
    yield real_stops(every + 8 if quick else 1)
    yield random_kills(12 if quick else 400)
    yield cuts(61 if quick else 1)
    yield flips(331 if quick else 3)
    yield index_flips(61 if quick else 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--dir", type=Path, default=Path("/dev/shm") if Path("/dev/shm").is_dir() else None)
    args = parser.parse_args()
    scratch.base = args.dir
    print("| accident | injected | acknowledged | lost | doubled | undetected |\n|---|---|---|---|---|---|")
    total = Row("**all**")
    for row in matrix(args.quick):
        print(row, flush=True)
        for name in ("injected", "acknowledged", "lost", "doubled", "undetected"):
            setattr(total, name, getattr(total, name) + getattr(row, name))
    print(total)
    return 0 if total.sound else 1


if __name__ == "__main__":
    sys.exit(main())
