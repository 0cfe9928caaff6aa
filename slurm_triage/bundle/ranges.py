"""Which bytes of a log go into a bundle. Small logs go whole; of a large one its beginning, its end, and what stands
around everything that the verdict rests on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from slurm_triage.logs.source import open_source
from slurm_triage.logs.windows import windows
from slurm_triage.model.facts import LogFacts
from slurm_triage.model.files import LogFile
from slurm_triage.model.rule import FACT, RuleSet
from slurm_triage.rules.matcher import Matcher

#: Shares of a file's allowance. The end tells more than the beginning, but labels, header and actor names stand there.
_HEAD_SHARE, _TAIL_SHARE = 1 / 16, 1 / 4
#: Bytes kept before and after each match (tracebacks and blocks follow their first line), tried in this order until
#: they fit: at the end only the lines themselves are kept.
_AROUND = ((8 << 10, 32 << 10), (2 << 10, 8 << 10), (512, 2 << 10), (0, 0))
#: What growing to whole lines adds to a range: lines of the corpus have 90 bytes in the mean, step lines up to 180.
_LINE_BYTES = 192
#: Lines before a kept part that are read, not kept: a key or a cut line that began there must be recognised.
CONTEXT_BYTES = 64 << 10
#: Lines of one rule of class fact: MaxText prints about 1 000 settings.
_MAX_STATEMENTS = 4000


@dataclass(frozen=True, slots=True)
class Part:
    """One unbroken stretch of a log. ``context`` comes before it in the file and is not to be shown. Both consist of
    whole lines. ``start`` is the offset of ``data``."""

    start: int
    context: bytes
    data: bytes


@dataclass(frozen=True, slots=True)
class Spot:
    """A place that must be kept. ``line_only``: what stands around it says nothing (a step line)."""

    offset: int
    line_only: bool = False


def length_of(log: LogFile) -> int:
    """Bytes of the log after decompression. Raises NotFoundError."""
    with open_source(log.path) as source:
        if not source.compressed and not source.unwrapped and source.size_bytes is not None:
            return source.size_bytes
        buffer = memoryview(bytearray(1 << 20))
        total = 0
        while count := source.readinto(buffer):
            total += count
        return total


def statements(log: LogFile, ruleset: RuleSet, matcher: Matcher) -> Iterator[Spot]:
    """Lines of settings, header and environment, which facts do not give a place to. Raises NotFoundError."""
    wanted = {index for index, rule in enumerate(ruleset.rules) if rule.cls == FACT}
    seen: Counter[int] = Counter()
    with open_source(log.path) as source:
        for window in windows(source):
            hits = matcher.scan(window.data, window.emit_to)
            for rule, end in zip(hits.rules, hits.ends, strict=True):
                seen[rule] += 1
                if rule in wanted and seen[rule] <= _MAX_STATEMENTS:
                    # The end of a match may be the newline.
                    yield Spot(window.base + end - 1, line_only=True)


def spots(facts: LogFacts, lengths: list[int]) -> list[list[Spot]]:
    """For each log the places that the facts come from: first and last match of every rule on every rank, exits,
    stages, summaries, the beginning of each attempt, last words, and every step line that was kept."""
    bases = [sum(lengths[:index]) + index for index in range(len(lengths))]
    found: list[list[Spot]] = [[] for _ in lengths]

    def at(seq: int, line_only: bool = False) -> None:
        index = max((i for i, base in enumerate(bases) if base <= seq), default=0)
        found[index].append(Spot(seq - bases[index], line_only))

    for attempt in facts.attempts:
        at(attempt.start_seq)
        for match in (*attempt.matches, *attempt.facts):
            found[match.first.file].append(Spot(match.first.offset))
            found[match.last.file].append(Spot(match.last.offset))
        places = [
            *(exit_.seq for exit_ in attempt.exits),
            *(stage.seq for stage in attempt.stages),
            *(summary.seq for summary in attempt.summaries),
            *(cancellation.seq for cancellation in attempt.cancellations),
            *(tail.seq for tail in attempt.tails),
        ]
        for seq in places:
            at(seq)
        for series in attempt.series:
            for step in series.steps:
                at(step.seq, line_only=True)
    return found


def choose_ranges(length: int, allowance: int, wanted: Iterable[Spot]) -> list[tuple[int, int]]:
    """Byte ranges to keep, in order, not overlapping; at most about ``allowance`` bytes of ``length``."""
    if length <= allowance:
        return [(0, length)]
    head, tail = int(allowance * _HEAD_SHARE), length - int(allowance * _TAIL_SHARE)
    inside = sorted((s for s in wanted if head <= s.offset < tail), key=lambda s: s.offset)
    for before, after in _AROUND:
        ranges = [(0, head), (tail, length)]
        for spot in inside:
            b, a = (0, 1) if spot.line_only else (before, max(after, 1))
            ranges.append((max(0, spot.offset - b), min(length, spot.offset + a)))
        merged = _merged(ranges)
        if sum(end - start + _LINE_BYTES for start, end in merged) <= allowance:
            return merged
    # Too many lines: the first and the last of them tell most.
    count = (allowance - head - (length - tail)) // (2 * _LINE_BYTES)
    return _merged([(0, head), *merged[1:-1][:count], *merged[1:-1][-count:], (tail, length)])


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def read_parts(log: LogFile, ranges: list[tuple[int, int]]) -> Iterator[Part]:
    """The ranges' bytes, grown to whole lines, each with its context. Raises NotFoundError."""
    waiting = list(ranges)
    context, kept, start, copied_to, previous = b"", bytearray(), 0, 0, b""
    with open_source(log.path) as source:
        for window in windows(source):
            base, emit_to, data = window.base, window.emit_to, window.data
            while waiting and waiting[0][0] < base + emit_to:
                low = max(0, waiting[0][0] - base)
                low = data.rfind(b"\n", 0, low) + 1 if waiting[0][0] > base else 0
                low = max(low, copied_to - base)
                newline = data.find(b"\n", min(max(0, waiting[0][1] - base - 1), emit_to), emit_to)
                high = newline + 1 if newline >= 0 else emit_to
                if not kept:
                    start, context = base + low, _context(previous, data, low)
                elif base + low > copied_to:
                    yield Part(start, context, bytes(kept))
                    kept, start, context = bytearray(), base + low, _context(previous, data, low)
                kept += data[low:high]
                copied_to = max(copied_to, base + high)
                if waiting[0][1] > base + emit_to and not window.eof:
                    break
                waiting.pop(0)
            previous = bytes(data[max(0, emit_to - CONTEXT_BYTES) : emit_to])
    if kept:
        yield Part(start, context, bytes(kept))


def _context(previous: bytes, data: bytearray, low: int) -> bytes:
    """Whole lines before ``low``. ``previous``: the end of the window before."""
    if low < CONTEXT_BYTES:
        return _whole_lines(previous[max(0, len(previous) - CONTEXT_BYTES + low) :]) + bytes(data[:low])
    return _whole_lines(bytes(data[low - CONTEXT_BYTES : low]))


def _whole_lines(text: bytes) -> bytes:
    """Without what may be the rest of a line. (Of the first line of a file nothing is needed as context.)"""
    return text[text.find(b"\n") + 1 :] if b"\n" in text else b""
