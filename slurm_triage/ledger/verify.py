"""Is every byte of a ledger what was written, and is every acknowledged record still there?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slurm_triage.errors import LedgerError
from slurm_triage.ledger import index
from slurm_triage.ledger.fence import acknowledged_bytes, read_mark
from slurm_triage.ledger.frame import Damage, Frame, frames
from slurm_triage.ledger.rollup import is_given_up, read_rollup, rollup_files
from slurm_triage.ledger.segment import (
    FENCE,
    HIGH_WATER,
    QUARANTINE,
    Segment,
    in_quarantine,
    read_line,
    seal_path,
    segments,
    writer_dirs,
)

#: Findings after which something may be gone that was once acknowledged. The others are told, but are no loss.
LOSSES = frozenset({"damaged", "gap", "cut", "seal-damaged", "seal-mismatch", "rollup-damaged"})


@dataclass(frozen=True, slots=True)
class Finding:
    """Kinds. Losses: damaged (bytes that are no line), gap (sequence numbers that nobody holds), cut (the ledger ends
    before what was acknowledged), seal-damaged, seal-mismatch (content differs from the seal), rollup-damaged (the sums
    of a retired segment). No losses: torn (an
    unfinished line, not known to have been acknowledged), in-flight (a line being written now), late (bytes of a
    replaced writer), repeated (numbers used twice, by a writer that failed or was replaced), unsealed, fence-damaged,
    high-water-damaged.

    ``lost`` is the number of records that are gone, ``first_seq`` the number of the first of them. ``known``: repair
    has put the bytes into quarantine and noted the loss."""

    kind: str
    file: str
    offset: int
    size_bytes: int
    lost: int
    known: bool
    detail: str
    first_seq: int = 0

    @property
    def is_loss(self) -> bool:
        return self.kind in LOSSES


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one writer's directory. ``lines`` counts records, superseded ones too."""

    writer: str
    segment_count: int
    size_bytes: int
    lines: int
    indexed: int
    findings: tuple[Finding, ...]

    @property
    def new_losses(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.is_loss and not f.known)

    @property
    def lost(self) -> int:
        """Records that were acknowledged and are gone, known or not."""
        return sum(f.lost for f in self.findings)


def verify(directory: Path) -> Verdict:
    """Reads everything. Safe while a writer is at work. Raises LedgerError."""
    try:
        return _Check(directory).run()
    except OSError as error:
        raise LedgerError(f"cannot read {directory} ({error.strerror}); check its mode and the disk") from error


def lost_note(directory: Path, first: int, last: int) -> Path:
    """Where repair notes that records with these numbers are gone."""
    return directory / QUARANTINE / f"lost-{first}-{last}.note"


