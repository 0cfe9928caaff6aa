"""Searching literals first and patterns only in their lines finds exactly what searching all patterns everywhere does."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.logs.windows import WINDOW_BYTES
from slurm_triage.model.rule import Rule, RuleSet, StepDialect
from slurm_triage.rules import matcher as matcher_module
from slurm_triage.rules.load import load_rules
from slurm_triage.rules.matcher import Matcher
from slurm_triage.rules.required import clauses, cover

#: The built-in packs are compiled twice for these: on one worker.
pytestmark = pytest.mark.xdist_group("matcher-stages")

TESTS = Path(__file__).resolve().parents[1]
BUILTIN = load_rules(site_dirs=[], samples=True)
SAMPLES = [text for rule in BUILTIN.rules for text in (*rule.samples_match, *rule.samples_reject)]


@pytest.fixture(autouse=True, scope="module")
def _literals_first() -> Iterator[None]:
    """In short texts, and in those full of literals, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matcher_module, "_SMALL_BYTES", 0)
        patch.setattr(matcher_module, "_LITERAL_BYTES", 1)
        yield


class Both:
    """The two ways to search, side by side."""

    def __init__(self, ruleset: RuleSet) -> None:
        self.literals_first = Matcher.compile(ruleset)
        self.everywhere = Matcher.compile(ruleset, literals=False)

    def agree(self, data: bytes) -> None:
        assert self.literals_first.scan(data) == self.everywhere.scan(data)


@pytest.fixture(scope="module")
def builtin() -> Both:
    return Both(BUILTIN)


def both(*patterns: str, caseless: bool = False) -> Both:
    return Both(
        RuleSet(
            tuple(Rule(f"r{i}", "harmless", "R", (p,), caseless=caseless) for i, p in enumerate(patterns)), (), (), ""
        )
    )


def test_every_sample_of_every_rule(builtin: Both) -> None:
    for rule in BUILTIN.rules:
        for text in (*rule.samples_match, *rule.samples_reject):
            builtin.agree(text.encode())
        for text in rule.samples_match:
            found = {BUILTIN.rules[index].id for index in builtin.literals_first.scan(text.encode()).rules}
            assert rule.id in found or not rule.patterns, text


def _logs() -> Iterator[Path]:
    for room in ("corpus", "healthy"):
        yield from (path for path in sorted((TESTS / room).rglob("*")) if path.is_file())


def test_the_whole_corpus(builtin: Both) -> None:
    scanned = 0
    for path in _logs():
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for start in range(0, len(data), WINDOW_BYTES):
            builtin.agree(data[start : start + WINDOW_BYTES])
        scanned += len(data)
    assert scanned > 10 << 20


#: What rules are made of, torn into pieces, between words that are in no rule.
_PIECE = st.one_of(
    st.sampled_from(SAMPLES),
    st.tuples(st.sampled_from(SAMPLES), st.integers(0, 200), st.integers(0, 200)).map(
        lambda t: t[0][min(t[1:]) : max(t[1:])]
    ),
    st.sampled_from(
        ["\n", "\n", " ", "\r", "\0", "x", "é", " 3: ", "step 3 loss: ", "NCCL INFO ", "\n" * 40, "y" * 3000]
    ),
)


@settings(max_examples=300, deadline=None)
@given(pieces=st.lists(_PIECE, max_size=30))
def test_made_text(builtin: Both, pieces: list[str]) -> None:
    builtin.agree("".join(pieces).encode())


