"""Completed steps: found by the literal that begins every such line, kept per rank in compact arrays."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from slurm_triage.logs.line import LabelFormat, parse
from slurm_triage.model.facts import Step, StepSeries
from slurm_triage.model.rule import StepDialect

#: Above this many stored steps (40 bytes each: 12 MB) only the lowest rank keeps all of its steps; the others keep first and last.
MAX_STORED_STEPS = 300_000
_NAN = float("nan")
#: Stands for "the line shows no loss": a loss may really be nan or inf.
_NO_LOSS = -1.5e308


@dataclass(slots=True)
class StepEvent:
    """A step line in one window, in order of its offset there."""

    offset: int
    rank: int | None
    step: int
    time: float | None


#: Step, seconds, rate, loss, announced total of one line.
Values = tuple[int, float, float, float, int]
#: A step line: where and when, the index of its dialect, its numbers.
FoundStep = tuple[StepEvent, int, Values]


class CompiledDialect:
    """A dialect with its pattern compiled for bytes. ``find`` yields matches in a window."""

    def __init__(self, dialect: StepDialect) -> None:
        self.dialect = dialect
        self._pattern = re.compile(dialect.pattern.encode())
        names = self._pattern.groupindex
        self._groups = tuple(names.get(n, 0) for n in ("step", "seconds", "rate", "loss", "total"))

    def find(self, data: bytearray, start: int, end: int) -> Iterator[re.Match[bytes]]:
        return self._pattern.finditer(data, start, end)

    def values(self, match: re.Match[bytes]) -> Values | None:
        """(step, seconds, rate, loss, total); absent numbers are nan, an absent loss is _NO_LOSS, total -1."""
        step, seconds, rate, loss, total = (match[g] if g else None for g in self._groups)
        if step is None:
            return None
        scale = self.dialect.seconds_scale
        try:
            return (
                int(step) - (0 if self.dialect.zero_based else 1),
                float(seconds) * scale if seconds else _NAN,
                float(rate) if rate else _NAN,
                float(loss) if loss else _NO_LOSS,
                int(total) if total else -1,
            )
        except ValueError:
            return None


@dataclass(slots=True)
class _Store:
    """Steps of one rank in one dialect."""

    step: array[int] = field(default_factory=lambda: array("q"))
    seconds: array[float] = field(default_factory=lambda: array("d"))
    rate: array[float] = field(default_factory=lambda: array("d"))
    loss: array[float] = field(default_factory=lambda: array("d"))
    time: array[float] = field(default_factory=lambda: array("d"))
    seq: array[int] = field(default_factory=lambda: array("q"))
    sparse: bool = False
    dropped: int = 0
    dropped_s: float = 0.0
    total: int = -1

    def put(self, step: int, seconds: float, rate: float, loss: float, time: float, seq: int) -> None:
        if self.sparse and len(self.step) >= 2:
            self._drop_last()
        self.step.append(step)
        self.seconds.append(seconds)
        self.rate.append(rate)
        self.loss.append(loss)
        self.time.append(time)
        self.seq.append(seq)

    def _drop_last(self) -> None:
        self.dropped += 1
        seconds = self.seconds[-1]
        self.dropped_s += 0.0 if seconds != seconds else seconds
        for column in (self.step, self.seconds, self.rate, self.loss, self.time, self.seq):
            column.pop()

    def make_sparse(self) -> None:
        self.sparse = True
        while len(self.step) > 2:
            keep = self.step[-1], self.seconds[-1], self.rate[-1], self.loss[-1], self.time[-1], self.seq[-1]
            for column in (self.step, self.seconds, self.rate, self.loss, self.time, self.seq):
                column.pop()
            self._drop_last()
            self.step.append(keep[0])
            self.seconds.append(keep[1])
            self.rate.append(keep[2])
            self.loss.append(keep[3])
            self.time.append(keep[4])
            self.seq.append(keep[5])


class StepBook:
    """All steps of one attempt in one file."""

    def __init__(self) -> None:
        self._stores: dict[tuple[int, int | None], _Store] = {}
        self._stored = 0

    def __bool__(self) -> bool:
        return bool(self._stores)

    def last_step(self, dialect: int, rank: int | None) -> int | None:
        store = self._stores.get((dialect, rank))
        return store.step[-1] if store is not None else None

    def put(self, dialect: int, rank: int | None, values: Values, time: float | None, seq: int) -> None:
        store = self._stores.get((dialect, rank))
        if store is None:
            store = self._stores[(dialect, rank)] = _Store()
        step, seconds, rate, loss, total = values
        if total >= 0:
            store.total = total
        store.put(step, seconds, rate, loss, _NAN if time is None else time, seq)
        self._stored += 1
        if self._stored > MAX_STORED_STEPS:
            self._thin_out()

    def _thin_out(self) -> None:
        """Keep one complete series, the lowest rank's; halve even that when it alone is too long."""
        keys = sorted(self._stores, key=lambda k: (-len(self._stores[k].step) if k[1] is None else 0, k[1] or 0))
        full = [k for k in keys if not self._stores[k].sparse]
        for key in full[1:]:
            self._stores[key].make_sparse()
        if len(full) == 1:
            self._halve(self._stores[full[0]])
        self._stored = sum(len(s.step) for s in self._stores.values())

    @staticmethod
    def _halve(store: _Store) -> None:
        """Drop every second step but keep the sum of their seconds."""
        gone = [s for s in store.seconds[1::2] if s == s]
        store.dropped += len(store.seconds[1::2])
        store.dropped_s += sum(gone)
        for name in ("step", "seconds", "rate", "loss", "time", "seq"):
            setattr(store, name, getattr(store, name)[::2])

    def series(self, file: int, dialects: tuple[StepDialect, ...], rank_of_file: int | None) -> tuple[StepSeries, ...]:
        result = []
        for (index, rank), store in sorted(
            self._stores.items(), key=lambda i: (i[0][0], -1 if i[0][1] is None else i[0][1])
        ):
            dialect = dialects[index]
            result.append(
                StepSeries(
                    rank=rank if rank is not None else rank_of_file,
                    file=file,
                    dialect=dialect.id,
                    unit=dialect.unit,
                    steps=_steps(store),
                    sparse=store.sparse,
                    printed_total=store.total if store.total >= 0 else None,
                    higher_is_better=dialect.higher_is_better,
                    dropped_steps=store.dropped,
                    dropped_s=store.dropped_s,
                )
            )
        return tuple(result)