class _Check:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        # The mark before the segments: what it promises must be there when they are read afterwards.
        self.mark = read_mark(directory)
        self.parts = segments(directory)
        self.findings: list[Finding] = []
        self.lines = 0
        present = {segment.name for segment in self.parts}
        kept = [(path, read_rollup(path)) for path in rollup_files(directory)]
        self.last_seq = max((r.last_seq for _, r in kept if r is not None and r.segment not in present), default=0)
        self.damaged_rollups = [path for path, rollup in kept if rollup is None]
        # Which number comes next, a damaged one knew; the seal behind it may know it, too.
        self.any_start = bool(kept) and kept[-1][1] is None
        self.repeated: set[str] = set()

    def run(self) -> Verdict:
        for name, kind in ((FENCE, b"fence"), (HIGH_WATER, b"mark")):
            path = self.directory / name
            if path.exists() and read_line(path.read_bytes().rstrip(b" "), kind) is None:
                self._add(f"{name}-damaged", name, 0, path.stat().st_size, False, "replaced by the next writer")
        for path in self.damaged_rollups:
            detail = "the sums of a retired segment cannot be read"
            self._add("rollup-damaged", path.name, 0, path.stat().st_size, is_given_up(path), detail)
        for segment in self.parts:
            self._segment(segment)
        if self.mark is not None and self.mark[2] > self.last_seq:
            first, last = self.last_seq + 1, self.mark[2]
            detail = f"numbers {first} to {last} were acknowledged and are gone: the end of {self.mark[0]} was cut off"
            self._lost("cut", self.mark[0], self.mark[1], first, last, detail)
        return Verdict(
            writer=self.directory.name,
            segment_count=len(self.parts),
            size_bytes=sum(s.size_bytes for s in self.parts),
            lines=self.lines,
            indexed=sum(index.read_head(s) is not None for s in self.parts),
            findings=tuple(self.findings),
        )

    def _segment(self, segment: Segment) -> None:
        data = segment.path.read_bytes()
        whole, data = data, data[: segment.limit]
        newest = segment is self.parts[-1]
        if segment.seal_damaged:
            path = seal_path(segment.path)
            self._add("seal-damaged", path.name, 0, path.stat().st_size, False, "the seal is no valid line")
        elif segment.seal is None:
            if not newest:
                self._add("unsealed", segment.name, 0, 0, False, "sealed when the next writer starts")
        else:
            if self.any_start:
                self.last_seq, self.any_start = max(self.last_seq, segment.seal.first_seq - 1), False
            self._against_seal(segment, data)
            if len(whole) > len(data):
                detail = "bytes behind the seal, written by a writer that had been replaced, never acknowledged"
                self._add("late", segment.name, len(data), len(whole) - len(data), False, detail)
        self._lines(segment, data, newest)

    def _against_seal(self, segment: Segment, data: bytes) -> None:
        seal = segment.seal
        if seal is None or seal.sha256 is None or hashlib.sha256(data).hexdigest() == seal.sha256:
            return
        detail = f"content differs from its seal of {seal.size_bytes} bytes"
        self._add("seal-mismatch", segment.name, 0, len(data), False, detail)

    def _lines(self, segment: Segment, data: bytes, newest: bool) -> None:
        for item in frames(data):
            if isinstance(item, Frame):
                self._number(segment, item)
                self.lines += item.kind == b"rec"
                continue
            size = item.end - item.start
            if self._unacknowledged(segment, item):
                kind, detail = (
                    ("in-flight", "a line that is being written")
                    if newest and segment.seal is None
                    else (
                        "torn",
                        "an unfinished line, not known to have been acknowledged",
                    )
                )
                self._add(kind, segment.name, item.start, size, False, detail)
            else:
                known = self._quarantined(segment, item, data)
                self._add("damaged", segment.name, item.start, size, known, "bytes that are no valid line")
        if segment.seal is not None and segment.seal.last_seq > self.last_seq:
            self._gap(segment, len(data), segment.seal.last_seq + 1)

    def _unacknowledged(self, segment: Segment, damage: Damage) -> bool:
        if segment.seal is not None:
            return self._in_torn_tail(segment, damage.start)
        sure = acknowledged_bytes(self.mark, segment.name)
        return damage.torn if sure is None else damage.start >= sure

    @staticmethod
    def _in_torn_tail(segment: Segment, offset: int) -> bool:
        seal = segment.seal
        return seal is not None and seal.torn_from is not None and offset >= seal.torn_from

    def _number(self, segment: Segment, frame: Frame) -> None:
        if self.any_start:
            self.any_start = False
        elif frame.seq > self.last_seq + 1 and not self._in_torn_tail(segment, frame.start):
            self._gap(segment, frame.start, frame.seq)
        elif frame.seq <= self.last_seq and segment.name not in self.repeated:
            self.repeated.add(segment.name)
            detail = "numbers that an earlier line holds too (a writer that failed or was replaced)"
            self._add("repeated", segment.name, frame.start, 0, False, detail)
        self.last_seq = max(self.last_seq, frame.seq)

    def _gap(self, segment: Segment, offset: int, next_seq: int) -> None:
        first, last = self.last_seq + 1, next_seq - 1
        self._lost("gap", segment.name, offset, first, last, f"numbers {first} to {last} are missing")
        self.last_seq = last

    def _lost(self, kind: str, file: str, offset: int, first: int, last: int, detail: str) -> None:
        known = lost_note(self.directory, first, last).exists()
        self.findings.append(Finding(kind, file, offset, 0, last - first + 1, known, detail, first))

    def _add(self, kind: str, file: str, offset: int, size: int, known: bool, detail: str) -> None:
        self.findings.append(Finding(kind, file, offset, size, 0, known, detail))

    def _quarantined(self, segment: Segment, damage: Damage, data: bytes) -> bool:
        return in_quarantine(self.directory, segment.name, damage.start, data[damage.start : damage.end])


def verify_all(roots: tuple[Path, ...]) -> Iterator[Verdict]:
    """Every writer of every ledger."""
    for root in roots:
        for directory in writer_dirs(root):
            yield verify(directory)
