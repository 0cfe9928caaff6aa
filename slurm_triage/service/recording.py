"""Reports whose records are not durable yet: written into the ledger in groups, and kept while it cannot be written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from slurm_triage.errors import LedgerError
from slurm_triage.ledger.append import Writer
from slurm_triage.ledger.memory import Memory
from slurm_triage.service.done import Done
from slurm_triage.service.making import Made
from slurm_triage.service.trouble import Trouble

#: Records are made durable together: at most this many, or as old as this.
COMMIT_RECORDS, COMMIT_S = 64, 0.25
AGAIN_S = 5.0


@dataclass
class Recording:
    """``clock``: monotonic seconds."""

    ledger: Writer
    done: Done
    memory: Memory
    clock: Callable[[], float]
    _made: list[Made] = field(default_factory=list)
    _since: float = 0.0
    _not_before: float = 0.0
    _trouble: Trouble = field(default_factory=Trouble)

    def __len__(self) -> int:
        return len(self._made)

    def add(self, made: Made) -> None:
        if not self._made:
            self._since = self.clock()
        record = made.outcome.record
        if record.revision <= (before := self.done.revision(record.key)):
            # The clock was set back since. Readers take the highest revision, which is the time of the report.
            made = replace(made, outcome=replace(made.outcome, record=replace(record, revision=before + 1)))
        self._made.append(made)

    def commit(self, *, now_or_never: bool = False) -> list[Made]:
        """Those that have become durable by this call. Waits for more, unless ``now_or_never``. Raises LedgerError if
        this is not the ledger's writer any more."""
        now = self.clock()
        enough = now_or_never or len(self._made) >= COMMIT_RECORDS or now - self._since >= COMMIT_S
        if not self._made or not enough or now < self._not_before:
            return []
        try:
            self.ledger.append(one.outcome.record for one in self._made)
        except LedgerError as error:
            if "another writer" in str(error) or "closed or was replaced" in str(error):
                raise
            self._trouble.note(str(error))
            self._not_before = now + AGAIN_S
            return []
        self._trouble.over()
        made, self._made = self._made, []
        self.done.add(one.outcome.record for one in made)
        self.memory.add(one.outcome.record for one in made)
        return made
