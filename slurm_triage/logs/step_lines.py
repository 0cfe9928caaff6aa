"""Finds the lines of completed steps in a window of bytes.

Every line is parsed as long as there are few. In a large log of many ranks only one rank (the lowest) is followed step
by step; of the others the last step in each window is enough. Parsing costs about 2 us a line, so that 64 ranks of a
1 GB log would take longer than all rules together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from slurm_triage.logs.line import LabelFormat, parse
from slurm_triage.logs.steps import NO_LOSS, Values
from slurm_triage.model.rule import StepDialect
from slurm_triage.rules.database import Search, literal

#: Lines parsed one by one before only the reference rank is followed: 20 ms; a small job is read completely.
FULL_PARSE_LINES = 5_000
#: How far before the literal the rank's label may stand (absl and Ray prefixes lie between).
_MAX_PREFIX_BYTES = 400
#: Pieces, from the end of a window, in which each rank's last step is looked for.
_LAST_STEPS_BYTES = 512 << 10
#: Step lines looked at for that: several times the ranks of large jobs.
_MAX_LAST_LOOKS = 8_192
#: Step lines after which the log's dialects are taken as known.
_SETTLED_LINES = 2_000
#: Lines with a dialect's literal that do not match before the dialect is given up for this file.
_MAX_MISSES = 2_000
_NAN = float("nan")


@dataclass(slots=True)
class FoundStep:
    """A step line. ``offset`` is that of its numbers in the window; ``full``: the rank is not merely sampled. Not
    frozen: that made it three times as slow to make, thousands of times."""

    offset: int
    dialect: int
    rank: int | None
    time: float | None
    values: Values
    full: bool

    @property
    def step(self) -> int:
        return self.values[0]


class _Compiled:
    """A dialect with its pattern compiled for bytes."""

    def __init__(self, index: int, dialect: StepDialect) -> None:
        self.index = index
        self.literal = dialect.literal.encode()
        self._dialect = dialect
        self._at_literal = dialect.pattern.startswith(dialect.literal)
        self._offset = 0 if dialect.zero_based else 1
        self._scale = dialect.seconds_scale
        self._misses = 0
        self._hits = 0

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        """Compiled when the literal is met: most logs need one of thirty."""
        return re.compile(self._dialect.pattern.encode())

    @cached_property
    def _groups(self) -> tuple[int, ...]:
        names = self._pattern.groupindex
        return tuple(names.get(n, 0) for n in ("step", "seconds", "rate", "loss", "total"))

    @cached_property
    def _epoch_group(self) -> int:
        return self._pattern.groupindex.get("epoch", 0)

    @property
    def has_hits(self) -> bool:
        return self._hits > 0

    @property
    def is_foreign(self) -> bool:
        """The literal stands on many lines, but they are another framework's."""
        return not self._hits and self._misses > _MAX_MISSES

    def matches(self, data: bytearray, start: int, end: int) -> Iterator[re.Match[bytes]]:
        """Matches that begin in ``data[start:end]``, in order, found by the literal."""
        position = start
        while True:
            position = data.find(self.literal, position, end)
            if position < 0:
                return
            if self._at_literal:
                match = self._pattern.match(data, position)
                position += len(self.literal)
                if match is not None:
                    self._hits += 1
                    yield match
                elif self._missed():
                    return
                continue
            line_start = data.rfind(b"\n", max(0, position - 4096), position) + 1
            line_end = data.find(b"\n", position, end)
            line_end = end if line_end < 0 else line_end
            before = self._hits
            for match in self._pattern.finditer(data, max(line_start, start), line_end):
                self._hits += 1
                yield match
            if self._hits == before and self._missed():
                return
            position = line_end

    def _missed(self) -> bool:
        self._misses += 1
        return self.is_foreign

    def epoch(self, match: re.Match[bytes]) -> int | None:
        """Epoch of a dialect whose step numbers start anew in every epoch; None for all others."""
        text = match[self._epoch_group] if self._epoch_group else None
        return int(text) if text is not None else None

    def values(self, match: re.Match[bytes]) -> Values | None:
        """Numbers of a match: absent ones are nan, an absent loss NO_LOSS, an absent total -1. None without a step."""
        step, seconds, rate, loss, total = (match[g] if g else None for g in self._groups)
        if step is None:
            return None
        try:
            return (
                int(step) - self._offset,
                float(seconds) * self._scale if seconds else _NAN,
                float(rate) if rate else _NAN,
                float(loss) if loss else NO_LOSS,
                int(total) if total else -1,
            )
        except ValueError:
            return None


