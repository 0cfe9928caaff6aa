"""One test per rule and step dialect of the built-in packs: its samples do what they say."""

from __future__ import annotations

import re
import time

import pytest

from slurm_triage.model.rule import RuleSet
from slurm_triage.model.template import fill
from slurm_triage.report.redact import redact_text
from slurm_triage.rules.lint import dialect_problems, lint, sample_problems
from slurm_triage.rules.load import PACKS_DIR, load_rules
from slurm_triage.rules.match_text import explain_text
from slurm_triage.rules.matcher import Matcher
from slurm_triage.rules.select import expression

RULES = load_rules(site_dirs=[], samples=True)


@pytest.fixture(scope="module")
def matcher() -> Matcher:
    return Matcher.load(RULES)


@pytest.mark.parametrize("rule", RULES.rules, ids=lambda r: r.id)
def test_rule(rule, matcher: Matcher) -> None:
    """Matching samples show this rule, and no rule of another class takes their line; rejecting samples do not."""
    assert rule.samples_match
    assert rule.samples_reject
    assert list(sample_problems(rule, RULES, matcher)) == []


@pytest.mark.parametrize("dialect", RULES.dialects, ids=lambda d: d.id)
def test_dialect(dialect, matcher: Matcher) -> None:
    assert dialect.samples_match
    assert dialect.samples_reject
    assert list(dialect_problems(dialect)) == []
    index = RULES.dialects.index(dialect)
    for sample in dialect.samples_match:
        assert index in matcher.scan(sample.encode()).dialects
        assert re.search(dialect.pattern, sample)["step"].isdigit()


def test_packs_are_without_problems() -> None:
    assert [str(p) for p in lint([PACKS_DIR])] == []


def test_every_class_has_a_rule_or_is_found_without_text() -> None:
    """Classes that no line shows are decided by the diagnosis; all others need a rule."""
    silent = {
        "hang",
        "unknown-death",
        "soft-success",
        "incomplete-success",
        "tgs-degradation",
        "prolog-kill-no-log",
        "node-fail",
        "stage-fail",
        "cancelled",
        "restore-straggler",
    }
    with_rules = {rule.cls for rule in RULES.rules}
    assert {cls.id for cls in RULES.classes} - with_rules - silent == set()


def hostile_bodies(ruleset: RuleSet, own: tuple[str, ...]) -> list[str]:
    """Lines of the greatest length that reach a rule, made of what its expressions wait for."""
    fragments = {"a", "0", " ", "a ", "1,", "(", '"', "/a", "error: ", ruleset.digest[:9]}
    for sample in own:
        line = sample.split("\n")[0]
        fragments |= {line, line[: len(line) // 2], line[len(line) // 2 :], line.split()[0] if line.split() else "x"}
    return [(fragment * (4096 // len(fragment) + 1))[:4096] for fragment in fragments if fragment]


@pytest.mark.parametrize("rule", RULES.rules, ids=lambda r: r.id)
def test_expressions_stand_hostile_lines(rule) -> None:
    """On the longest line every expression costs at most what grows with the square of the length: four times a line
    may cost sixteen times as much (up to 20 measured), and sixty-four times would be cubic."""
    for pattern in (*rule.verify, *rule.unless, *rule.extract):
        compiled = expression(pattern)
        for body in hostile_bodies(RULES, (*rule.samples_match, *rule.samples_reject)):
            assert cost_ns(compiled, body) < 40 * cost_ns(compiled, body[: len(body) // 4]), (pattern, body[:80])


def cost_ns(compiled: re.Pattern[str], body: str) -> int:
    """The best of three searches; what is too short to be measured counts as 20 us."""

    def once() -> int:
        start = time.process_time_ns()
        compiled.search(body)
        return time.process_time_ns() - start

    return max(20_000, min(once() for _ in range(3)))


FAILURES = [rule for rule in RULES.rules if rule.cls not in {"fact", "harmless"}]
CLASSES = {cls.id: cls for cls in RULES.classes}


def test_a_rule_that_contradicts_its_class_has_steps_of_its_own() -> None:
    """The steps of a class fit its own advice on running again: "fix it first" and "just run it again" need others."""
    silent = [r.id for r in FAILURES if r.role == "root" and r.retry != CLASSES[r.cls].retry and not r.next_steps]
    assert silent == []


def test_no_advice_about_nccl_for_other_libraries() -> None:
    other = re.compile(r"\b(ucx|verbs|mpi|horovod|gloo|rdma-connect|completion-queue)\b")
    rules = [r for r in FAILURES if other.search(r.id) and r.cls in {"nccl-timeout", "hang"}]
    assert {"ucx-transport-error", "mpi-network-error", "horovod-stalled"} <= {r.id for r in rules}
    assert [r.id for r in rules if not r.next_steps or "NCCL_DEBUG" in " ".join(r.next_steps)] == []


@pytest.mark.parametrize("rule", FAILURES, ids=lambda r: r.id)
def test_titles_are_neither_holed_nor_redacted(rule, matcher: Matcher) -> None:
    """A title is our own sentence: it looks like no secret, and a capture that is missing leaves no "?" behind."""
    assert "?" not in fill(rule.title, {})
    shown = (m for s in rule.samples_match for m in explain_text(s.encode(), RULES, matcher) if m.rule.id == rule.id)
    for title in (fill(rule.title, {}), *(fill(rule.title, m.captures) for m in shown)):
        assert redact_text(title) == title
