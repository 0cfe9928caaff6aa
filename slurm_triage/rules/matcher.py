"""All patterns of all rules in one hyperscan database: finds in one linear pass which rules match where."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from slurm_triage.errors import RuleError, TriageError
from slurm_triage.model.rule import RuleSet
from slurm_triage.rules import cache
from slurm_triage.rules.cache import CacheState

#: Callbacks of one scan that are kept one by one. A window of 8 MiB of ordinary log gives some hundreds; a flood (an
#: error storm of thousands of lines a second) gives more than anybody reads.
KEEP = 20_000

#: Beyond KEEP, each rule may still place this many: a storm of one rule must not hide the first match of another.
KEEP_PER_RULE = 64

#: ``srun -l`` cuts lines after 1024 bytes. Found in the same pass: as one more pattern that reports once it costs
#: nothing measurable, while looking from newline to newline takes a third of the scan's time.
LONG_LINE_BYTES = 1024

#: hyperscan takes lengths as 32-bit numbers.
MAX_SCAN_BYTES = 2**32 - 1

#: Processor features that decide which database hyperscan builds.
_CPU_FEATURES = frozenset({"avx2", "avx512bw", "avx512vbmi", "bmi2", "asimd", "sve", "sve2"})


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
    has_long_line: bool = False
    """Some line has more than LONG_LINE_BYTES: it may be one that a launcher cut (logs/wrapped.py)."""


NO_HITS = Hits([], [], frozenset())


class Matcher:
    """``cache_state`` says what became of the cached database (for ``doctor``)."""

    __slots__ = ("_database", "_dialect_count", "_rule_count", "cache_state")

    def __init__(self, database: Any, ruleset: RuleSet, cache_state: CacheState) -> None:
        self._database = database
        self._rule_count = len(ruleset.rules)
        self._dialect_count = len(ruleset.dialects)
        self.cache_state = cache_state

    @classmethod
    def load(cls, ruleset: RuleSet, cache_dir: Path | None = None) -> Matcher:
        """From the cache, or compiled and stored there. Raises RuleError for a pattern hyperscan rejects, TriageError
        where there is no hyperscan."""
        hyperscan = _hyperscan()
        expressions, ids, flags = _expressions(ruleset, hyperscan)
        if not expressions:
            return cls(None, ruleset, CacheState("loaded", "no patterns, nothing to cache"))
        key = _cache_key(expressions, ids, flags, hyperscan.__version__)
        name = f"patterns-{key[:24]}"
        directory = cache_dir or cache.write_dir()
        payload, source = cache.load(name, key, directory)
        database = _restore(hyperscan, payload)
        if database is not None:
            return cls(database, ruleset, CacheState("loaded", source))
        database = _compile(hyperscan, ruleset, expressions, ids, flags)
        state = cache.store(name, key, hyperscan.dumpb(database), directory)
        return cls(database, ruleset, state)

    @classmethod
    def compile(cls, ruleset: RuleSet) -> Matcher:
        """The same without any cache."""
        hyperscan = _hyperscan()
        expressions, ids, flags = _expressions(ruleset, hyperscan)
        database = _compile(hyperscan, ruleset, expressions, ids, flags) if expressions else None
        return cls(database, ruleset, CacheState("unusable", "not asked for"))

    def scan(self, data: bytes | bytearray | memoryview) -> Hits:
        """One pass over ``data`` (at most MAX_SCAN_BYTES). Not to be called from two threads at once."""
        if self._database is None or not len(data):
            return NO_HITS
        if len(data) > MAX_SCAN_BYTES:
            raise ValueError(f"{len(data)} bytes are more than one scan takes ({MAX_SCAN_BYTES})")
        rules: list[int] = []
        ends: list[int] = []
        unlisted: dict[int, int] = {}
        last_unlisted: dict[int, int] = {}
        add_rule, add_end = rules.append, ends.append
        overflow = _overflow(rules, ends, unlisted, last_unlisted)

        def on_match(rule: int, _start: int, end: int, _flags: int, _context: object) -> None:
            if len(ends) < KEEP:
                add_rule(rule)
                add_end(end)
            else:
                overflow(rule, end)

        self._database.scan(data, match_event_handler=on_match)
        return _tidy(rules, ends, self._rule_count, self._dialect_count, unlisted, last_unlisted)


@lru_cache(maxsize=4096)
def compile_error(pattern: str, caseless: bool = False) -> str | None:
    """Why hyperscan rejects one pattern, or None."""
    hyperscan = _hyperscan()
    flag = hyperscan.HS_FLAG_CASELESS if caseless else 0
    try:
        _database(hyperscan, [pattern.encode()], [0], [flag])
    except hyperscan.error as error:
        return str(error).rstrip(".")
    return None


def _hyperscan() -> Any:
    try:
        import hyperscan
    except ImportError as error:
        machine = os.uname().machine
        raise TriageError(
            f"the hyperscan library does not load on this machine ({machine}: {error}); "
            "install it with: pip install hyperscan (x86_64 and aarch64 Linux)"
        ) from error
    return hyperscan


def _expressions(ruleset: RuleSet, hyperscan: Any) -> tuple[list[bytes], list[int], list[int]]:
    """Patterns with their ids and flags. A rule's patterns share its index; dialects follow behind the rules.

    A dialect's literal stands in almost every line, hence one callback per scan is enough (SINGLEMATCH).
    """
    expressions: list[bytes] = []
    ids: list[int] = []
    flags: list[int] = []
    for index, rule in enumerate(ruleset.rules):
        flag = hyperscan.HS_FLAG_CASELESS if rule.caseless else 0
        for pattern in rule.patterns:
            expressions.append(pattern.encode())
            ids.append(index)
            flags.append(flag)
    for index, dialect in enumerate(ruleset.dialects, len(ruleset.rules)):
        expressions.append(b"".join(b"\\x%02x" % byte for byte in dialect.literal.encode()))
        ids.append(index)
        flags.append(hyperscan.HS_FLAG_SINGLEMATCH)
    if expressions:
        expressions.append(b"[^\\n]{%d}" % LONG_LINE_BYTES)
        ids.append(len(ruleset.rules) + len(ruleset.dialects))
        flags.append(hyperscan.HS_FLAG_SINGLEMATCH)
    return expressions, ids, flags


def _database(hyperscan: Any, expressions: list[bytes], ids: list[int], flags: list[int]) -> Any:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(expressions=expressions, ids=ids, elements=len(expressions), flags=flags)
    return database


def _compile(hyperscan: Any, ruleset: RuleSet, expressions: list[bytes], ids: list[int], flags: list[int]) -> Any:
    try:
        return _database(hyperscan, expressions, ids, flags)
    except hyperscan.error as error:
        # The library does not say which expression it was: look for it.
        for rule in ruleset.rules:
            for pattern in rule.patterns:
                why = compile_error(pattern, rule.caseless)
                if why is not None:
                    raise RuleError(f"rule {rule.id} ({rule.pack}): pattern {pattern!r}: {why}") from error
        raise RuleError(f"the patterns do not compile together: {error}") from error


def _restore(hyperscan: Any, payload: bytes | None) -> Any:
    """The database, or None when it does not fit this processor or this library."""
    if payload is None:
        return None
    try:
        database = hyperscan.loadb(payload, hyperscan.HS_MODE_BLOCK)
        # loadb leaves the scratch space out; scanning without one crashes.
        database.scratch = hyperscan.Scratch(database)
    except hyperscan.error:
        return None
    return database


def _cache_key(expressions: Sequence[bytes], ids: Sequence[int], flags: Sequence[int], version: str) -> str:
    total = hashlib.sha256(f"{version} {os.uname().machine} {_cpu_features()}\n".encode())
    for expression, number, flag in zip(expressions, ids, flags, strict=True):
        total.update(b"%d %d %d %s\n" % (number, flag, len(expression), expression))
    return total.hexdigest()


def _cpu_features() -> str:
    """Hosts that share a home directory may differ in their processors."""
    try:
        with open("/proc/cpuinfo", "rb") as file:
            # The first processor is enough, and reading hundreds of them costs milliseconds.
            words = set(file.read(4096).decode(errors="replace").split())
    except OSError:
        return "unknown"
    return " ".join(sorted(_CPU_FEATURES & words))


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


def _tidy(
    rules: list[int],
    ends: list[int],
    rule_count: int,
    dialect_count: int,
    unlisted: dict[int, int],
    last_unlisted: dict[int, int],
) -> Hits:
    """Splits dialects off, sorts by offset, drops repeats (two patterns of one rule may end at one place)."""
    others = {rule - rule_count for rule in {*rules, *unlisted} if rule >= rule_count}
    has_long_line = dialect_count in others
    seen_dialects = frozenset(others - {dialect_count})
    pairs = sorted({pair for pair in zip(ends, rules, strict=True) if pair[1] < rule_count})
    return Hits(
        [rule for _, rule in pairs], [end for end, _ in pairs], seen_dialects, unlisted, last_unlisted, has_long_line
    )
