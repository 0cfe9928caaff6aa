"""What one host does with a ledger on a shared file system: ``python -m tests.ledger.on_host ACTION ROOT ...``."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from dataclasses import asdict
from itertools import count
from pathlib import Path

from slurm_triage.errors import LedgerError
from slurm_triage.ledger import lock
from slurm_triage.ledger.append import open_writer
from slurm_triage.ledger.doctor import check_directory
from slurm_triage.ledger.query import by_job
from tests.ledger.racing import race
from tests.ledger.samples import record


def writable(root: Path) -> int:
    """Until the servers have found each other writing fails or takes seconds."""
    until, quick = time.monotonic() + 60, 0
    for number in count():
        began = time.monotonic()
        with contextlib.suppress(OSError):
            _write(root / f"probe-{socket.gethostname()}-{number}")
            quick = quick + 1 if time.monotonic() - began < 0.2 else 0
        if quick == 5:
            return 0
        if time.monotonic() > until:
            return 1
        time.sleep(0.1)
    return 1


def _write(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for _ in range(3):
            file.write(b"x" * 700)
            os.fdatasync(file.fileno())


def contend(root: Path, seconds: str, first: str) -> int:
    print(json.dumps(asdict(race(root, "strict", 4, float(seconds), int(first)))))
    return 0


def hold(root: Path) -> int:
    """Becomes the writer and appends a record for each line that comes in; says what happened."""
    try:
        writer = open_writer(root, "alpha")
    except LedgerError as error:
        print(f"refused: {error}", flush=True)
        return 3
    print("writer", flush=True)
    for line in sys.stdin:
        try:
            writer.append([record(int(line))])
            print(f"acknowledged {line.strip()}", flush=True)
        except LedgerError as error:
            print(f"failed: {error}", flush=True)
    writer.close()
    return 0


def find(root: Path, *jobs: str) -> int:
    print(json.dumps([[r.display_id for r in by_job([root], job)] for job in jobs]))
    return 0


def break_claims(root: Path) -> int:
    from filelock import StrictSoftFileLock

    for claim in StrictSoftFileLock(root / "alpha" / lock.LOCK).claims:
        lock.break_claim(root / "alpha", claim.name)
    return 0


def doctor(root: Path) -> int:
    print(json.dumps([asdict(check) for check in check_directory(root)]))
    return 0


if __name__ == "__main__":
    actions = (writable, contend, hold, find, break_claims, doctor)
    sys.exit({a.__name__: a for a in actions}[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:]))
