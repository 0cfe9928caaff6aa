"""Checks packs: shape, expressions, references between rules, and that every sample does what it says."""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import jinja2

from slurm_triage.errors import NotFoundError, RuleError
from slurm_triage.model.rule import FACT, HARMLESS, Rule, RuleSet, StepDialect
from slurm_triage.model.rule_reading import is_last_resort, named_by_frames, stack_frames
from slurm_triage.model.template import UNKNOWN, fill
from slurm_triage.rules.expressions import group_names, literal_prefix_bytes, pattern_problems, python_problem
from slurm_triage.rules.load import PACKS_DIR, PackBytes, overlay_dirs, read_dir
from slurm_triage.rules.match_text import explain_text
from slurm_triage.rules.matcher import Matcher, compile_error
from slurm_triage.rules.merge import Merged, merge
from slurm_triage.rules.packfile import Pack, Problem, parse_pack
from slurm_triage.rules.required import MIN_CHARS, clauses
from slurm_triage.rules.schema import EXPRESSIONS

__all__ = ["Problem", "dialect_problems", "lint", "ordered", "sample_problems"]

#: Not a rule but an event that other rules may name.
STEP_EVENT = "@step"

#: What titles and notes may mention without ``extract``: facts that every match carries.
_ALWAYS_KNOWN = frozenset({"rank", "node", "step", "count"})
_DIALECT_GROUPS = frozenset({"step", "seconds", "rate", "loss", "total", "epoch"})
#: Step lines of a run that has gone wrong: not what fills a log.
_SICK = re.compile(r"\b(nan|inf)\b", re.IGNORECASE)
#: Python's ``re`` skips ahead at memory speed only to a literal at the start of an expression. Two bytes are enough:
#: measured on 80 MiB, `%|` of progress bars 1.2 GB/s, `completed step:` 1.1 GB/s, without a literal 19 MB/s.
_DIALECT_PREFIX_BYTES = 2
HotLine = tuple[str, str]
_SYNTAX_PLACE = re.compile(r"^(?P<file>.*?):(?P<line>\d+): (?P<message>.*)$", re.DOTALL)


def lint(paths: Sequence[Path] = ()) -> list[Problem]:
    """Problems of the named files and directories, judged together with the packs in force.

    Without paths: of the built-in packs and the overlays. A path that is one of the packs in force takes its place;
    any other counts as an overlay. Raises NotFoundError if a path does not exist or cannot be read.
    """
    levels = [read_dir(PACKS_DIR), *(read_dir(d) for d in overlay_dirs())]
    if not paths:
        asked = {path for level in levels for path, _ in level}
    else:
        named = [pack for path in paths for pack in _packs_of(path)]
        asked = {path for path, _ in named}
        resolved = {path.resolve() for path, _ in named}
        in_force = {path.resolve() for level in levels for path, _ in level}
        builtin = [pack for pack in named if pack[0].resolve() in in_force]
        extra = [pack for pack in named if pack[0].resolve() not in in_force]
        levels = [[pack for pack in level if pack[0].resolve() not in resolved] for level in levels]
        levels[0] = levels[0] + builtin
        levels.append(extra)
    problems: list[Problem] = []
    parsed: list[list[Pack]] = []
    for level in levels:
        packs = []
        for path, raw in level:
            try:
                packs.append(parse_pack(path, raw))
            except RuleError as error:
                problems.append(_syntax_problem(path, error))
        parsed.append(packs)
    merged = merge(parsed)
    wanted = {str(path) for path in asked}
    problems += merged.problems
    problems += _switch_off_problems(parsed, merged)
    for dialect in merged.dialects.values():
        if merged.place("dialect", dialect.id)[0] in wanted:
            problems += _at(merged, "dialect", dialect.id, dialect_problems(dialect))
    for cls in merged.classes.values():
        if merged.place("class", cls.id)[0] in wanted:
            problems += _at(merged, "class", cls.id, _step_problems(cls.next_steps))
    ruleset, matcher = _sound(merged)
    sound = {rule.id for rule in ruleset.rules}
    hot = _hot_lines(merged)
    for rule in merged.rules.values():
        if merged.place("rule", rule.id)[0] in wanted:
            problems += _at(merged, "rule", rule.id, _rule_problems(rule, merged, rule.id in sound, hot))
            if rule.id in sound:
                problems += _at(merged, "rule", rule.id, sample_problems(rule, ruleset, matcher))
    return sorted({p for p in problems if p.file in wanted}, key=lambda p: (p.file, p.line, p.rule or "", p.message))


def _packs_of(path: Path) -> list[PackBytes]:
    if path.is_dir():
        return read_dir(path)
    try:
        return [(path, path.read_bytes())]
    except OSError as error:
        raise NotFoundError(f"cannot read rule file {path}: {error.strerror}") from error


