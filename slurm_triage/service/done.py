"""Which attempts have their report already: what the ledger says, kept in memory for as long as repeats can come."""

from __future__ import annotations

import time
from collections.abc import Iterable

from slurm_triage.ledger.record import LedgerRecord

#: Events are dropped after two days (``give_up_s``) and the reconciler looks back no further than its mark.
KEEP_S = 4 * 86400.0
#: Old keys are looked for when this many have come together.
_PRUNE_EVERY = 10_000


class Done:
    """Keys of reported attempts; ``provisional`` ones want another report later."""

    def __init__(self) -> None:
        self._reported: dict[str, tuple[bool, int, float]] = {}
        """Provisional, revision, when it was put here (monotonic: the clock may be set)."""
        self._next_prune = _PRUNE_EVERY

    def add(self, records: Iterable[LedgerRecord]) -> None:
        now = time.monotonic()
        for record in records:
            self._reported[record.key] = (record.provisional, record.revision, now)
        if len(self._reported) > self._next_prune:
            self._reported = {key: value for key, value in self._reported.items() if value[2] >= now - KEEP_S}
            self._next_prune = len(self._reported) + _PRUNE_EVERY

    def ignore(self, key: str) -> None:
        """This attempt is to have no report; nobody needs to ask again."""
        self._reported[key] = (False, 0, time.monotonic())

    def is_reported(self, key: str) -> bool:
        return key in self._reported

    def is_final(self, key: str) -> bool:
        return key in self._reported and not self._reported[key][0]

    def revision(self, key: str) -> int:
        """Of the newest record; 0 if there is none."""
        return self._reported[key][1] if key in self._reported else 0
