"""Finds the packs in force and merges them: built-in packs, then the site's overlays, then the user's."""

from __future__ import annotations

import dataclasses
import hashlib
import marshal
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from slurm_triage import __version__
from slurm_triage.errors import RuleError
from slurm_triage.model.rule import FACT, HARMLESS, FailureClass, Rule, RuleSet, StepDialect
from slurm_triage.rules import cache
from slurm_triage.rules.packfile import Pack, Problem, parse_pack
from slurm_triage.rules.schema import class_from, dialect_from, rule_from

PACKS_DIR = Path(__file__).parent / "packs"
SITE_DIR = Path("/etc/slurm-triage/rules.d")

#: A pack file: its path and its content.
PackBytes = tuple[Path, bytes]


def overlay_dirs() -> list[Path]:
    """The site's and the user's rule directories. Root never reads a user's: HOME may be anybody's under sudo."""
    if os.geteuid() == 0:
        return [SITE_DIR]
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):  # noqa: PTH117 (the specification says: ignore a relative path)
        try:
            base = str(Path.home() / ".config")
        except RuntimeError:
            return [SITE_DIR]
    return [SITE_DIR, Path(base) / "slurm-triage" / "rules.d"]


def read_dir(directory: Path) -> list[PackBytes]:
    """All packs of a directory in order of name; none if it does not exist. Raises RuleError if unreadable."""
    try:
        return [(path, path.read_bytes()) for path in sorted(directory.iterdir()) if path.suffix == ".toml"]
    except FileNotFoundError:
        if directory.exists():
            raise RuleError(f"a rule file vanished from {directory} while it was read; run again") from None
        return []
    except OSError as error:
        raise RuleError(f"cannot read rules in {error.filename or directory}: {error.strerror}") from error


def load_rules(
    *, site_dirs: Sequence[Path] | None = None, disabled: Collection[str] = (), samples: bool = False
) -> RuleSet:
    """The rules in force. ``site_dirs`` replaces the site's and the user's directories; ``disabled`` are ids to drop.

    Without ``samples`` the rules carry none, and come from the cache if the packs have not changed: parsing takes
    0.1 s or more, a cached start a few milliseconds. Raises RuleError, which names file and line.
    """
    levels = [read_dir(d) for d in (PACKS_DIR, *(overlay_dirs() if site_dirs is None else site_dirs))]
    digest = digest_of(levels, disabled)
    key, directory = _cache_key(digest), cache.write_dir()
    name = f"rules-{key[:24]}"
    if not samples:
        payload, _ = cache.load(name, key, directory)
        if payload is not None:
            return _thaw(payload, digest)
    merged = merge([[parse_pack(path, raw) for path, raw in level] for level in levels], disabled)
    if merged.problems:
        raise RuleError(str(merged.problems[0]))
    ruleset = merged.ruleset(digest)
    if not samples:
        payload = _freeze(ruleset)
        cache.store(name, key, payload, directory)
        return _thaw(payload, digest)
    return ruleset


def digest_of(levels: Iterable[Iterable[PackBytes]], disabled: Collection[str] = ()) -> str:
    """Identifies the content of the packs, wherever they lie."""
    total = hashlib.sha256()
    for number, level in enumerate(levels):
        for path, raw in level:
            total.update(f"{number}/{path.name}/{len(raw)}\0".encode(errors="surrogateescape"))
            total.update(raw)
    total.update("\0".join(sorted(disabled)).encode(errors="surrogateescape"))
    return total.hexdigest()


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


_RECORDS: Mapping[str, type[Any]] = {"rules": Rule, "dialects": StepDialect, "classes": FailureClass}
_NOT_CACHED = frozenset({"samples_match", "samples_reject"})


def _columns(record: type[Any]) -> list[str]:
    return [f.name for f in fields(record) if f.name not in _NOT_CACHED]


def _cache_key(digest: str) -> str:
    shape = [(name, _columns(record)) for name, record in _RECORDS.items()]
    return hashlib.sha256(f"{digest} {__version__} {sys.version_info[:2]} {shape}".encode()).hexdigest()


def _freeze(ruleset: RuleSet) -> bytes:
    return marshal.dumps(
        {
            name: [tuple(getattr(item, c) for c in _columns(record)) for item in getattr(ruleset, name)]
            for name, record in _RECORDS.items()
        }
    )


def _thaw(payload: bytes, digest: str) -> RuleSet:
    data = marshal.loads(payload)

    def items(name: str) -> tuple[Any, ...]:
        record = _RECORDS[name]
        columns = _columns(record)
        return tuple(record(**dict(zip(columns, row, strict=True))) for row in data[name])

    return RuleSet(items("rules"), items("dialects"), items("classes"), digest)
