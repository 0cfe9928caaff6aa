"""Finds in one linear pass which rules match where: literals everywhere, patterns in the lines that hold one."""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from slurm_triage import __version__
from slurm_triage.errors import RuleError
from slurm_triage.model.rule import RuleSet
from slurm_triage.rules import cache, database
from slurm_triage.rules.cache import CacheState
from slurm_triage.rules.database import Expression

#: Callbacks of one scan that are kept one by one. A window of 8 MiB of ordinary log gives some hundreds; a flood (an
#: error storm of thousands of lines a second) gives more than anybody reads.
KEEP = 20_000

#: Beyond KEEP, each rule may still place this many: a storm of one rule must not hide the first match of another.
KEEP_PER_RULE = 64

#: Kinds of lines that healthy logs consist of, one of each: literals that occur there are avoided.
_ORDINARY = Path(__file__).with_name("ordinary.txt")

#: hyperscan takes lengths as 32-bit numbers.
MAX_SCAN_BYTES = 2**32 - 1

#: Less is searched for the patterns at once.
_SMALL_BYTES = 16 << 10
#: Lines that lie closer together are searched in one go: a call costs as much as so many bytes.
_GAP_BYTES = 2_048
#: With more literals than one in so many bytes, looking for them first takes longer than it saves. A log that has them
#: has more of them, so a few scans go without before it is tried again.
_LITERAL_BYTES, _SCANS_WITHOUT = 8_192, 15


@dataclass(frozen=True, slots=True)
class Hits:
    """Matches of one scan, ordered by offset, each (rule, end) once.

    ``rules[i]`` is an index into ``RuleSet.rules``, ``ends[i]`` the offset in the scanned data just behind the match.
    ``dialects`` are indices into ``RuleSet.dialects`` whose literal occurs. In a flood some hits are only counted:
    ``unlisted`` maps a rule to how many, ``last_unlisted`` to the end of the last of them.
    """

    rules: list[int]
    ends: list[int]
    dialects: frozenset[int]
    unlisted: Mapping[int, int] = field(default_factory=dict)
    last_unlisted: Mapping[int, int] = field(default_factory=dict)


NO_HITS = Hits([], [], frozenset())


class Matcher:
    """Searches literals first, and patterns only in the lines that contain one: no pattern matches a line without a
    literal that its match must contain (rules/required.py). In an ordinary log that is hardly any line.

    ``cache_state`` says what became of the cached databases (for ``doctor``).
    """

    __slots__ = ("_literals", "_patterns", "_rule_count", "_scans_without", "cache_state")

    def __init__(self, ruleset: RuleSet, cache_state: CacheState, patterns: Any = None, literals: Any = None) -> None:
        self._patterns = patterns
        self._literals = literals
        self._rule_count = len(ruleset.rules)
        self._scans_without = 0
        self.cache_state = cache_state

    @classmethod
    def load(cls, ruleset: RuleSet, cache_dir: Path | None = None) -> Matcher:
        """From the cache, or compiled and stored there. Raises RuleError for a pattern hyperscan rejects, TriageError
        where there is no hyperscan."""
        if not ruleset.rules and not ruleset.dialects:
            return cls(ruleset, CacheState("loaded", "no patterns, nothing to cache"))
        key = _cache_key(ruleset)
        name = f"patterns-{key[:24]}"
        directory = cache_dir or cache.write_dir()
        payload, source = cache.load(name, key, directory)
        databases = [database.restore(stored) for stored in marshal.loads(payload)] if payload is not None else [None]
        if None not in databases:
            return cls(ruleset, CacheState("loaded", source), *databases)
        databases = _compile(ruleset)
        stored = marshal.dumps([database.dump(one) for one in databases])
        return cls(ruleset, cache.store(name, key, stored, directory), *databases)

    @classmethod
    def compile(cls, ruleset: RuleSet, *, literals: bool = True) -> Matcher:
        """The same without any cache. ``literals=False``: search patterns everywhere; same hits, only slower."""
        return cls(ruleset, CacheState("unusable", "not asked for"), *_compile(ruleset)[: 2 if literals else 1])

    def scan(self, data: bytes | bytearray, end: int | None = None) -> Hits:
        """One pass over ``data[:end]`` (at most MAX_SCAN_BYTES). Not to be called from two threads at once."""
        end = len(data) if end is None else end
        if self._patterns is None or not end:
            return NO_HITS
        if end > MAX_SCAN_BYTES:
            raise ValueError(f"{end} bytes are more than one scan takes ({MAX_SCAN_BYTES})")
        rules: list[int] = []
        ends: list[int] = []
        dialects: set[int] = set()
        unlisted: dict[int, int] = {}
        last_unlisted: dict[int, int] = {}
        overflow = _overflow(rules, ends, unlisted, last_unlisted)
        base = 0

        def on_match(number: int, _start: int, to: int, _flags: int, _context: object) -> None:
            if number >= self._rule_count:
                dialects.add(number - self._rule_count)
            elif len(ends) < KEEP:
                rules.append(number)
                ends.append(base + to)
            else:
                overflow(number, base + to)

        with memoryview(data) as view:
            for base, stop in self._stretches(data, end, dialects):
                self._patterns.scan(view[base:stop], match_event_handler=on_match)
        # Two patterns of one rule may end at one place.
        pairs = sorted(set(zip(ends, rules, strict=True)))
        return Hits([r for _, r in pairs], [e for e, _ in pairs], frozenset(dialects), unlisted, last_unlisted)

    def _stretches(self, data: bytes | bytearray, end: int, dialects: set[int]) -> list[tuple[int, int]]:
        """(start, end) of what is to be searched for patterns. Adds dialects whose literal it meets."""
        if self._literals is None or end < _SMALL_BYTES or self._scans_without:
            self._scans_without = max(0, self._scans_without - (end >= _SMALL_BYTES))
            return [(0, end)]
        found: list[int] = []
        most = end // _LITERAL_BYTES

        def on_literal(number: int, _start: int, to: int, _flags: int, _context: object) -> bool:
            if number >= self._rule_count:
                dialects.add(number - self._rule_count)
            else:
                found.append(to)
            return len(found) > most

        try:
            with memoryview(data) as view:
                self._literals.scan(view[:end], match_event_handler=on_literal)
        except database.library().ScanTerminated:
            self._scans_without = _SCANS_WITHOUT
            return [(0, end)]
        return _lines_around(data, end, found)