#: Expressions with what makes a difference to the literals of their matches.
_LITERALS = ["abc", "abcd", "a", "b", "é", "ab c"]
_PATTERN = st.recursive(
    st.sampled_from([*_LITERALS, ".", "[ab]", "[aé]", r"\b", "[^a\\n]", "[0-9]", r"\x20", "(?i:ab)"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
        inner.map(lambda part: f"({part})?"),
        inner.map(lambda part: f"({part}){{1,3}}"),
        inner.map(lambda part: f"({part})*"),
    ),
    max_leaves=8,
)
_TEXT = st.lists(st.sampled_from([*_LITERALS, "B", "0", " ", "\n", "AB"]), max_size=12).map("".join)


@settings(max_examples=400, deadline=None)
@given(
    patterns=st.lists(_PATTERN, min_size=1, max_size=3),
    caseless=st.booleans(),
    texts=st.lists(_TEXT, min_size=1, max_size=6),
)
def test_made_patterns(patterns: list[str], caseless: bool, texts: list[str]) -> None:
    usable = [p for p in patterns if matcher_module.compile_error(p, caseless) is None]
    if usable:
        ways = both(*usable, caseless=caseless)
        ways.agree("\n".join(texts).encode())


@settings(max_examples=400, deadline=None)
@given(pattern=_PATTERN, text=_TEXT)
def test_a_match_contains_a_text_of_every_clause(pattern: str, text: str) -> None:
    found = re.compile(pattern).search(text)
    for clause in clauses(pattern) if found is not None else ():
        assert any(part in found[0] for part in clause)


@pytest.mark.parametrize(
    "pattern, expected",
    [
        ("abc", [{"abc"}]),
        (r"\bab c\b", [{"ab c"}]),
        ("abc[0-9]+def", [{"abc"}, {"def"}]),
        ("(abc|xyz) def", [{"abc def", "xyz def"}]),
        ("(abc|x[0-9]+yzw)def", [{"abc", "yzw"}, {"def"}]),
        ("(abc|[0-9])", []),
        ("[Cc]onn(ect)? lost", [{"Conn lost", "conn lost", "Connect lost", "connect lost"}]),
        ("(abc){2}", [{"abc"}]),
        ("(abc)*def", [{"def"}]),
        ("abé", [{"abé"}]),
        ("ab[cé]def", [{"def"}]),
        ("(?i:abc)def", [{"def"}]),
    ],
)
def test_clauses(pattern: str, expected: list[set[str]]) -> None:
    assert clauses(pattern) == [frozenset(clause) for clause in expected]


#: A match depends on more than a literal in its own line, or on what hyperscan makes of the expression.
EVERYWHERE = [
    "ab",
    "[0-9]{3}",
    "abc[^x]def",
    r"abc\ndef",
    "^abc",
    "abc$",
    "(?i)abc",
    "(?i:abc)",
    "(?s)abc.def",
    "[[:digit:]]abc",
]


@pytest.mark.parametrize("pattern", EVERYWHERE)
def test_a_pattern_that_tells_no_literal_is_searched_everywhere(pattern: str) -> None:
    assert clauses(pattern) == []
    ways = both(pattern, "needle")
    for text in (b"abc\ndef", b"ABC", b"abc", b"1abc", b"123", b"abc needle\nxabc", b"needle\nabcx"):
        ways.agree(text)


def test_no_rule_of_the_packs_is_searched_everywhere() -> None:
    assert [(rule.id, p) for rule in BUILTIN.rules for p in rule.patterns if not clauses(p)] == []


def test_literals_cover_all_and_stay_out_of_ordinary_lines() -> None:
    patterns = [[frozenset({"cannot open file"})], [frozenset({"loss: ", "gain: "}), frozenset({"nan", "inf"})]]
    chosen = cover([*patterns, [frozenset({"will not open file"})]], "step 3 loss: 0.1 open files")
    assert "nan" in chosen
    assert "inf" in chosen
    # One literal serves both, and none of those that ordinary lines contain.
    assert len(chosen) == 3
    assert not any(text in "step 3 loss: 0.1 open files" for text in chosen)


def test_every_clause_of_the_packs_is_covered() -> None:
    patterns = [clauses(p) for rule in BUILTIN.rules for p in rule.patterns]
    chosen = cover(patterns, "")
    assert all(any(all(any(c in text for c in chosen) for text in clause) for clause in found) for found in patterns)


@pytest.mark.parametrize("distance", [0, 1, 100, 2_047, 2_048, 2_049, 10_000])
@pytest.mark.parametrize("count", [1, 2, 50])
def test_lines_near_and_far(distance: int, count: int) -> None:
    unit = b"x" * distance + b"\na gizmo melted, a gizmo exploded\n" + b"y" * distance
    both(r"gizmo (melted|exploded)\b", r"\bmelted[^\n]*exploded", "absent").agree(unit * count)


@pytest.mark.parametrize("lines", [100, matcher_module.KEEP + 100])
def test_storms(lines: int) -> None:
    both("gizmo [0-9]", "needle").agree(b"gizmo 3 gizmo\n" * lines + b"needle\n" + b"gizmo 4\n" * 100)


def test_a_log_full_of_literals_is_searched_without_them_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matcher_module, "_LITERAL_BYTES", 8_192)
    ways = both("gizmo [0-9]", "needle")
    rare, dense = b"x" * 100_000 + b"\ngizmo 3 needle\n", b"gizmo gizmo gizmo 3\n" * 10_000
    ways.agree(rare)
    assert not ways.literals_first._scans_without
    ways.agree(dense)
    for left in range(matcher_module._SCANS_WITHOUT, 0, -1):
        assert ways.literals_first._scans_without == left
        ways.agree(rare if left % 2 else dense)
    ways.agree(rare)
    assert not ways.literals_first._scans_without


def test_dialects_are_seen_in_lines_without_a_literal() -> None:
    ruleset = RuleSet(
        (Rule("r", "harmless", "R", ("needle",)),), (StepDialect("d", "step ", r"step (?P<step>\d+)", "x/s"),), (), ""
    )
    assert Matcher.compile(ruleset).scan(b"needle\nstep 1\n").dialects == {0}
    assert Matcher.compile(ruleset).scan(b"needle\n").dialects == frozenset()


def test_only_the_named_part_is_searched() -> None:
    ways = both("abc", "def")
    for end in range(12):
        assert ways.literals_first.scan(bytearray(b"abc\nxdef\nabc"), end) == ways.literals_first.scan(
            b"abc\nxdef\nabc"[:end]
        )


@pytest.mark.parametrize("pattern, has_literals", [("gizmo [0-9]", True), ("[0-9]x", False)])
def test_the_cache_keeps_whatever_there_is(pattern: str, has_literals: bool) -> None:
    ruleset = RuleSet((Rule("r", "harmless", "R", (pattern,)), Rule("n", "harmless", "N", ("needle",))), (), (), "")
    stored, loaded = Matcher.load(ruleset), Matcher.load(ruleset)
    assert (stored.cache_state.kind, loaded.cache_state.kind) == ("stored", "loaded")
    text = b"gizmo 3\n\nneedle 4x gizmo 5\n"
    for matcher in (stored, loaded):
        assert (matcher._literals is not None) == has_literals
        assert matcher.scan(text) == Matcher.compile(ruleset, literals=False).scan(text)
