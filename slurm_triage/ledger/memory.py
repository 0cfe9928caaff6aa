"""What the worker keeps in memory of the ledger, so that every report can tell what happened before.

Bounded: the newest failures of the last days, the last good run of each name, the records of the last hours, and sums
by node for three to four months. Children that triage a job inherit it when they are forked.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable

from slurm_triage.ledger.history import LOOK_BACK_S, Switches, history_of, no_switches
from slurm_triage.ledger.nodes import Census, advice
from slurm_triage.ledger.record import LedgerRecord
from slurm_triage.ledger.recurrence import OUTBREAK_S, WINDOW_S, outbreaks, trial
from slurm_triage.model.history import Advice, History, Outbreak

log = logging.getLogger("slurm-triage")

#: At about 2 KiB a record this is 20 MB.
_MAX_FAILURES = 5_000
_MAX_NAMES = 2_000
_MAX_RECENT = 2_000
#: Sums by node are kept in stretches of this length, so that old ones can be dropped.
_STRETCH_S = LOOK_BACK_S / 3
#: Statistics are computed again at most this often, and at least that often.
_AGAIN_S, _STALE_S = 10.0, 600.0


class Memory:
    def __init__(self, clock: Callable[[], float] = time.time, switches: Switches = no_switches) -> None:
        self._clock = clock
        self._switches = switches
        self._failures: dict[tuple[str, ...], LedgerRecord] = {}
        self._recent: deque[LedgerRecord] = deque(maxlen=_MAX_RECENT)
        self._good: dict[tuple[str | None, ...], LedgerRecord] = {}
        self._nodes: dict[int, Census] = {}
        self._advice: dict[str, Advice] = {}
        self._looked = self._computed = float("-inf")
        self._news = False
        self._failed = False
        self._outbreaks: dict[str, Outbreak] = {}
        self._told: dict[str, float] = {}

    def load(self, past: Iterable[LedgerRecord]) -> None:
        """The records of the last ``LOOK_BACK_S``."""
        self._remember(past)
        self._compute()

    def add(self, new: Iterable[LedgerRecord]) -> None:
        """Records that are durable now. Logs an outbreak when it begins."""
        added = list(new)
        self._remember(added)
        now = self._clock()
        self._news = self._news or any(r.node_evidence or r.status == "completed" for r in added)
        self._failed = self._failed or any(r.fingerprint is not None for r in added)
        if now - self._looked < _AGAIN_S:
            return
        self._looked = now
        if self._news or now - self._computed >= _STALE_S:
            self._compute()
        if self._failed:
            self._failed = False
            self._find_outbreaks(now)

    def history(self, record: LedgerRecord) -> History:
        """Of a record that is being made."""
        same = [r for r in self._failures.values() if r.fingerprint == record.fingerprint]
        keys = (("name", record.cluster, record.name), ("model", record.cluster, record.user, record.model))
        good = [self._good[key] for key in keys if key in self._good]
        on_nodes = {node: a for node, a in self._advice.items() if a.expires > self._clock()}
        return history_of(record, same, good, lambda: self._outbreak(record), on_nodes)

    def _outbreak(self, record: LedgerRecord) -> Outbreak | None:
        """As it was known seconds ago: it costs too much to look for it in every report."""
        known = self._outbreaks.get(record.fingerprint or "")
        near = known is not None and abs((record.ended or 0.0) - known.last) <= OUTBREAK_S
        return known if near else None

    def _remember(self, records: Iterable[LedgerRecord]) -> None:
        now = self._clock()
        for record in records:
            ended = record.ended or now
            if record.provisional:
                # Its better successor comes soon, and one run must not count twice.
                continue
            if record.fingerprint is not None and ended >= now - WINDOW_S:
                # Of the tasks of an array the last one stands for all.
                key = (record.fingerprint, *trial(record))
                self._failures.pop(key, None)
                self._failures[key] = record
                if len(self._failures) > _MAX_FAILURES:
                    del self._failures[next(iter(self._failures))]
            if record.status == "completed" and not record.degraded:
                self._good[("name", record.cluster, record.name)] = record
                self._good[("model", record.cluster, record.user, record.model)] = record
                while len(self._good) > 2 * _MAX_NAMES:
                    self._good.pop(next(iter(self._good)))
            self._recent.append(record)
            self._nodes.setdefault(int(ended // _STRETCH_S), Census()).add(record)

    def _compute(self) -> None:
        now = self._clock()
        oldest = int((now - LOOK_BACK_S) // _STRETCH_S)
        self._nodes = {stretch: census for stretch, census in self._nodes.items() if stretch >= oldest}
        whole = Census()
        for census in self._nodes.values():
            whole.merge(census)
        self._advice = advice(whole.stats(now))
        self._computed, self._news = now, False

    def _find_outbreaks(self, now: float) -> None:
        """Each is told once in an hour."""
        hour = [r for r in self._recent if (r.ended or 0.0) >= now - OUTBREAK_S]
        self._outbreaks = {}
        if outbreaks(hour):
            found = outbreaks(list(self._recent), self._switches())
            self._outbreaks = {o.fingerprint: o for o in found if o.last >= now - OUTBREAK_S}
        self._told = {key: at for key, at in self._told.items() if now - at < OUTBREAK_S}
        for fingerprint, outbreak in self._outbreaks.items():
            if fingerprint not in self._told:
                self._told[fingerprint] = now
                log.warning("outbreak: %s", outbreak.sentence)
