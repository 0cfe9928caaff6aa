"""Turns the tables of a pack into rules, dialects and classes, and says what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args

from slurm_triage.model.rule import FACT, HARMLESS, Domain, FailureClass, Retry, Role, Rule, StepDialect

T = TypeVar("T")

_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")

_Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) and v for v in value)


def _is_some_texts(value: Any) -> bool:
    return bool(value) and _is_texts(value)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_int(value) and value >= 0


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and _ID.match(value) is not None


def _one_of(literal: Any) -> _Check:
    return lambda value: value in get_args(literal)


def _is_samples(value: Any) -> bool:
    return isinstance(value, dict) and not value.keys() - {"match", "reject"} and all(map(_is_texts, value.values()))


#: key -> (check, what the value must be)
_RULE: Mapping[str, tuple[_Check, str]] = {
    "id": (_is_id, "a kebab-case name"),
    "class": (_is_id, "the name of a class"),
    "title": (_is_text, "a non-empty text"),
    "patterns": (_is_some_texts, "a non-empty list of texts"),
    "domain": (_one_of(Domain), " | ".join(get_args(Domain))),
    "stage": (_is_text, "a non-empty text"),
    "role": (_one_of(Role), " | ".join(get_args(Role))),
    "retry": (_one_of(Retry), " | ".join(get_args(Retry))),
    "caseless": (_is_flag, "true or false"),
    "verify": (_is_texts, "a list of texts"),
    "unless": (_is_texts, "a list of texts"),
    "requires": (_is_texts, "a list of rule ids"),
    "absent": (_is_texts, "a list of rule ids"),
    "before_step": (_is_count, "a step number"),
    "after_step": (_is_count, "a step number"),
    "resolved_by": (_is_texts, "a list of rule ids"),
    "extract": (_is_texts, "a list of texts"),
    "fact": (_is_text, "a non-empty text"),
    "block_lines": (_is_count, "a number of lines"),
    "on_echo": (_is_flag, "true or false"),
    "priority": (_is_int, "a whole number"),
    "guess": (_is_flag, "true or false"),
    "prompt": (_is_flag, "true or false"),
    "last_resort": (_is_some_texts, "a non-empty list of texts"),
    "strong": (_is_flag, "true or false"),
    "vague": (_is_flag, "true or false"),
    "frames": (_is_some_texts, "a non-empty list of texts"),
    "subsumes": (_is_texts, "a list of rule ids"),
    "note": (_is_text, "a non-empty text"),
    "next_steps": (_is_some_texts, "a non-empty list of texts"),
    "references": (_is_texts, "a list of texts"),
    "samples": (_is_samples, "samples.match and samples.reject, lists of texts"),
}
_RULE_REQUIRED = ("id", "class", "title")
#: What a rule looks for, and where.
_SOUGHT = ("patterns", "last_resort", "frames")
#: What Python's re reads, line by line.
EXPRESSIONS = ("last_resort", "frames", "verify", "unless", "extract")

_DIALECT: Mapping[str, tuple[_Check, str]] = {
    "id": (_is_id, "a kebab-case name"),
    "literal": (_is_text, "a non-empty text"),
    "pattern": (_is_text, "a non-empty text"),
    "unit": (_is_text, "a non-empty text"),
    "zero_based": (_is_flag, "true or false"),
    "higher_is_better": (_is_flag, "true or false"),
    "seconds_scale": (_is_number, "a number"),
    "references": (_is_texts, "a list of texts"),
    "samples": (_is_samples, "samples.match and samples.reject, lists of texts"),
}
_DIALECT_REQUIRED = ("id", "literal", "pattern", "unit")

_KINDS = ("specific", "generic", "outcome")
_CLASS: Mapping[str, tuple[_Check, str]] = {
    "title": (_is_text, "a non-empty text"),
    "domain": (_one_of(Domain), " | ".join(get_args(Domain))),
    "retry": (_one_of(Retry), " | ".join(get_args(Retry))),
    "kind": (lambda value: value in _KINDS, " | ".join(_KINDS)),
    "means": (_is_text, "a non-empty text"),
    "recognised": (_is_text, "a non-empty text"),
    "confused_with": (_is_text, "a non-empty text"),
    "next_steps": (_is_some_texts, "a non-empty list of texts"),
    "playbook": (_is_text, "a non-empty text"),
}
_CLASS_REQUIRED = tuple(key for key in _CLASS if key != "playbook")


def _violations(
    table: Mapping[str, Any], spec: Mapping[str, tuple[_Check, str]], required: tuple[str, ...]
) -> list[str]:
    unknown = [f"unknown key '{key}'" for key in table if key not in spec]
    missing = [f"'{key}' is missing" for key in required if key not in table]
    wrong = [f"'{key}' must be {want}" for key, (ok, want) in spec.items() if key in table and not ok(table[key])]
    return unknown + missing + wrong


def _texts(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(table.get(key, ()))


def _samples(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(table.get("samples", {}).get(key, ()))


def _invalid(table: Mapping[str, Any]) -> list[str]:
    """A site's pack may never have been linted: what cannot be read at all is said here, not when a line matches."""
    problems = []
    for key in EXPRESSIONS:
        texts = table.get(key, ())
        for text in texts if _is_texts(texts) else ():
            try:
                re.compile(text)
            except (re.error, RecursionError, OverflowError) as error:
                problems.append(f"{key} '{text}': not a valid Python expression: {error}")
    return problems


