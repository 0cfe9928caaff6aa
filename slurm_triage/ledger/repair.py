"""Puts damaged bytes into quarantine and notes what is gone, so that a later verify tells old losses from new ones.

Nothing is rewritten: readers step over damage anyway, and the original bytes stay where they are for whoever wants to
look at the disk. What repair leaves behind is evidence, never a gap that nobody can see any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson

from slurm_triage.errors import LedgerError
from slurm_triage.ledger import index
from slurm_triage.ledger.append import open_writer
from slurm_triage.ledger.files import Files, put
from slurm_triage.ledger.frame import encode
from slurm_triage.ledger.sealing import quarantine, seal_segment
from slurm_triage.ledger.segment import QUARANTINE, Segment, seal_path, segments
from slurm_triage.ledger.verify import Finding, lost_note, verify


@dataclass(frozen=True, slots=True)
class Repair:
    """What was done for one writer's directory. ``busy`` says why unsealed segments were left alone, if they were."""

    writer: str
    quarantined: int
    quarantined_bytes: int
    lost_noted: int
    resealed: int
    indexed: int
    busy: str | None


def repair(directory: Path, clock: Callable[[], float], files: Files | None = None) -> Repair:
    """Raises LedgerError if the directory cannot be read or written. Doing it twice changes nothing more."""
    layer = files or Files()
    try:
        busy = _seal_leftovers(directory, layer, clock)
        return _repair(directory, layer, clock(), busy)
    except OSError as error:
        raise LedgerError(f"cannot repair {directory} ({error.strerror}); check its owner and free space") from error


def _seal_leftovers(directory: Path, files: Files, clock: Callable[[], float]) -> str | None:
    """A new writer's take-over seals what a dead one left; none is needed while a living one holds the lock."""
    try:
        open_writer(directory.parent, directory.name, files=files, clock=clock).close()
    except LedgerError as error:
        return str(error)
    return None


def _repair(directory: Path, files: Files, now: float, busy: str | None) -> Repair:
    mode = directory.stat().st_mode & 0o666
    parts = {segment.name: segment for segment in segments(directory)}
    new = verify(directory).new_losses
    regions = [f for f in new if f.kind == "damaged"]
    for finding in regions:
        data = parts[finding.file].path.read_bytes()[finding.offset : finding.offset + finding.size_bytes]
        quarantine(files, parts[finding.file].path, finding.offset, data, mode)
    gone = [f for f in new if f.lost > 0]
    for finding in gone:
        _note_loss(files, directory, finding, mode, now)
    for finding in (f for f in new if f.kind == "rollup-damaged"):
        path = directory / finding.file
        quarantine(files, path, 0, path.read_bytes(), mode)
        regions.append(finding)
    resealed = [_of(f, parts) for f in new if f.kind in ("seal-mismatch", "seal-damaged")]
    for segment in resealed:
        if segment.seal_damaged:
            path = seal_path(segment.path)
            quarantine(files, path, 0, path.read_bytes(), mode)
        torn_from = segment.seal.torn_from if segment.seal is not None else None
        seal_segment(files, segment.path, segment.limit, "repaired", mode, now, torn_from)
    return Repair(
        writer=directory.name,
        quarantined=len(regions),
        quarantined_bytes=sum(f.size_bytes for f in regions),
        lost_noted=sum(f.lost for f in gone),
        resealed=len(resealed),
        indexed=index.refresh(directory),
        busy=busy,
    )


def _of(finding: Finding, parts: dict[str, Segment]) -> Segment:
    return parts[Path(finding.file).with_suffix(".jsonl").name]


def _note_loss(files: Files, directory: Path, finding: Finding, mode: int, now: float) -> None:
    first, last = finding.first_seq, finding.first_seq + finding.lost - 1
    path = lost_note(directory, first, last)
    if not path.parent.exists():
        files.make_dir(path.parent, directory.stat().st_mode & 0o7777)
        files.sync_dir(directory)
    note = {"file": finding.file, "offset": finding.offset, "first_seq": first, "last_seq": last, "noted_at": now}
    put(files, path, encode("note", 0, QUARANTINE, 0, orjson.dumps(note)), mode)