def _known(value: float) -> float | None:
    return None if value != value else value


def _steps(store: _Store) -> tuple[Step, ...]:
    """One entry per step: of several processes that print the same step, the slowest counts."""
    by_step: dict[int, Step] = {}
    for step, seconds, rate, loss, time, seq in zip(
        store.step, store.seconds, store.rate, store.loss, store.time, store.seq, strict=True
    ):
        known = by_step.get(step)
        if known is not None and known.seconds is not None and not seconds > known.seconds:
            continue
        by_step[step] = Step(step, _known(seconds), _known(rate), None if loss == _NO_LOSS else loss, _known(time), seq)
    return tuple(by_step.values())


def find_steps(
    data: bytearray,
    end: int,
    dialects: list[tuple[int, CompiledDialect]],
    labels: LabelFormat,
    read_clock: Callable[[str], float | None],
) -> list[FoundStep]:
    """Step lines that begin in ``data[:end]``: (event, dialect index, values), in order of offset."""
    found: list[FoundStep] = []
    label_ranks: dict[bytes, tuple[int | None, bool]] = {}
    for index, compiled in dialects:
        for match in compiled.find(data, 0, len(data)):
            start = match.start()
            line_start = data.rfind(b"\n", 0, start) + 1
            if line_start >= end:
                break
            values = compiled.values(match)
            if values is None:
                continue
            prefix = bytes(data[max(line_start, start - 400) : start])
            known = label_ranks.get(prefix)
            time = None
            if known is None:
                line = parse(prefix, labels)
                rank, text = line.rank, line.text
                time = read_clock(text) if text else None
                if time is None and len(label_ranks) < 4096:
                    label_ranks[prefix] = (rank, True)
            else:
                rank = known[0]
            found.append((StepEvent(start, rank, values[0], time), index, values))
    found.sort(key=lambda item: item[0].offset)
    return found


class StepCursor:
    """Last step of each rank up to an offset within a window, asked with growing offsets."""

    def __init__(self, before: dict[int | None, int], highest: int | None) -> None:
        self.by_rank = before
        self.highest = highest
        self._events: list[StepEvent] = []
        self._next = 0

    def load(self, events: list[StepEvent]) -> None:
        self._events = events
        self._next = 0

    def reset(self) -> None:
        """A new attempt: nothing has been completed yet."""
        self.by_rank.clear()
        self.highest = None

    def advance(self, offset: int) -> list[StepEvent]:
        """Take in the events before ``offset`` and return them."""
        stop = bisect_right(self._events, offset, lo=self._next, key=lambda e: e.offset)
        passed = self._events[self._next : stop]
        for event in passed:
            self.by_rank[event.rank] = event.step
            self.highest = event.step if self.highest is None else max(self.highest, event.step)
        self._next = stop
        return passed

    def before(self, rank: int | None) -> int | None:
        return self.by_rank.get(rank, self.highest)