def _lines_around(data: bytes | bytearray, end: int, offsets: list[int]) -> list[tuple[int, int]]:
    """(start, end) of the lines in which literals end, close ones taken together."""
    found: list[tuple[int, int]] = []
    stop = -1
    for offset in sorted(offsets):
        if offset <= stop:
            continue
        start = data.rfind(b"\n", max(stop, 0), offset) + 1
        if found and start - stop < _GAP_BYTES:
            start = found.pop()[0]
        newline = data.find(b"\n", offset, end)
        stop = newline if newline >= 0 else end
        found.append((start, stop))
    return found


@lru_cache(maxsize=4096)
def compile_error(pattern: str, caseless: bool = False) -> str | None:
    """Why hyperscan rejects one pattern, or None."""
    hyperscan = database.library()
    try:
        database.build([(pattern.encode(), 0, hyperscan.HS_FLAG_CASELESS if caseless else 0)])
    except hyperscan.error as error:
        return str(error).rstrip(".")
    return None


def _compile(ruleset: RuleSet) -> list[Any]:
    """The database of the patterns, and that of the literals if there are any.

    A rule's patterns share its index; dialects follow behind the rules, in both databases. A dialect's literal stands
    in almost every line, hence one callback per scan is enough (SINGLEMATCH).
    """
    hyperscan = database.library()
    flags = [hyperscan.HS_FLAG_CASELESS if rule.caseless else 0 for rule in ruleset.rules]
    patterns = [(p.encode(), index, flags[index]) for index, rule in enumerate(ruleset.rules) for p in rule.patterns]
    dialects = [
        (database.literal(dialect.literal.encode()), index, hyperscan.HS_FLAG_SINGLEMATCH)
        for index, dialect in enumerate(ruleset.dialects, len(ruleset.rules))
    ]
    literals = _literals(ruleset, flags)
    try:
        return [database.build(one) for one in ([*patterns, *dialects], literals and [*literals, *dialects]) if one]
    except hyperscan.error as error:
        # The library does not say which expression it was: look for it.
        for rule in ruleset.rules:
            for pattern in rule.patterns:
                why = compile_error(pattern, rule.caseless)
                if why is not None:
                    raise RuleError(f"rule {rule.id} ({rule.pack}): pattern {pattern!r}: {why}") from error
        raise RuleError(f"the patterns do not compile together: {error}") from error


def _literals(ruleset: RuleSet, flags: Sequence[int]) -> list[Expression]:
    """Literals of which one stands wherever a rule's pattern matches; their number is 0. None if some pattern has no
    literal or goes over several lines."""
    # Here: a start with a warm cache compiles nothing.
    from slurm_triage.rules.required import Clause, clauses, cover

    needs: dict[int, list[list[Clause]]] = {}
    for rule, flag in zip(ruleset.rules, flags, strict=True):
        needs.setdefault(flag, []).extend(clauses(pattern) for pattern in rule.patterns)
    if not all(map(all, needs.values())):
        return []
    ordinary = _ORDINARY.read_text()
    return [(database.literal(text.encode()), 0, flag) for flag, of in needs.items() for text in cover(of, ordinary)]


def _cache_key(ruleset: RuleSet) -> str:
    """Of all that the databases depend on, and of the form in which they are stored."""
    total = hashlib.sha256(
        f"literals and patterns {__version__} {database.platform()}\n{_ORDINARY.read_text()}".encode()
    )
    for rule in ruleset.rules:
        total.update(repr((rule.caseless, rule.patterns)).encode())
    total.update(repr([dialect.literal for dialect in ruleset.dialects]).encode())
    return total.hexdigest()


def _overflow(
    rules: list[int], ends: list[int], unlisted: dict[int, int], last_unlisted: dict[int, int]
) -> Callable[[int, int], None]:
    """What to do with hits beyond KEEP: list a few more of each rule, count the rest exactly."""
    listed: dict[int, int] = {}

    def add(rule: int, end: int) -> None:
        if listed.get(rule, 0) < KEEP_PER_RULE:
            listed[rule] = listed.get(rule, 0) + 1
            rules.append(rule)
            ends.append(end)
        elif last_unlisted.get(rule) != end:
            unlisted[rule] = unlisted.get(rule, 0) + 1
            last_unlisted[rule] = end

    return add
