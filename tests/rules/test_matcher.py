"""The matcher against a naive implementation, floods, hostile input, errors."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.errors import RuleError, TriageError
from slurm_triage.model.rule import Rule, RuleSet, StepDialect
from slurm_triage.rules import matcher as matcher_module
from slurm_triage.rules.load import load_rules
from slurm_triage.rules.matcher import KEEP, KEEP_PER_RULE, Matcher


def rules_of(*patterns: str, caseless: bool = False, literals: tuple[str, ...] = ()) -> RuleSet:
    return RuleSet(
        tuple(Rule(f"r{i}", "harmless", "R", (p,), caseless=caseless) for i, p in enumerate(patterns)),
        tuple(StepDialect(f"d{i}", text, text + r"(?P<step>\d+)", "x/s") for i, text in enumerate(literals)),
        (),
        "",
    )


_LITERAL = st.text("abc", min_size=2, max_size=3)
_PIECE = st.one_of(
    _LITERAL,
    st.sampled_from([".", "[ab]", r"[^a\n]", "a?", "b{1,2}", ".{0,3}", r"[^\n]*", "[0-9]+", r"\.", r"\x20"]),
    st.tuples(_LITERAL, _LITERAL).map(lambda two: f"({two[0]}|{two[1]})"),
)
_PATTERN = st.tuples(_LITERAL, st.lists(_PIECE, max_size=3), _LITERAL).map(lambda p: p[0] + "".join(p[1]) + p[2])
_TEXT = st.text("abcAB01. \n", max_size=40)


def naive(ruleset: RuleSet, data: bytes) -> list[tuple[int, int]]:
    """(end, rule) of every match: each expression tried on each piece of the text."""
    found = set()
    for index, rule in enumerate(ruleset.rules):
        for pattern in rule.patterns:
            compiled = re.compile(pattern.encode(), re.IGNORECASE if rule.caseless else 0)
            found |= {
                (end, index)
                for start in range(len(data))
                for end in range(start + 1, len(data) + 1)
                if compiled.fullmatch(data, start, end)
            }
    return sorted(found)


@settings(max_examples=150, deadline=None)
@given(
    patterns=st.lists(st.lists(_PATTERN, min_size=1, max_size=3), min_size=1, max_size=4),
    caseless=st.booleans(),
    texts=st.lists(_TEXT, min_size=1, max_size=4),
)
def test_same_as_the_naive_way(patterns: list[list[str]], caseless: bool, texts: list[str]) -> None:
    ruleset = RuleSet(
        tuple(Rule(f"r{i}", "harmless", "R", tuple(p), caseless=caseless) for i, p in enumerate(patterns)), (), (), ""
    )
    matcher = Matcher.compile(ruleset)
    for text in texts:
        data = text.encode()
        hits = matcher.scan(data)
        assert list(zip(hits.ends, hits.rules, strict=True)) == naive(ruleset, data)
        assert not hits.unlisted


@given(data=st.binary(max_size=300))
@settings(deadline=None)
def test_any_bytes_of_any_type_of_buffer(data: bytes) -> None:
    matcher = Matcher.compile(rules_of("abc", "[0-9][a-f]x", literals=("step ",)))
    hits = matcher.scan(data)
    assert matcher.scan(bytearray(data)) == matcher.scan(memoryview(data)) == hits


def test_non_ascii_patterns_match_bytes() -> None:
    hits = Matcher.compile(rules_of("exit — failed")).scan("0: exit — failed".encode())
    assert hits.ends == [len("0: exit — failed".encode())]


def test_no_match_goes_over_a_line_end() -> None:
    assert Matcher.compile(rules_of("alpha.{0,9}omega", r"alpha[^\n]*omega")).scan(b"alpha\nomega").rules == []


def test_repeats_are_dropped() -> None:
    ruleset = RuleSet((Rule("r", "harmless", "R", ("gizmo", "a gizmo", "o")),), (), (), "")
    hits = Matcher.compile(ruleset).scan(b"a gizmo")
    assert (hits.rules, hits.ends) == ([0], [7])


def test_dialects_are_reported_once_and_apart_from_rules() -> None:
    ruleset = rules_of("boom", literals=("completed step: ", "iteration. (", "absent"))
    data = b"completed step: 1\nboom\niteration. (2)\niterationX (2)\n" + b"completed step: 1\n" * 1000
    hits = Matcher.compile(ruleset).scan(data)
    assert (hits.rules, hits.ends, hits.dialects) == ([0], [22], {0, 1})


def test_no_rules_no_database(cache_dir: Path) -> None:
    empty = RuleSet((), (), (), "")
    assert Matcher.load(empty).scan(b"anything") == matcher_module.NO_HITS
    assert Matcher.compile(empty).scan(b"anything") == matcher_module.NO_HITS
    assert list(cache_dir.iterdir()) == []


def test_a_flood_is_counted_exactly_and_hides_nothing() -> None:
    ruleset = rules_of("storm", "needle", literals=("step ",))
    storm = b"storm\n" * (KEEP + 5000)
    data = storm + b"needle\nstep 1\n" + storm
    hits = Matcher.compile(ruleset).scan(data)
    listed = [end for rule, end in zip(hits.rules, hits.ends, strict=True) if rule == 0]
    assert len(listed) == KEEP + KEEP_PER_RULE
    assert hits.unlisted == {0: 2 * (KEEP + 5000) - KEEP - KEEP_PER_RULE}
    assert hits.last_unlisted == {0: len(data) - 1}
    assert [end for rule, end in zip(hits.rules, hits.ends, strict=True) if rule == 1] == [len(storm) + 6]
    assert hits.dialects == {0}
    assert hits.ends == sorted(hits.ends)


def test_more_than_hyperscan_can_count_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matcher_module, "MAX_SCAN_BYTES", 10)
    with pytest.raises(ValueError, match="11 bytes are more than one scan takes"):
        Matcher.compile(rules_of("abc")).scan(b"x" * 11)


def test_a_pattern_that_does_not_compile_is_named() -> None:
    with pytest.raises(RuleError, match=r"rule r1 .*pattern 'ab\(\?=c\)': Zero-width assertions are not supported"):
        Matcher.load(rules_of("fine", "ab(?=c)", "fine too"))


def test_a_machine_without_hyperscan_gets_a_clear_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hyperscan", None)
    with pytest.raises(TriageError, match="hyperscan library does not load on this machine"):
        Matcher.load(rules_of("abc"))


HOSTILE = [
    b"RESOURCE_EXHAUSTED: ",
    b"0",
    b"\n",
    b"a b ",
    b"== Training ",
    b"\xff\xfe\0",
    b"Error: ",
    b"((((",
    b"step 1 ",
]


@pytest.fixture(scope="module")
def builtin() -> Matcher:
    return Matcher.load(load_rules(site_dirs=[], samples=True))


@pytest.mark.parametrize("unit", HOSTILE)
def test_time_is_linear_on_hostile_input(builtin: Matcher, unit: bytes) -> None:
    """The built-in packs on 1 and 8 MiB of repeated bait: eight times the text, not more than thrice that in time."""

    def seconds(size: int) -> float:
        data = (unit * (size // len(unit) + 1))[:size]
        best = 9e9
        for _ in range(3):
            start = time.process_time()
            builtin.scan(data)
            best = min(best, time.process_time() - start)
        return best

    small = max(seconds(1 << 20), 0.002)
    assert seconds(8 << 20) < 24 * small
