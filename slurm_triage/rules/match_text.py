"""Which rules match a piece of text, which were turned away, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from slurm_triage.model.rule import Rule, RuleSet
from slurm_triage.rules.matcher import Matcher
from slurm_triage.rules.select import body_verdict, rejection

if TYPE_CHECKING:
    from slurm_triage.logs.line import Line

#: hyperscan is fastest, and memory small, with pieces of a few MiB (measured: 1 to 64 MiB differ by 20 %).
WINDOW_BYTES = 8 << 20
#: What is kept of a line, and how far ahead a block of following lines may reach over the end of a window.
LINE_BYTES = 8192
LOOKAHEAD_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class LineMatch:
    """One rule whose pattern occurs in a line. ``rejected``: why the rule does not mean the line, None if it does.

    ``offset`` is that of the line's first byte, ``line`` its number from 1.
    """

    rule: Rule
    body: str
    rejected: str | None
    captures: Mapping[str, str] = field(default_factory=dict)
    offset: int = 0
    line: int = 1


def explain_line(text: str, ruleset: RuleSet, matcher: Matcher) -> list[LineMatch]:
    """Rules whose patterns occur in the first line of ``text``; further lines serve as its block.

    Accepted ones first, higher priority first. Each rule at most once. Conditions that look beyond the message
    (requires, absent, steps, resolved_by) are not judged: one line cannot show them.
    """
    matches = [m for m in explain_text(text.encode("utf-8", "replace"), ruleset, matcher) if m.line == 1]
    return sorted(matches, key=lambda m: (m.rejected is not None, -m.rule.priority, m.rule.id))


def explain_text(raw: bytes, ruleset: RuleSet, matcher: Matcher) -> Iterator[LineMatch]:
    """The same for every line of ``raw``, in order of offset, each (line, rule) once."""
    hits = matcher.scan(raw)
    start, stop, number = 0, -1, 1
    parts: list[Line] = []
    seen: set[int] = set()
    for index, end in zip(hits.rules, hits.ends, strict=True):
        if end > stop:
            line_start = raw.rfind(b"\n", start, end) + 1 or start
            number += raw.count(b"\n", start, line_start)
            start, stop = line_start, raw.find(b"\n", end)
            stop = len(raw) if stop < 0 else stop
            parts = _parts(raw[start : min(stop, start + LINE_BYTES)])
            seen.clear()
        if index in seen:
            continue
        seen.add(index)
        rule = ruleset.rules[index]
        verdicts = [(part, _rejection(rule, part)) for part in parts]
        part, why = next((v for v in verdicts if v[1] is None), verdicts[0])
        block = _block(raw, stop + 1, part.rank, rule.block_lines) if why is None else []
        captures = body_verdict(rule, part.body, block) if why is None else None
        yield LineMatch(rule, part.body, why, captures or {}, start, number)


def _parts(raw: bytes) -> list[Line]:
    """The line, or what a progress bar wrote between carriage returns; at least one."""
    pieces = [piece for piece in raw.split(b"\r") if piece.strip()] or [raw]
    # The rank label and terminal codes are a matter of log reading, a room above this one; only explaining needs it.
    from slurm_triage.logs.line import parse_any

    return [parse_any(piece) for piece in pieces]


def _rejection(rule: Rule, part: Line) -> str | None:
    if part.is_echo and not rule.on_echo:
        return "the line repeats a setting, an argument or a command"
    return rejection(rule, part.body)


def explain_stream(file: BinaryIO, ruleset: RuleSet, matcher: Matcher) -> Iterator[LineMatch]:
    """The same for a stream of any size, in bounded memory. Lines longer than a window are taken as several."""
    kept, base, lines_before, at_end = b"", 0, 0, False
    while not at_end:
        chunk = file.read(WINDOW_BYTES)
        at_end = not chunk
        data = kept + chunk
        cut = len(data) if at_end else data.rfind(b"\n", 0, max(0, len(data) - LOOKAHEAD_BYTES)) + 1
        if not cut and len(data) > 2 * WINDOW_BYTES:
            cut = WINDOW_BYTES
        if not cut:
            kept = data
            continue
        for match in explain_text(data, ruleset, matcher):
            if match.offset >= cut:
                break
            yield LineMatch(
                match.rule, match.body, match.rejected, match.captures, base + match.offset, lines_before + match.line
            )
        base += cut
        lines_before += data.count(b"\n", 0, cut)
        kept = data[cut:]


def _block(raw: bytes, start: int, rank: int | None, count: int) -> list[str]:
    """Bodies of the next ``count`` lines of the same rank, from offset ``start`` on."""
    bodies: list[str] = []
    limit = min(len(raw), start + LOOKAHEAD_BYTES)
    while len(bodies) < count and start < limit:
        stop = raw.find(b"\n", start)
        stop = len(raw) if stop < 0 else stop
        part = _parts(raw[start : min(stop, start + LINE_BYTES)])[0]
        if part.rank == rank:
            bodies.append(part.body)
        start = stop + 1
    return bodies
