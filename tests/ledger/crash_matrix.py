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
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from slurm_triage.errors import LedgerError
from slurm_triage.ledger.append import Writer
from slurm_triage.ledger.files import Files
from slurm_triage.ledger.record import LedgerRecord
from tests.ledger.damage_matrix import cuts, flips, index_flips
from tests.ledger.faults import Crash, FaultyFiles
from tests.ledger.samples import MEMORY, T0, record
from tests.ledger.workload import MONTH_S, Row, Worker, batches, judge, scratch, workload_calls

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
                        with worker.open(heir, T0 + MONTH_S) as writer:
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
    for part, now in ((batches()[:4], T0), (batches()[4:], T0 + MONTH_S)):
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
    parser.add_argument("--dir", type=Path, default=MEMORY)
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
