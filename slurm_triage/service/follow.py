"""A growing log, read once: only what is new since the last look, with the time at which each rank's step was seen."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field

from slurm_triage.errors import NotFoundError
from slurm_triage.logs.fold import fold_attempt
from slurm_triage.logs.records import SAMPLE_BYTES, Unwrap, unwrapper
from slurm_triage.logs.scan import FileScan
from slurm_triage.logs.source import shown
from slurm_triage.logs.windows import WINDOW_BYTES, Window
from slurm_triage.model.facts import AttemptFacts, StepSeries
from slurm_triage.pipeline import Engine

#: Bytes kept from before the new ones: a line that was not whole at the last look.
_MAX_PARTIAL_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class RankSeen:
    """``at``: when this step was first seen (seconds since the epoch), None for what was there at the first look."""

    rank: int | None
    step: int
    at: float | None


@dataclass
class Follower:
    """One log file. ``poll`` reads on; ``attempt`` folds what is known of the last attempt."""

    path: str
    engine: Engine
    ranks: dict[int | None, RankSeen] = field(default_factory=dict)
    bytes_read: int = 0
    """In total, also after the file began anew; the proof that nothing is read twice."""
    first_look: float | None = None
    quiet_since: float | None = None
    """When the log last grew, as far as it was watched."""

    def __post_init__(self) -> None:
        self._begin(0)

    def _begin(self, inode: int) -> None:
        self._inode = inode
        self._offset = 0
        self._rest = b""
        self._unwrap: Unwrap | None = None
        self._text_bytes = 0
        self._scan = FileScan(self.engine.ruleset, self.engine.matcher, 0, 0, None, None)
        self.ranks.clear()
        self.first_look = None

    def poll(self, now: float) -> bool:
        """Read what is new; True if there was something. Raises NotFoundError if the file cannot be read."""
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise NotFoundError(f"cannot read {shown(self.path)}: {os.strerror(error.errno or 0)}") from error
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise NotFoundError(f"{shown(self.path)} is no file; name the job's log")
            if found.st_ino != self._inode or found.st_size < self._offset:
                # A requeued job starts its log again.
                self._begin(found.st_ino)
            grew = self._read_on(handle)
        finally:
            os.close(handle)
        if grew or self.quiet_since is None:
            self.quiet_since = now
        self._note_steps(now)
        self.first_look = now if self.first_look is None else self.first_look
        return grew

    def _read_on(self, handle: int) -> bool:
        grew = False
        while data := os.pread(handle, WINDOW_BYTES, self._offset):
            grew = True
            self._offset += len(data)
            self.bytes_read += len(data)
            buffer = self._rest + data
            whole = buffer.rfind(b"\n") + 1
            if not whole and len(buffer) > _MAX_PARTIAL_BYTES:
                # A line without end: no message that matters is that long.
                whole = len(buffer)
            if whole:
                if self._unwrap is None and self._text_bytes < SAMPLE_BYTES:
                    # Records may begin behind what the batch script says.
                    self._unwrap = unwrapper(buffer[:whole])
                lines = bytearray(self._unwrap(buffer[:whole]) if self._unwrap else buffer[:whole])
                self._scan.window(Window(lines, len(lines), len(lines), self._text_bytes, False))
                self._text_bytes += len(lines)
            self._rest = buffer[whole:]
        return grew

    def _note_steps(self, now: float) -> None:
        for series in self._series():
            if not series.steps:
                continue
            last = series.steps[-1].step
            known = self.ranks.get(series.rank)
            if known is None or known.step != last:
                self.ranks[series.rank] = RankSeen(series.rank, last, now if self.first_look is not None else None)

    def _series(self) -> Sequence[StepSeries]:
        return self._scan.attempt.steps.series(0, self.engine.ruleset.dialects, None)

    def attempt(self) -> AttemptFacts:
        """Facts of the attempt that writes the log now."""
        number = len(self._scan.attempts) - 1
        return fold_attempt(number, [self._scan.attempt], self.engine.ruleset, list(self._series()), [])
