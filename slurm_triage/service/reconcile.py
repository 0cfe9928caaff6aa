"""Jobs that no hook reported: accounting is asked once per window, and a mark on disk says how far it was asked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from slurm_triage.errors import TriageError
from slurm_triage.ledger.files import Files, put
from slurm_triage.model.job import Job
from slurm_triage.service.trouble import Trouble

MARK = "reconciled"

#: Windows overlap, because records can arrive late; what was reported already is recognised.
OVERLAP_S = 300.0
#: Longest window of one question, after a long outage.
MAX_WINDOW_S = 6 * 3600.0
#: A clock that differs by more from what the monotonic one says was set, not adjusted.
_SET_BACK_S = 60.0
#: When accounting did not answer.
AGAIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Span:
    """Ends of jobs to ask accounting about, in seconds since the epoch."""

    since: float
    until: float

    def ended(self, job: Job) -> list[Job]:
        """Those runs of a job that ended in it."""
        return [
            run
            for run in (*job.earlier, job)
            if run.is_terminal and run.end is not None and self.since <= run.end <= self.until
        ]


@dataclass(slots=True)
class Reconciler:
    """``state``: directory of the mark. ``wall`` is in seconds since the epoch and may be set forwards and back;
    ``now`` is monotonic."""

    state: Path
    every_s: float
    lag_s: float
    mark: float = 0.0
    _next: float = 0.0
    _offset: float = float("-inf")
    _until: float | None = None
    _open: set[str] = field(default_factory=set)
    _trouble: Trouble = field(default_factory=Trouble)

    def load(self, wall: float) -> None:
        """Read the mark. Without one (first start), looking back begins now. Raises TriageError if the directory
        cannot be used."""
        try:
            self.state.mkdir(parents=True, exist_ok=True)
            text = (self.state / MARK).read_text(errors="replace") if (self.state / MARK).exists() else ""
            with contextlib.suppress(ValueError):
                self.mark = float(text)
            if self.mark <= 0.0:
                self._save(wall - self.lag_s)
        except OSError as error:
            raise TriageError(f"cannot use the state directory {self.state}: {error.strerror}; check it") from error

    @property
    def asked_until(self) -> float:
        """Up to when (seconds since the epoch) accounting has told of all ends, and these are dealt with; 0 if it is
        not asked."""
        return self.mark if self.every_s > 0 else 0.0

    def due(self, now: float, wall: float) -> Span | None:
        """What to ask accounting for, if it is time to."""
        if self.every_s <= 0 or self._until is not None or now < self._next:
            return None
        latest = wall - self.lag_s
        if self.mark > latest or wall - now < self._offset - _SET_BACK_S:
            # The clock was set back. Nobody knows how long it had been wrong; what was reported is recognised.
            self.mark = min(self.mark, latest) - MAX_WINDOW_S
        self._offset = wall - now
        span = Span(self.mark - OVERLAP_S, min(latest, self.mark + MAX_WINDOW_S))
        # After a long outage the next window follows at once.
        self._next = now + self.every_s if span.until >= latest else now
        return span

    def failed(self, now: float) -> None:
        """Accounting did not answer."""
        self._next = now + AGAIN_S

    def begin(self, span: Span, job_ids: Iterable[str]) -> None:
        """These jobs of the window have no report yet."""
        self._until, self._open = span.until, set(job_ids)
        self._advance()

    def settled(self, job_id: str) -> None:
        self._open.discard(job_id)
        self._advance()

    def _advance(self) -> None:
        if self._until is not None and not self._open:
            until, self._until = self._until, None
            if until > self.mark:
                try:
                    self._save(until)
                    self._trouble.over()
                except OSError as error:
                    self._trouble.note(f"cannot write {self.state / MARK}: {error.strerror}; free space or repair it")

    def _save(self, mark: float) -> None:
        self.mark = mark
        put(Files(), self.state / MARK, b"%d\n" % int(mark), 0o644)
