"""The files of one writer's directory: segments, their seals, and what each may be trusted for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from slurm_triage.errors import LedgerError
from slurm_triage.ledger.frame import Frame, encode, parse_at

FENCE = "fence"
HIGH_WATER = "high-water"
QUARANTINE = "quarantine"
_NAME = re.compile(r"^(\d{6})-(\d{6,})\.jsonl$")


class Seal(NamedTuple):
    """What a segment held when it was closed for good. Bytes behind ``size_bytes`` do not belong to the ledger: a
    writer that had already been replaced wrote them and never acknowledged them.

    ``sha256`` is None if the file could not be read back. ``torn_from`` is where an unfinished line begins, if one
    was found when the segment was taken over. ``why``: rotated | taken-over | abandoned.
    """

    size_bytes: int
    records: int
    first_seq: int
    last_seq: int
    sha256: str | None
    torn_from: int | None
    why: str
    sealed_at: float


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment as it stands now. ``limit`` is the number of bytes that belong to the ledger."""

    path: Path
    number: int
    size_bytes: int
    seal: Seal | None
    seal_damaged: bool

    @property
    def limit(self) -> int:
        return self.size_bytes if self.seal is None else min(self.size_bytes, self.seal.size_bytes)

    @property
    def name(self) -> str:
        return self.path.name


def segment_path(directory: Path, month: str, number: int) -> Path:
    return directory / f"{month}-{number:06d}.jsonl"


def seal_path(segment: Path) -> Path:
    return segment.with_suffix(".seal")


def writer_dirs(root: Path) -> tuple[Path, ...]:
    """The directories of all writers (one per cluster) below ``root``. Raises LedgerError if it cannot be read."""
    try:
        inside = sorted(root.iterdir())
        if any(_NAME.match(path.name) for path in inside):
            raise LedgerError(f"{root} is only the part of one cluster; name the directory that holds it")
        return tuple(path for path in inside if path.is_dir())
    except OSError as error:
        raise LedgerError(f"cannot read the ledger {root} ({error.strerror}); check the path and its mode") from error


def segments(directory: Path) -> tuple[Segment, ...]:
    """All segments of one writer, oldest first. The number counts up over months, so a clock set back is harmless."""
    found = []
    for path in directory.iterdir():
        match = _NAME.match(path.name)
        if match is not None:
            found.append((int(match[2]), path))
    return tuple(_look_at(path, number) for number, path in sorted(found))


def _look_at(path: Path, number: int) -> Segment:
    # The seal first: a segment sealed in between has then at least the size that the seal names.
    seal, damaged = read_seal(seal_path(path))
    return Segment(path, number, path.stat().st_size, seal, damaged)


def read_line(data: bytes, kind: bytes) -> Frame | None:
    """The only line of a small file, if it is whole and of that kind."""
    frame = parse_at(data, 0, len(data))
    return frame if frame is not None and frame.kind == kind and data[frame.end :] == b"\n" else None


def read_seal(path: Path) -> tuple[Seal | None, bool]:
    """(seal, False), (None, False) if there is none, (None, True) if it is damaged."""
    try:
        frame = read_line(path.read_bytes(), b"seal")
    except FileNotFoundError:
        return None, False
    if frame is None:
        return None, True
    value: Mapping[str, Any] = orjson.loads(frame.payload)
    return Seal(**{name: value[name] for name in Seal._fields}), False


def encode_seal(segment: Path, seal: Seal) -> bytes:
    return encode("seal", seal.last_seq, segment.name, 0, orjson.dumps(seal._asdict()))


def in_quarantine(directory: Path, name: str, offset: int, data: bytes) -> bool:
    """Has repair put these bytes of a file into quarantine?"""
    import hashlib  # look-ups do without

    try:
        frame = read_line((directory / QUARANTINE / f"{name}@{offset}.note").read_bytes(), b"note")
    except OSError:
        return False
    return frame is not None and bool(orjson.loads(frame.payload)["sha256"] == hashlib.sha256(data).hexdigest())
