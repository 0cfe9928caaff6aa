"""Completed steps kept per rank in compact arrays."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from slurm_triage.logs.plausible_steps import implausible
from slurm_triage.model.facts import Step, StepSeries
from slurm_triage.model.rule import StepDialect

#: Above this many stored steps (48 bytes each: 14 MB) only the lowest rank keeps all of its steps; the others keep the
#: first and the last.
MAX_STORED_STEPS = 300_000
_NAN = float("nan")
#: Stands for "the line shows no loss": a loss may really be nan or inf.
NO_LOSS = -1.5e308


#: Step, seconds, rate, loss, announced total of one line.
Values = tuple[int, float, float, float, int]


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
        """Keep the first and the last step only, and the sum of the seconds between them."""
        self.sparse = True
        between = self.seconds[1:-1]
        self.dropped += len(between)
        self.dropped_s += sum(s for s in between if s == s)
        for column in (self.step, self.seconds, self.rate, self.loss, self.time, self.seq):
            del column[1:-1]


class StepBook:
    """All steps of one attempt in one file."""

    def __init__(self) -> None:
        self._stores: dict[tuple[int, int | None], _Store] = {}
        self._stored = 0

    def __bool__(self) -> bool:
        return bool(self._stores)

    @property
    def last_seq(self) -> int:
        """Where the last step of any rank stands; -1 before the first."""
        return max((store.seq[-1] for store in self._stores.values() if store.seq), default=-1)

    def last_step(self, dialect: int, rank: int | None) -> int | None:
        store = self._stores.get((dialect, rank))
        return store.step[-1] if store is not None else None

    def put(
        self, dialect: int, rank: int | None, values: Values, time: float | None, seq: int, *, full: bool = True
    ) -> None:
        """``full=False``: a rank of which only the first and the last step are kept."""
        store = self._stores.get((dialect, rank))
        if store is None:
            store = self._stores[(dialect, rank)] = _Store()
        step, seconds, rate, loss, total = values
        if total >= 0:
            store.total = total
        if not full and not store.sparse:
            store.make_sparse()
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
    wrong = frozenset[int]() if store.sparse else implausible(store.step, store.seconds, store.time)
    columns = zip(store.step, store.seconds, store.rate, store.loss, store.time, store.seq, strict=True)
    for index, (step, seconds, rate, loss, time, seq) in enumerate(columns):
        if index in wrong:
            continue
        known = by_step.get(step)
        if known is not None and known.seconds is not None and not seconds > known.seconds:
            continue
        by_step[step] = Step(step, _known(seconds), _known(rate), None if loss == NO_LOSS else loss, _known(time), seq)
    return tuple(by_step.values())