def _syntax_problem(path: Path, error: RuleError) -> Problem:
    found = _SYNTAX_PLACE.match(str(error))
    if found is None:
        return Problem(str(path), 1, None, str(error))
    return Problem(str(path), int(found["line"]), None, found["message"])


def _at(merged: Merged, kind: str, entry_id: str, messages: Iterable[str]) -> Iterator[Problem]:
    """Problems of one entry, with its place."""
    file, line = merged.place(kind, entry_id)
    return (Problem(file, line, entry_id, message) for message in messages)


def _switch_off_problems(parsed: Sequence[Sequence[Pack]], merged: Merged) -> Iterator[Problem]:
    known = {*merged.rules, *merged.dialects, *merged.switched_off}
    for pack in (pack for level in parsed for pack in level):
        for name in pack.disabled:
            if name not in known:
                yield Problem(str(pack.path), pack.line_of_disable(), None, f"[disable] names no rule: '{name}'")


def _rule_problems(rule: Rule, merged: Merged, compiles: bool, hot: Sequence[HotLine]) -> Iterator[str]:
    """What is wrong with a rule by itself, its samples left out. ``compiles``: hyperscan has taken its patterns."""
    known = {*merged.rules, *merged.switched_off}
    for key, names in (("requires", rule.requires), ("absent", rule.absent), ("subsumes", rule.subsumes)):
        yield from (f"{key} names an unknown rule '{name}'" for name in names if name not in known)
    for name in rule.resolved_by:
        if name not in known and name != STEP_EVENT:
            yield f"resolved_by names an unknown rule '{name}' (or {STEP_EVENT})"
    if rule.id in (*rule.requires, *rule.absent, *rule.subsumes):
        yield "names itself in requires, absent or subsumes"
    for pattern in rule.patterns:
        why = None if compiles else compile_error(pattern, rule.caseless)
        messages = [*([] if why is None else [f"hyperscan: {why}"]), *pattern_problems(pattern)]
        yield from (f"pattern '{pattern}': {message}" for message in messages or _literal_messages(pattern, hot))
    for key in EXPRESSIONS:
        expressions: tuple[str, ...] = getattr(rule, key)
        for expression in expressions:
            message = python_problem(expression)
            if message is not None:
                yield f"{key} '{expression}': {message}"
            elif key == "extract" and not group_names(expression):
                yield f"extract '{expression}': has no named group (?P<name>...)"
    produced = _ALWAYS_KNOWN.union(*(group_names(e) for e in rule.extract))
    for key, text in (("title", rule.title), ("note", rule.note or "")):
        yield from (f"{key}: {message}" for message in _placeholder_messages(text, produced))
    yield from _step_problems(rule.next_steps)
    if not rule.references:
        yield "needs to say where its text comes from: references = ['...']"
    if not rule.samples_match:
        yield "needs at least one matching sample: samples.match = ['...']"
    if not rule.samples_reject:
        yield "needs at least one rejecting sample: samples.reject = ['...'], best one that nearly matches"


def _hot_lines(merged: Merged) -> list[HotLine]:
    """Lines that fill a log, with the dialect that prints them."""
    return [
        (sample, dialect.id)
        for dialect in merged.dialects.values()
        for sample in dialect.samples_match
        if not _SICK.search(sample)
    ]


def _literal_messages(pattern: str, lines: Sequence[HotLine]) -> Iterator[str]:
    """The matcher looks at lines with a literal that a match must contain, so there must be one, and a rare one."""
    names = [
        next((name for line, name in lines if any(text in line for text in clause)), None)
        for clause in clauses(pattern)
    ]
    if not names:
        yield f"has no literal of {MIN_CHARS} characters that every match contains; it slows every scan"
    elif None not in names:
        yield f"all that its matches must contain stands in step lines of {names[0]} too; ask for something rarer"


def _placeholder_messages(text: str, produced: Collection[str]) -> Iterator[str]:
    try:
        names = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
    except ValueError as error:
        yield f"{error}; write {{{{ and }}}} for braces"
        return
    for name in (name.partition("|")[0] for name in names):
        if name not in produced:
            yield f"no extract expression produces {{{name}}}"


def _step_problems(steps: Iterable[str]) -> Iterator[str]:
    environment = jinja2.Environment()
    for step in steps:
        try:
            environment.parse(step)
        except jinja2.TemplateSyntaxError as error:
            yield f"next_steps '{step}': {error.message}"


