"""What the children have done since counting began: logs read, time spent, rules that matched. For the metrics.

The file outlives the worker, so that the sums only grow; after a crash they may lack the last seconds.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from slurm_triage.ledger.files import Files, put
from slurm_triage.model.facts import LogFacts

FILE = "tallies.json"
#: How often the file is written.
_EVERY_S = 10.0
#: A child is its job's owner and may say anything: names that no rule has are not counted, sums are bounded.
_MAX_HITS = 10**9
_MAX_BYTES, _MAX_S = 1e14, 1e5


@dataclass(frozen=True, slots=True)
class Scan:
    """One triage. ``seconds``: from opening the logs to the verdict. ``hits``: rule -> matches."""

    size_bytes: int
    seconds: float
    hits: Mapping[str, int]

    @classmethod
    def of(cls, facts: LogFacts, seconds: float) -> Scan:
        hits: Counter[str] = Counter()
        for attempt in facts.attempts:
            for match in attempt.matches:
                hits[match.rule] += match.count
        return cls(facts.bytes_scanned, seconds, hits)

    def encode(self) -> list[Any]:
        return [self.size_bytes, round(self.seconds, 6), dict(self.hits)]


@dataclass
class Tallies:
    """``known``: ids of the rules in force."""

    directory: Path
    known: frozenset[str]
    reports: int = 0
    size_bytes: int = 0
    seconds: float = 0.0
    hits: Counter[str] = field(default_factory=Counter)
    _saved_at: float = float("-inf")
    _changed: bool = False

    def __post_init__(self) -> None:
        before = read(self.directory)
        if before is not None:
            self.reports, self.size_bytes, self.seconds, self.hits = before

    def add(self, said: Any) -> None:
        """What ``Scan.encode`` gave, as the child sent it."""
        self.reports += 1
        self._changed = True
        match said:
            case [int(size), int() | float() as seconds, dict(hits)] if (
                0 <= size <= _MAX_BYTES and 0 <= seconds <= _MAX_S
            ):
                self.size_bytes += size
                self.seconds += seconds
                for rule, count in hits.items():
                    if rule in self.known and isinstance(count, int) and 0 < count <= _MAX_HITS:
                        self.hits[rule] += count

    def save(self, now: float, *, at_once: bool = False) -> None:
        """``now``: monotonic seconds. A full disk costs numbers, nothing else."""
        if not self._changed or (now - self._saved_at < _EVERY_S and not at_once):
            return
        self._changed, self._saved_at = False, now
        content = {"reports": self.reports, "bytes": self.size_bytes, "seconds": self.seconds, "hits": self.hits}
        with contextlib.suppress(OSError):
            put(Files(), self.directory / FILE, orjson.dumps(content), 0o644)


def read(directory: Path) -> tuple[int, int, float, Counter[str]] | None:
    """(reports, bytes, seconds, hits by rule); None if nobody has counted yet, or it cannot be read."""
    try:
        value = orjson.loads((directory / FILE).read_bytes())
        return int(value["reports"]), int(value["bytes"]), float(value["seconds"]), Counter(value["hits"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