def rule_from(table: Mapping[str, Any], pack: str) -> tuple[Rule | None, list[str]]:
    """The rule, or None and what is wrong. ``domain`` stays "unknown" when not given: the class's domain holds."""
    problems = [*_violations(table, _RULE, _RULE_REQUIRED), *_invalid(table)]
    if sum(key in table for key in _SOUGHT) != 1:
        problems.append(f"needs exactly one of {', '.join(_SOUGHT)}")
    if table.get("class") == FACT and "fact" not in table:
        problems.append("a rule of class 'fact' needs the kind of fact: fact = \"...\"")
    if table.get("class") != FACT and "fact" in table:
        problems.append("'fact' is for rules of class 'fact' only")
    if table.get("on_echo") is True and table.get("class") not in (FACT, HARMLESS):
        problems.append("'on_echo' must not be set for a failure: an echo of its text is not the failure")
    if problems:
        return None, problems
    return (
        Rule(
            id=table["id"],
            cls=table["class"],
            title=table["title"],
            patterns=_texts(table, "patterns"),
            domain=table.get("domain", "unknown"),
            stage=table.get("stage"),
            role=table.get("role", "root"),
            retry=table.get("retry"),
            caseless=table.get("caseless", False),
            verify=_texts(table, "verify"),
            unless=_texts(table, "unless"),
            requires=_texts(table, "requires"),
            absent=_texts(table, "absent"),
            before_step=table.get("before_step"),
            after_step=table.get("after_step"),
            resolved_by=_texts(table, "resolved_by"),
            extract=_texts(table, "extract"),
            fact=table.get("fact"),
            block_lines=table.get("block_lines", 0),
            on_echo=table.get("on_echo", False),
            priority=table.get("priority", 0),
            guess=table.get("guess", False),
            prompt=table.get("prompt", False),
            last_resort=_texts(table, "last_resort"),
            strong=table.get("strong", False),
            vague=table.get("vague", False),
            frames=_texts(table, "frames"),
            subsumes=_texts(table, "subsumes"),
            note=table.get("note"),
            next_steps=_texts(table, "next_steps"),
            references=_texts(table, "references"),
            samples_match=_samples(table, "match"),
            samples_reject=_samples(table, "reject"),
            pack=pack,
        ),
        [],
    )


def dialect_from(table: Mapping[str, Any], pack: str) -> tuple[StepDialect | None, list[str]]:
    problems = _violations(table, _DIALECT, _DIALECT_REQUIRED)
    if problems:
        return None, problems
    return (
        StepDialect(
            id=table["id"],
            literal=table["literal"],
            pattern=table["pattern"],
            unit=table["unit"],
            zero_based=table.get("zero_based", True),
            higher_is_better=table.get("higher_is_better", True),
            seconds_scale=float(table.get("seconds_scale", 1.0)),
            samples_match=_samples(table, "match"),
            samples_reject=_samples(table, "reject"),
            references=_texts(table, "references"),
            pack=pack,
        ),
        [],
    )


def class_from(class_id: str, table: Mapping[str, Any]) -> tuple[FailureClass | None, list[str]]:
    problems = _violations(table, _CLASS, _CLASS_REQUIRED)
    if not _is_id(class_id) or class_id in (FACT, HARMLESS):
        problems.append(f"'{class_id}' cannot be the name of a class")
    if problems:
        return None, problems
    return (
        FailureClass(
            id=class_id,
            title=table["title"],
            domain=table["domain"],
            retry=table["retry"],
            kind=table["kind"],
            means=table["means"],
            recognised=table["recognised"],
            confused_with=table["confused_with"],
            next_steps=_texts(table, "next_steps"),
            playbook=table.get("playbook"),
        ),
        [],
    )
