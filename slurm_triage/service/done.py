"""Which attempts have their report already: what the ledger says, kept in memory for as long as repeats can come."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from slurm_triage.ledger.query import Filter, select
from slurm_triage.ledger.record import LedgerRecord

#: Events are dropped after two days (``give_up_s``) and the reconciler looks back no further than its mark.
KEEP_S = 4 * 86400.0
#: Old keys are looked for when this many have come together.
_PRUNE_EVERY = 10_000


class Done:
    """Keys of reported attempts; ``provisional`` ones want another report when accounting is complete."""

    def __init__(self) -> None:
        self._reported: dict[str, tuple[bool, float]] = {}
        self._next_prune = _PRUNE_EVERY

    @classmethod
    def from_ledger(cls, root: Path, cluster: str, *, keep_s: float = KEEP_S) -> Done:
        """Raises LedgerError."""
        done = cls()
        done.add(select([root], Filter(since=time.time() - keep_s), (cluster,)))
        return done

    def add(self, records: Iterable[LedgerRecord]) -> None:
        now = time.time()
        for record in records:
            self._reported[record.key] = (record.provisional, record.ended or now)
        if len(self._reported) > self._next_prune:
            limit = now - KEEP_S
            self._reported = {key: value for key, value in self._reported.items() if value[1] >= limit}
            self._next_prune = len(self._reported) + _PRUNE_EVERY

    def ignore(self, key: str) -> None:
        """This attempt is to have no report; nobody needs to ask again."""
        self._reported[key] = (False, time.time())

    def is_final(self, key: str) -> bool:
        return key in self._reported and not self._reported[key][0]

    def is_reported(self, key: str) -> bool:
        return key in self._reported

    def __len__(self) -> int:
        return len(self._reported)
