"""Puts packs together: later levels replace earlier entries by id, and every problem keeps its file and line."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from slurm_triage.model.rule import FACT, HARMLESS, FailureClass, Rule, RuleSet, StepDialect
from slurm_triage.rules.packfile import Pack, Problem
from slurm_triage.rules.schema import class_from, dialect_from, rule_from


@dataclass(slots=True)
class Merged:
    """Packs of all levels put together. ``places`` maps ``kind:id`` to where the entry in force stands.

    ``switched_off`` maps the id of a rule that some overlay disabled to the rule.
    """

    rules: dict[str, Rule] = field(default_factory=dict)
    dialects: dict[str, StepDialect] = field(default_factory=dict)
    classes: dict[str, FailureClass] = field(default_factory=dict)
    places: dict[str, tuple[str, int]] = field(default_factory=dict)
    switched_off: dict[str, Rule] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def place(self, kind: str, entry_id: str) -> tuple[str, int]:
        """(file, line) of a rule, dialect or class."""
        return self.places.get(f"{kind}:{entry_id}", ("", 1))

    def ruleset(self, digest: str) -> RuleSet:
        rules = tuple(_with_defaults(rule, self.classes.get(rule.cls)) for rule in self.rules.values())
        return RuleSet(rules, tuple(self.dialects.values()), tuple(self.classes.values()), digest)


def _with_defaults(rule: Rule, cls: FailureClass | None) -> Rule:
    if cls is None or (rule.domain != "unknown" and rule.retry is not None):
        return rule
    domain = cls.domain if rule.domain == "unknown" else rule.domain
    return dataclasses.replace(rule, domain=domain, retry=rule.retry or cls.retry)


def merge(levels: Sequence[Sequence[Pack]], disabled: Collection[str] = ()) -> Merged:
    """Later levels replace earlier entries whole, by id; within one level an id may occur once."""
    merged = Merged()
    for packs in levels:
        _switch_off(merged, [name for pack in packs for name in pack.disabled])
        seen: dict[str, tuple[str, int]] = {}
        for pack in packs:
            merged.problems += pack.problems
            _add_pack(merged, pack, seen)
    _switch_off(merged, disabled)
    known = {FACT, HARMLESS, *merged.classes}
    for rule in merged.rules.values():
        if rule.cls not in known:
            file, line = merged.place("rule", rule.id)
            merged.problems.append(Problem(file, line, rule.id, f"unknown class '{rule.cls}'"))
    return merged


def _switch_off(merged: Merged, names: Iterable[str]) -> None:
    for name in names:
        rule = merged.rules.pop(name, None)
        if rule is not None:
            merged.switched_off[name] = rule
        merged.dialects.pop(name, None)


def _add_pack(merged: Merged, pack: Pack, seen: dict[str, tuple[str, int]]) -> None:
    file = str(pack.path)

    def claim(kind: str, entry_id: str, line: int) -> bool:
        """Notes where an entry stands; False (and a problem) if this level has it already."""
        name = f"{kind}:{entry_id}"
        if name in seen:
            at = "{}:{}".format(*seen[name])
            merged.problems.append(Problem(file, line, entry_id, f"this id is taken by the {kind} at {at}"))
            return False
        seen[name] = merged.places[name] = (file, line)
        return True

    def complain(entry_id: object, line: int, messages: Iterable[str]) -> None:
        name = entry_id if isinstance(entry_id, str) else None
        merged.problems.extend(Problem(file, line, name, message) for message in messages)

    for ordinal, table in enumerate(pack.rules):
        line = pack.line_of("rule", ordinal)
        rule, messages = rule_from(table, pack.name)
        complain(table.get("id"), line, messages)
        if rule is not None and claim("rule", rule.id, line):
            merged.rules[rule.id] = rule
    for ordinal, table in enumerate(pack.dialects):
        line = pack.line_of("dialect", ordinal)
        dialect, messages = dialect_from(table, pack.name)
        complain(table.get("id"), line, messages)
        if dialect is not None and claim("dialect", dialect.id, line):
            merged.dialects[dialect.id] = dialect
    for class_id, table in pack.classes.items():
        line = pack.line_of_class(class_id)
        cls, messages = class_from(class_id, table)
        complain(class_id, line, messages)
        if cls is not None and claim("class", cls.id, line):
            merged.classes[cls.id] = cls
