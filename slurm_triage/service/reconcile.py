"""Jobs that no hook reported: accounting is asked once per window, and a mark on disk says how far it was asked."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path

from slurm_triage.errors import TriageError
from slurm_triage.ledger.files import Files, put

MARK = "reconciled"

#: Windows overlap, because records can arrive late; what was reported already is recognised.
OVERLAP_S = 300.0
#: Longest window of one question, after a long outage.
MAX_WINDOW_S = 6 * 3600.0


@dataclass(slots=True)
class Reconciler:
    """``state``: directory of the mark. Times are seconds since the epoch."""

    state: Path
    every_s: float
    lag_s: float
    mark: float = 0.0
    next_ask: float = 0.0
    _until: float | None = None
    _open: set[str] = field(default_factory=set)

    def load(self, now: float) -> None:
        """Read the mark. Without one (first start), and after a clock that ran ahead, looking back begins now. Raises
        TriageError if the directory cannot be used."""
        now -= self.lag_s
        try:
            self.state.mkdir(parents=True, exist_ok=True)
            text = (self.state / MARK).read_text() if (self.state / MARK).exists() else ""
        except OSError as error:
            raise TriageError(f"cannot use the state directory {self.state}: {error.strerror}; check it") from error
        with contextlib.suppress(ValueError):
            self.mark = min(float(text), now)
        if self.mark <= 0.0:
            self._save(now)

    def window(self, now: float) -> tuple[float, float] | None:
        """(since, until) to ask accounting for, if it is time to."""
        if self.every_s <= 0 or self._until is not None or now < self.next_ask:
            return None
        until = min(now - self.lag_s, self.mark + MAX_WINDOW_S)
        # After a long outage the next window follows at once.
        self.next_ask = now + self.every_s if until >= now - self.lag_s else now
        return self.mark - OVERLAP_S, until

    def begin(self, until: float, job_ids: set[str]) -> None:
        """These jobs of the window up to ``until`` have no report yet."""
        self._until, self._open = until, set(job_ids)
        self._advance()

    def settled(self, job_id: str) -> None:
        self._open.discard(job_id)
        self._advance()

    def _advance(self) -> None:
        if self._until is not None and not self._open:
            until, self._until = self._until, None
            if until > self.mark:
                self._save(until)

    def _save(self, mark: float) -> None:
        self.mark = mark
        try:
            put(Files(), self.state / MARK, b"%d\n" % int(mark), 0o644)
        except OSError as error:
            raise TriageError(f"cannot write {self.state / MARK}: {error.strerror}; free space or repair it") from error
