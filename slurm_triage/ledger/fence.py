"""The fence: which writer may acknowledge. Replaced whenever a writer starts, read before every acknowledgement.

Why it is enough. A writer acknowledges a batch only if the fence is still its own *after* the batch is durable. A new
writer replaces the fence *before* it looks at how long the last segment is. So every acknowledged batch was durable
before the new writer looked, and a writer that slept through the change finds a strange fence and acknowledges
nothing. What it wrote lies behind the seal that the new writer puts on the segment, and is not read.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from slurm_triage.ledger.files import Files, put
from slurm_triage.ledger.frame import encode
from slurm_triage.ledger.segment import FENCE, HIGH_WATER, read_line

_MARK_BYTES = 256
#: The mark's segment before there is one: it is older than every real one.
NO_SEGMENT = "000000-000000.jsonl"


def claim(files: Files, directory: Path, mode: int, now: float) -> tuple[bytes, int, Mapping[str, Any]]:
    """Makes this process the one that may acknowledge: (its fence, its epoch, what the fence said before).

    Raises OSError."""
    epoch, before = read(files, directory)
    owner = {
        "state": "held",
        "token": secrets.token_hex(8),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "since": now,
    }
    mine = encode("fence", epoch + 1, "fence", 0, orjson.dumps(owner))
    put(files, directory / FENCE, mine, mode)
    return mine, epoch + 1, before


def read(files: Files, directory: Path) -> tuple[int, Mapping[str, Any]]:
    """(epoch, content) of the fence; (0, {}) if there is none or it is damaged (it is then replaced)."""
    try:
        frame = read_line(files.read(directory / FENCE), b"fence")
    except FileNotFoundError:
        return 0, {}
    return (0, {}) if frame is None else (frame.seq, orjson.loads(frame.payload))


def release(files: Files, directory: Path, mode: int, epoch: int, content: Mapping[str, Any]) -> None:
    """Says that the writer of ``epoch`` closed its files and where the ledger ends, so that the next writer may go on
    in the same segment."""
    put(
        files,
        directory / FENCE,
        encode("fence", epoch, "fence", 0, orjson.dumps({"state": "released", **content})),
        mode,
    )


def open_mark(files: Files, directory: Path, mode: int) -> int:
    """Descriptor of the high-water mark."""
    return files.open(directory / HIGH_WATER, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, mode)


def write_mark(files: Files, fd: int, segment: str, size_bytes: int, seq: int) -> None:
    """Notes how far the ledger has been acknowledged. Not synced: after a power cut it may be old, never too high. It
    is what shows that a ledger was cut exactly between two lines."""
    line = encode("mark", seq, segment, 0, b'{"bytes":%d}' % size_bytes)
    files.pwrite(fd, line.ljust(_MARK_BYTES), 0)


Mark = tuple[str, int, int]


def read_mark(directory: Path) -> Mark | None:
    """(segment, bytes, sequence) acknowledged at least; None if there is no mark or it is damaged."""
    try:
        data = (directory / HIGH_WATER).read_bytes()
    except FileNotFoundError:
        return None
    frame = read_line(data.rstrip(b" "), b"mark")
    return None if frame is None else (frame.key.decode(), int(orjson.loads(frame.payload)["bytes"]), frame.seq)


def acknowledged_bytes(mark: Mark | None, segment: str) -> int | float | None:
    """How many bytes of a segment are known to have been acknowledged: all of one older than the mark's, none of a
    newer one; None if there is no mark to tell."""
    if mark is None:
        return None
    marked, number = (int(name.partition("-")[2].partition(".")[0]) for name in (mark[0], segment))
    if number == marked:
        return mark[1]
    return float("inf") if number < marked else 0