def dialect_problems(dialect: StepDialect) -> Iterator[str]:
    """What is wrong with a step dialect, its samples included."""
    message = python_problem(dialect.pattern)
    if message is not None:
        yield f"pattern: {message}"
        return
    if literal_prefix_bytes(dialect.pattern) < _DIALECT_PREFIX_BYTES:
        yield f"pattern must begin with {_DIALECT_PREFIX_BYTES} plain characters or more: it is searched in whole logs"
    compiled = re.compile(dialect.pattern)
    if "step" not in compiled.groupindex:
        yield "pattern has no group (?P<step>...)"
    yield from (f"pattern: unknown group '{n}'" for n in compiled.groupindex.keys() - _DIALECT_GROUPS)
    if not dialect.samples_match:
        yield "needs at least one matching sample"
    if not dialect.samples_reject:
        yield "needs at least one rejecting sample"
    for sample in dialect.samples_match:
        if dialect.literal not in sample:
            yield f"literal {dialect.literal!r} is not in the matching sample {sample!r}"
        elif compiled.search(sample) is None:
            yield f"does not match its matching sample {sample!r}"
    for sample in dialect.samples_reject:
        if compiled.search(sample) is not None:
            yield f"matches its rejecting sample {sample!r}"


def _sound(merged: Merged) -> tuple[RuleSet, Matcher]:
    """Rules whose expressions are sound; samples of the others cannot be tried, and their faults are reported."""
    rules = [
        rule for rule in merged.rules.values() if all(python_problem(e) is None for e in _python_expressions(rule))
    ]
    try:
        ruleset = RuleSet(tuple(rules), (), (), "")
        return ruleset, Matcher.compile(ruleset)
    except RuleError:
        # One by one only now: it takes ten times as long.
        rules = [rule for rule in rules if all(compile_error(p, rule.caseless) is None for p in rule.patterns)]
        ruleset = RuleSet(tuple(rules), (), (), "")
        return ruleset, Matcher.compile(ruleset)


def _python_expressions(rule: Rule) -> tuple[str, ...]:
    return (*rule.verify, *rule.unless, *rule.extract, *rule.last_resort, *rule.frames)


def _read_elsewhere(rule: Rule, sample: str) -> bool:
    """Does a rule that is not searched in the log show itself in a line, or in the lines of a traceback?"""
    if rule.last_resort:
        return is_last_resort(rule, sample)
    block = sample.split("\n")
    return named_by_frames(rule, stack_frames(block), block[-1])


def sample_problems(rule: Rule, ruleset: RuleSet, matcher: Matcher) -> Iterator[str]:
    """Samples that do not do what they say, and matching samples that a rule of another class claims too."""
    if not rule.patterns:
        yield from (
            f"does not match its matching sample {s!r}" for s in rule.samples_match if not _read_elsewhere(rule, s)
        )
        yield from (f"matches its rejecting sample {s!r}" for s in rule.samples_reject if _read_elsewhere(rule, s))
        return
    for sample in rule.samples_match:
        matches = list(explain_text(sample.encode(), ruleset, matcher))
        own = [m for m in matches if m.rule.id == rule.id]
        first = next((m for m in own if m.rejected is None), None)
        if first is None:
            why = own[0].rejected if own else "no pattern occurs in it"
            yield f"does not match its matching sample {sample!r}: {why}"
            continue
        if UNKNOWN in fill(rule.title, first.captures) and UNKNOWN not in rule.title:
            yield f"title has an '{UNKNOWN}' for {sample!r}: write {{name|text}}, or the placeholder in parentheses"
        for other in matches:
            if other.offset == first.offset and other.rejected is None and not ordered(rule, other.rule):
                yield _order_message(rule, other.rule, sample)
    for sample in rule.samples_reject:
        if any(m.rule.id == rule.id and m.rejected is None for m in explain_text(sample.encode(), ruleset, matcher)):
            yield f"matches its rejecting sample {sample!r}"


def ordered(rule: Rule, other: Rule) -> bool:
    """May ``other`` match a line that shows ``rule``?

    Yes if both mean the same class or one is a fact. Else the reader of a line keeps the matches of the highest
    priority and drops the rest unseen, whatever their conditions; among equals, conditions that exclude each other or
    ``subsumes`` may decide later, but nothing decides between harmless and failure.
    """
    if rule.cls == other.cls or FACT in (rule.cls, other.cls):
        return True
    if rule.priority != other.priority:
        return rule.priority > other.priority
    if HARMLESS in (rule.cls, other.cls):
        return False
    declared = other.id in rule.subsumes or rule.id in other.subsumes
    return declared or _exclusive(rule, other) or _exclusive(other, rule)


def _exclusive(one: Rule, two: Rule) -> bool:
    """Can the two never count at the same place?"""
    if one.before_step is not None and two.after_step is not None and one.before_step <= two.after_step:
        return True
    return bool(set(one.requires) & set(two.absent))


def _order_message(rule: Rule, other: Rule, sample: str) -> str:
    text = f"sample {sample!r} is also matched by {other.id} ({other.cls}): "
    if rule.cls == HARMLESS:
        return text + f"give this rule a priority above {other.priority}, or {other.id} an unless"
    if other.priority > rule.priority:
        return text + f"which wins by its priority {other.priority}; choose a sample that shows this rule's class"
    return text + "declare which wins: a higher priority here, subsumes, or an unless there"
