"""Closing segments for good, and taking over what a writer that died left behind."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from slurm_triage.ledger.fence import acknowledged_bytes, read_mark
from slurm_triage.ledger.files import Files, put, write_all
from slurm_triage.ledger.frame import Damage, Frame, encode, frames
from slurm_triage.ledger.segment import (
    QUARANTINE,
    Seal,
    Segment,
    encode_seal,
    seal_path,
    segments,
)


def seal_segment(
    files: Files, path: Path, size_bytes: int, why: str, mode: int, now: float, torn_from: int | None = None
) -> Seal:
    """Writes down what ``path[:size_bytes]`` holds. Whatever a late writer adds behind is not part of the ledger.
    Raises OSError; then the segment is simply not sealed yet."""
    try:
        _make_durable(files, path)
        data = files.read(path)[:size_bytes]
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        # An unreadable disk block must not stop the ledger for ever: seal the length, which is known.
        seal = Seal(size_bytes, 0, 0, 0, None, None, why, now)
        put(files, seal_path(path), encode_seal(path, seal), mode)
        return seal
    found = list(frames(data))
    seqs = [item.seq for item in found if isinstance(item, Frame)]
    torn = torn_from
    if torn is None:
        # After a power cut unacknowledged writes may be missing anywhere behind the mark, not only at the end.
        sure = acknowledged_bytes(read_mark(path.parent), path.name)
        damage = (d for d in found if isinstance(d, Damage))
        torn = next((d.start for d in damage if (d.torn if sure is None else d.start >= sure)), None)
    seal = Seal(
        size_bytes=len(data),
        records=sum(isinstance(item, Frame) and item.kind == b"rec" for item in found),
        first_seq=min(seqs, default=0),
        last_seq=max(seqs, default=0),
        sha256=hashlib.sha256(data).hexdigest(),
        torn_from=torn,
        why=why,
        sealed_at=now,
    )
    if torn is not None and torn < len(data):
        quarantine(files, path, torn, data[torn:], mode)
    put(files, seal_path(path), encode_seal(path, seal), mode)
    return seal


def _make_durable(files: Files, path: Path) -> None:
    """A seal must not promise bytes that a dead writer left in memory only."""
    fd = files.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        files.datasync(fd)
    finally:
        files.close(fd)


def take_over(
    files: Files, directory: Path, before: Mapping[str, Any], mode: int, now: float
) -> tuple[int, Path | None]:
    """Seals every segment that has no seal, except the last one if its writer closed it properly (``before`` is what
    the fence said): nobody else can have it open then, and the new writer goes on in it.

    Returns (last sequence number used, segment to go on in). Raises OSError.
    """
    found = segments(directory)
    last_seq = max((s.seal.last_seq for s in found if s.seal is not None), default=0)
    go_on = None
    for segment in found:
        if segment.seal is not None:
            continue
        if segment is found[-1] and _closed_properly(segment, before):
            go_on = segment.path
            last_seq = max(last_seq, int(before["last_seq"]))
            continue
        if segment.seal_damaged:
            quarantine(files, seal_path(segment.path), 0, files.read(seal_path(segment.path)), mode)
        last_seq = max(
            last_seq, seal_segment(files, segment.path, segment.size_bytes, "taken-over", mode, now).last_seq
        )
    # A number that was once acknowledged is never given again, even if its record is gone: the gap shows the loss.
    mark = read_mark(directory)
    return max(last_seq, mark[2] if mark else 0, int(before.get("last_seq", 0))), go_on


def _closed_properly(segment: Segment, before: Mapping[str, Any]) -> bool:
    return (
        before.get("state") == "released"
        and before.get("segment") == segment.name
        and before.get("bytes") == segment.size_bytes
        and not segment.seal_damaged
    )


def quarantine(files: Files, path: Path, offset: int, data: bytes, mode: int) -> Path:
    """Copies damaged bytes of ``path`` to the quarantine, byte for byte, with a note beside them. Doing it again
    changes nothing. Raises OSError."""
    directory = path.parent / QUARANTINE
    if not directory.exists():
        files.make_dir(directory, path.parent.stat().st_mode & 0o7777)
        files.sync_dir(path.parent)
    target = directory / f"{path.name}@{offset}"
    digest = hashlib.sha256(data).hexdigest()
    fd = files.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
    try:
        write_all(files, fd, data)
        files.datasync(fd)
    finally:
        files.close(fd)
    note = {"file": path.name, "offset": offset, "bytes": len(data), "sha256": digest}
    put(files, directory / f"{target.name}.note", encode("note", 0, "note", 0, orjson.dumps(note)), mode)
    return target
