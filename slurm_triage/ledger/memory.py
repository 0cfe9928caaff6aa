"""What the worker keeps in memory of the ledger, so that every report can tell what happened before.

Bounded: the newest failures of the last days, the last good run of each name, the records of the last hours, and sums
by node for three to four months. Children that triage a job inherit it when they are forked.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from slurm_triage.ledger.history import LOOK_BACK_S, Switches, history_of, no_switches
from slurm_triage.ledger.nodes import Census, advice
from slurm_triage.ledger.record import LedgerRecord
from slurm_triage.ledger.recurrence import MOST_TRIALS, OUTBREAK_S, WINDOW_S, bursts, outbreaks, trial
from slurm_triage.model.history import Advice, History, Outbreak

log = logging.getLogger("slurm-triage")

#: At about 2 KiB a record this is 40 MB.
_MAX_FAILURES = 10_000
_MAX_NAMES = 2_000
_MAX_RECENT = 2_000
#: Sums by node are kept in stretches of this length, so that old ones can be dropped.
_STRETCH_S = LOOK_BACK_S / 3
#: Statistics are computed again at most this often, and at least that often.
_AGAIN_S, _STALE_S = 10.0, 600.0
#: And for no more than about this share of the time, however much there is to compute.
_SHARE = 0.05


class Memory:
    def __init__(self, clock: Callable[[], float] = time.time, switches: Switches = no_switches) -> None:
        self._clock = clock
        self._switches = switches
        # By fingerprint and user, and by fingerprint and name: the last trials. Every report asks for one of each.
        self._failures: dict[tuple[str | None, ...], dict[tuple[str, ...], LedgerRecord]] = {}
        self._failure_count = 0
        # Apart, so that thousands of failures at once do not push out what they are compared with.
        self._recent_failures: deque[LedgerRecord] = deque(maxlen=_MAX_RECENT)
        self._recent_others: deque[LedgerRecord] = deque(maxlen=_MAX_RECENT)
        self._good: dict[tuple[str | None, ...], LedgerRecord] = {}
        self._nodes: dict[int, Census] = {}
        self._advice: dict[str, Advice] = {}
        self._looked = self._computed = float("-inf")
        self._pause_s = _AGAIN_S
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
        if now - self._looked < self._pause_s:
            return
        self._looked = now
        began = time.process_time()
        if self._news or now - self._computed >= _STALE_S:
            self._compute()
        if self._failed:
            self._failed = False
            self._find_outbreaks(now)
        self._pause_s = max(_AGAIN_S, (time.process_time() - began) / _SHARE)

    def history(self, record: LedgerRecord) -> History:
        """Of a record that is being made."""
        same = [r for key in _failure_keys(record) for r in self._failures.get(key, {}).values()]
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
                self._remember_failure(record)
            if record.status == "completed" and not record.degraded:
                self._good[("name", record.cluster, record.name)] = record
                self._good[("model", record.cluster, record.user, record.model)] = record
                while len(self._good) > 2 * _MAX_NAMES:
                    self._good.pop(next(iter(self._good)))
            (self._recent_others if record.fingerprint is None else self._recent_failures).append(record)
            self._nodes.setdefault(int(ended // _STRETCH_S), Census()).add(record)

    def _remember_failure(self, record: LedgerRecord) -> None:
        """Of the tasks of an array the last one stands for all. What has not come again for longest is forgotten."""
        for key in _failure_keys(record):
            trials = self._failures.pop(key, {})
            self._failure_count -= len(trials)
            trials.pop(trial(record), None)
            trials[trial(record)] = record
            if len(trials) > MOST_TRIALS:
                del trials[next(iter(trials))]
            self._failures[key] = trials
            self._failure_count += len(trials)
        while self._failure_count > 2 * _MAX_FAILURES:
            self._failure_count -= len(self._failures.pop(next(iter(self._failures))))

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
        failures = self._recent_failures
        hour = [r for r in failures if (r.ended or 0.0) >= now - OUTBREAK_S]
        self._outbreaks = {}
        if bursts(hour):
            full = len(hour) == _MAX_RECENT
            found = outbreaks([*self._recent_others, *failures], self._switches())
            self._outbreaks = {o.fingerprint: replace(o, at_least=full) for o in found if o.last >= now - OUTBREAK_S}
        self._told = {key: at for key, at in self._told.items() if now - at < OUTBREAK_S}
        for fingerprint, outbreak in self._outbreaks.items():
            if fingerprint not in self._told:
                self._told[fingerprint] = now
                log.warning("outbreak: %s", outbreak.sentence)


def _failure_keys(record: LedgerRecord) -> tuple[tuple[str | None, ...], ...]:
    return ("user", record.fingerprint, record.user), ("name", record.fingerprint, record.name)