@dataclass(slots=True)
class _EpochCount:
    epoch: int | None = None
    before: int = 0
    interval: int = 1
    last: int = 0

    def continued(self, epoch: int, step: int) -> int:
        """The step's number over all epochs seen so far."""
        if self.epoch is not None and epoch > self.epoch:
            self.before += self.last + self.interval
        elif step > self.last:
            self.interval = step - self.last
        self.epoch, self.last = epoch, step
        return self.before + step


class StepFinder:
    """Finds step lines window by window; turns to sampling when there are many."""

    def __init__(self, dialects: Sequence[StepDialect], read_clock: Callable[[str], float | None]) -> None:
        self._dialects = [_Compiled(i, d) for i, d in enumerate(dialects)]
        self._read_clock = read_clock
        self._parsed = 0
        self._lowest: dict[int, int] = {}
        self._prefix_ranks: dict[bytes, int | None] = {}
        self._epochs: dict[tuple[int, int | None], _EpochCount] = {}
        self._searches: dict[bytes, Search] = {}

    def find(self, data: bytearray, emit_to: int, present: frozenset[int], labels: LabelFormat) -> list[FoundStep]:
        """Step lines that begin in ``data[:emit_to]``, by offset. ``present``: dialects whose literal occurs."""
        found: list[FoundStep] = []
        for index in sorted(present):
            dialect = self._dialects[index]
            if dialect.is_foreign or (self._parsed >= _SETTLED_LINES and not dialect.has_hits):
                # One framework per run: once its lines are known, others' words are looked at no more.
                continue
            found.extend(self._of(dialect, data, emit_to, labels))
        found.sort(key=lambda step: step.offset)
        return found

    def _of(self, dialect: _Compiled, data: bytearray, emit_to: int, labels: LabelFormat) -> Iterator[FoundStep]:
        start = 0
        if not self._samples(dialect, labels):
            for match in dialect.matches(data, 0, emit_to):
                step = self._step(dialect, match, data, labels, full=True)
                if step is None:
                    continue
                self._parsed += 1
                if step.rank is not None:
                    self._lowest[dialect.index] = min(step.rank, self._lowest.get(dialect.index, step.rank))
                yield step
                if self._samples(dialect, labels):
                    start = match.end()
                    break
            else:
                return
        yield from self._sampled(dialect, data, start, emit_to, labels)

    def _samples(self, dialect: _Compiled, labels: LabelFormat) -> bool:
        return self._parsed >= FULL_PARSE_LINES and dialect.index in self._lowest and labels.width is not None

    def _sampled(
        self, dialect: _Compiled, data: bytearray, begin: int, emit_to: int, labels: LabelFormat
    ) -> Iterator[FoundStep]:
        """From ``begin`` on, all steps of the reference rank, and each other rank's last one in the window."""
        reference = self._lowest[dialect.index]
        for start, stop in self._lines_of(reference, dialect, data, begin, emit_to, labels):
            for match in dialect.matches(data, start, stop):
                step = self._step(dialect, match, data, labels, full=True)
                if step is not None:
                    yield step
        seen: set[int | None] = {reference}
        looks = min(_MAX_LAST_LOOKS, 8 * (labels.ntasks or 1024))
        for position in islice(self._backwards(dialect, data, begin, emit_to), looks):
            if len(seen) == labels.ntasks:
                break
            if self._prefix_ranks.get(_prefix(data, position), -1) in seen:
                continue
            last = next(dialect.matches(data, position, emit_to), None)
            step = self._step(dialect, last, data, labels, full=False) if last is not None else None
            if step is not None and step.rank is not None and step.rank not in seen:
                seen.add(step.rank)
                yield step

    def _backwards(self, dialect: _Compiled, data: bytearray, begin: int, emit_to: int) -> Iterator[int]:
        """Offsets of the literal in ``data[begin:emit_to]``, from the last one on."""
        stop = emit_to
        while stop > begin:
            start = max(begin, stop - _LAST_STEPS_BYTES)
            overlap = min(emit_to, stop + len(dialect.literal) - 1)
            for end in reversed(self._search(dialect.literal).ends(data, start, overlap)):
                yield end - len(dialect.literal)
            stop = start

    def _lines_of(
        self, rank: int, dialect: _Compiled, data: bytearray, begin: int, emit_to: int, labels: LabelFormat
    ) -> Iterator[tuple[int, int]]:
        """(start of the literal, end of the line) of every line of one rank that holds the literal."""
        label = f"{rank:>{labels.width}}: ".encode()
        plain = label in self._prefix_ranks
        line_end = 0
        for end in self._search(label + dialect.literal if plain else dialect.literal).ends(data, begin, emit_to):
            start = end - len(dialect.literal)
            line_start = data.rfind(b"\n", max(0, start - _MAX_PREFIX_BYTES), start) + 1
            if start < line_end or not data.startswith(label, line_start):
                continue
            line_end = data.find(b"\n", start, emit_to)
            line_end = emit_to if line_end < 0 else line_end
            yield start, line_end

    def _search(self, literal_text: bytes) -> Search:
        search = self._searches.get(literal_text)
        if search is None:
            search = self._searches[literal_text] = Search(literal(literal_text))
        return search

    def _step(
        self, dialect: _Compiled, match: re.Match[bytes], data: bytearray, labels: LabelFormat, *, full: bool
    ) -> FoundStep | None:
        values = dialect.values(match)
        if values is None:
            return None
        start = match.start()
        prefix = _prefix(data, start)
        if prefix in self._prefix_ranks:
            rank = self._prefix_ranks[prefix]
            return FoundStep(start, dialect.index, rank, None, self._counted_up(dialect, match, rank, values), full)
        line = parse(prefix, labels)
        time = self._read_clock(line.text) if line.text else None
        if time is None and len(self._prefix_ranks) < 4096:
            # Without a clock the prefix is the same on every line of a rank.
            self._prefix_ranks[prefix] = line.rank
        values = self._counted_up(dialect, match, line.rank, values)
        return FoundStep(start, dialect.index, line.rank, time, values, full)

    def _counted_up(self, dialect: _Compiled, match: re.Match[bytes], rank: int | None, values: Values) -> Values:
        """Batch numbers that start anew in every epoch, counted on over the epochs. The line's total is an epoch's."""
        epoch = dialect.epoch(match)
        if epoch is None:
            return values
        step = self._epochs.setdefault((dialect.index, rank), _EpochCount()).continued(epoch, values[0])
        return (step, *values[1:4], -1)


def _prefix(data: bytearray, start: int) -> bytes:
    """What stands before an offset in its line."""
    reach = max(0, start - _MAX_PREFIX_BYTES)
    return bytes(data[max(reach, data.rfind(b"\n", reach, start) + 1) : start])


class StepCursor:
    """The last step that each rank had logged at an offset; asked with growing offsets."""

    def __init__(self) -> None:
        self._by_rank: dict[int | None, int] = {}
        self._highest: int | None = None
        self._sampled = False

    def reset(self) -> None:
        """A new attempt: nothing has been completed yet."""
        self._by_rank.clear()
        self._highest = None

    def take(self, step: FoundStep) -> None:
        self._by_rank[step.rank] = step.step
        self._highest = step.step if self._highest is None else max(self._highest, step.step)
        self._sampled = self._sampled or not step.full

    def has(self, rank: int | None) -> bool:
        return rank in self._by_rank

    def before(self, rank: int | None) -> int | None:
        """The rank's own last step; the furthest of any rank where its own is not known (or only sampled)."""
        if self._sampled:
            return self._highest
        return self._by_rank.get(rank, self._highest)
