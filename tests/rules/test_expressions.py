"""What lint says about expressions."""

from __future__ import annotations

import re
import time

import pytest

from slurm_triage.rules.expressions import pattern_problems, python_problem

GOOD_PATTERNS = [
    "RESOURCE_EXHAUSTED: Out of memory",
    r"NODE_EXIT host=[^ \n]* exit=[0-9]",
    "(Preflight|Docker pull) (TIMEOUT|FAILED)",
    r"\bKilled\b",
    "error.{0,80}timeout",
    r"error.{0,80}timeout[^\n]*after .{0,8}s",
    r"srun: error: [\w,-]+: tasks?",
    r"exit — failed",
    r"(?:abc|abd)ef",
    "gfx[0-9a-f]{3}",
    "unhealthy tasks?",
]

BAD_PATTERNS = [
    ("^Killed", "^ and $ do not work here"),
    ("Killed$", "^ and $ do not work here"),
    (r"\AKilled", "^ and $ do not work here"),
    ("error[^:]*timeout", "can match a newline"),
    (r"error\s+timeout", "can match a newline"),
    (r"error\W+timeout", "can match a newline"),
    (r"error\Dtimeout", "can match a newline"),
    (r"error[\s:]timeout", "can match a newline"),
    (r"error[\x00-\x1f]timeout", "can match a newline"),
    (r"error\ntimeout", "can match a newline"),
    ("(?s)error.timeout", "inline flags"),
    ("(?m)error timeout", "inline flags"),
    ("(?i)error timeout", "caseless = true"),
    ("error [—-] timeout", "non-ASCII"),
    ("error code [0-9]+", "ends in a repeat"),
    ("error.*", "ends in a repeat"),
    ("error( code [0-9]{1,4})", "ends in a repeat"),
    ("error(s?|: x+)", "ends in a repeat"),
    (r"error.{1,60} at [^\n]{0,90}line", "two bounded repeats"),
    ("error (", "not a plain expression"),
    ("error[[:digit:]]", "not a plain expression"),
]


@pytest.mark.parametrize("pattern", GOOD_PATTERNS)
def test_good_patterns(pattern: str) -> None:
    assert pattern_problems(pattern) == []


@pytest.mark.parametrize("pattern, message", BAD_PATTERNS)
def test_bad_patterns(pattern: str, message: str) -> None:
    assert [p for p in pattern_problems(pattern) if message in p]


GOOD_EXPRESSIONS = [
    r"^Killed$",
    r"(?P<ranks>\d{1,6}(?:,\d+)*)",
    r"\b(?:\d+,)*\d+$",
    r"\b(?P<code>\d+) bytes",
    r"(?P<all>.*)",
    r"^(?P<node>[\w.-]+): tasks? (?P<ranks>[\d,-]+): .*",
    r"a.*b.*c",
    r"y(?:foo|bar)+x",
    r"(?:a+)?b",
    r'"[^"]*", "[^"]*", "[^"]*"',
    r"(.{0,200})x(.{0,20})y.*",
]


@pytest.mark.parametrize("pattern", GOOD_EXPRESSIONS)
def test_good_expressions(pattern: str) -> None:
    assert python_problem(pattern) is None


BAD_EXPRESSIONS = [
    (r"(a+)+b", "exponential"),
    (r"(?:\w+\s*)*:", "exponential"),
    (r"(?:.*,)*x", "exponential"),
    (r"((x|y)+z?)*q", "exponential"),
    (r"a.*b.*c.*d", "cubic"),
    (r"(?:a.*b|c).*d(?:.*e)", "cubic"),
    (r"\d+ bytes", "unbounded repeat at the beginning"),
    (r"(?P<path>\S+): Permission denied", "unbounded repeat at the beginning"),
    (r"(?P<cause>\w+ of) it", "unbounded repeat at the beginning"),
    (r"(?:x)?[a-z]*z", "unbounded repeat at the beginning"),
    (r"fine|\d+ bytes", "unbounded repeat at the beginning"),
    (r"(unclosed", "not a valid Python expression"),
    (r"(?P<n>x)(?P<n>y)", "not a valid Python expression"),
]


@pytest.mark.parametrize("pattern, message", BAD_EXPRESSIONS)
def test_bad_expressions(pattern: str, message: str) -> None:
    assert message in (python_problem(pattern) or "")


def test_the_exponential_warning_is_not_a_fancy() -> None:
    """What is refused really explodes with the line's length, what is accepted does not: growth, not seconds."""
    refused = growth(r"(?:\w+\s*)*:", "a" * 12, "a" * 20)
    accepted = growth(r"(?:\d+,)*\d+:", "1," * 500, "1," * 1000)
    assert refused > 50
    assert accepted < 20


def growth(pattern: str, short: str, long: str) -> float:
    """How many times longer the search in ``long`` takes, each the best of five."""
    expression = re.compile(pattern)

    def best(text: str) -> float:
        times = []
        for _ in range(5):
            start = time.process_time_ns()
            assert expression.search(text) is None
            times.append(time.process_time_ns() - start)
        return max(1, min(times))

    return best(long) / best(short)
