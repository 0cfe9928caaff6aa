"""Processes that race for one ledger.

python -m tests.ledger.racing [--seconds 60] [--kind flock|strict] [--dir DIR]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from slurm_triage.errors import LedgerError
from slurm_triage.ledger import lock
from slurm_triage.ledger.append import open_writer
from slurm_triage.ledger.read import records, snapshot
from slurm_triage.ledger.verify import verify
from tests.ledger.samples import record


@dataclass(frozen=True)
class Outcome:
    """``holds``: how often somebody was the writer. ``overlaps``: how often two were at once. ``acknowledged``:
    records that were acknowledged."""

    holds: int
    overlaps: int
    acknowledged: int


def race(root: Path, kind: lock.Kind, processes: int, seconds: float, first: int = 0) -> Outcome:
    """Each process opens the ledger, appends, closes, again and again. While it is the writer it owns a file that only
    one process can create: finding it there means that two were writers at the same time. ``first``: number of the
    first process, where several hosts take part."""
    (root / "alpha").mkdir(exist_ok=True)
    # Whole or not at all, whatever another host does.
    draft = root / f"kind-{first}"
    draft.write_text(kind)
    with contextlib.suppress(FileExistsError):
        (root / "alpha" / "lock-kind").hardlink_to(draft)
    witness = root.parent / f"{root.name}.witness"
    told, tell = os.pipe()
    children = []
    for number in range(first, first + processes):
        child = os.fork()
        if child == 0:
            os.close(told)
            status = 1
            try:
                _contend(root, witness, tell, number, time.monotonic() + seconds)
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    os.close(tell)
    with os.fdopen(told, "rb") as pipe:
        events = pipe.read()
    if any(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children):
        raise AssertionError("a contender failed")
    return Outcome(events.count(b"h"), events.count(b"!"), events.count(b"a"))


def _contend(root: Path, witness: Path, tell: int, number: int, deadline: float) -> None:
    rng = random.Random(number)
    turn = 0
    while time.monotonic() < deadline:
        try:
            writer = open_writer(root, "alpha", timeout_s=0.2)
        except LedgerError:
            continue
        try:
            os.close(os.open(witness, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            os.write(tell, b"!")
        os.write(tell, b"h")
        turn += 1
        if writer.append([record(number * 100_000 + turn)]):
            os.write(tell, b"a")
        time.sleep(rng.uniform(0, 0.002))
        witness.unlink(missing_ok=True)
        writer.close()
        # flock is not fair: without a pause one process could keep it for good.
        time.sleep(rng.uniform(0, 0.01))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--kind", choices=("flock", "strict"), default="flock")
    parser.add_argument("--dir", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.dir) as base:
        root = Path(base) / "root"
        root.mkdir()
        outcome = race(root, args.kind, 8, args.seconds)
        found = len(list(records(snapshot([root]))))
        lost = verify(root / "alpha").lost
    print(
        f"8 processes, {args.kind}, {args.seconds:.0f} s: {outcome.holds} holds, {outcome.overlaps} overlaps, "
        f"{outcome.acknowledged} acknowledged, {found} read back, {lost} lost"
    )
    return 0 if outcome.overlaps == 0 and outcome.holds and found == outcome.acknowledged else 1


if __name__ == "__main__":
    sys.exit(main())
