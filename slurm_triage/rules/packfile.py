"""Reads one TOML pack. Knows where in the file each entry stands, so that errors can name the line."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from slurm_triage.errors import RuleError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_TOP_LEVEL = frozenset({"rule", "dialect", "class", "disable"})
_SYNTAX_LINE = re.compile(r"\s*\(at line (\d+), column \d+\)$")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in a pack. ``line`` counts from 1; ``rule`` is None when no rule can be named."""

    file: str
    line: int
    rule: str | None
    message: str

    def __str__(self) -> str:
        name = f"{self.rule}: " if self.rule else ""
        return f"{self.file}:{self.line}: {name}{self.message}"


@dataclass(frozen=True, slots=True)
class Pack:
    """One file, parsed but not checked. ``problems`` concern the file's outline (unknown tables and the like)."""

    path: Path
    text: str
    rules: tuple[Mapping[str, Any], ...]
    dialects: tuple[Mapping[str, Any], ...]
    classes: Mapping[str, Mapping[str, Any]]
    disabled: tuple[str, ...]
    problems: tuple[Problem, ...]

    @property
    def name(self) -> str:
        return self.path.stem

    def line_of(self, kind: str, ordinal: int) -> int:
        """Line of the ``ordinal``-th (from 0) ``[[kind]]``: that of its ``id``, or else of its header."""
        places = _entry_lines(self.text, kind)
        return places[ordinal] if ordinal < len(places) else 1

    def line_of_class(self, class_id: str) -> int:
        name = re.escape(class_id)
        return next(_header_lines(self.text, rf"\[\s*class\s*\.\s*[\"']?{name}[\"']?\s*\]"), 1)

    def line_of_disable(self) -> int:
        return next(_header_lines(self.text, r"\[\s*disable\s*\]"), 1)


@lru_cache(maxsize=64)
def _entry_lines(text: str, kind: str) -> tuple[int, ...]:
    """The line of the ``id`` (or else the header) of every ``[[kind]]``."""
    lines = text.split("\n")

    def id_line(header: int) -> int:
        for number in range(header + 1, len(lines) + 1):
            stripped = lines[number - 1].lstrip()
            if re.match(r"id\s*=", stripped):
                return number
            if stripped.startswith("["):
                break
        return header

    return tuple(id_line(header) for header in _header_lines(text, rf"\[\[\s*{kind}\s*\]\]"))


def _header_lines(text: str, header: str) -> Iterator[int]:
    """Lines that are the TOML header ``header``, text inside multi-line strings left out."""
    # A multi-line string is blanked, its newlines kept, so that line numbers stay true.
    blanked = re.sub(r"'''.*?'''|\"\"\".*?\"\"\"", lambda m: "\n" * m[0].count("\n"), text, flags=re.DOTALL)
    pattern = re.compile(rf"\s*{header}")
    return (number for number, line in enumerate(blanked.split("\n"), 1) if pattern.match(line))


def read_pack(path: Path) -> Pack:
    """Raises RuleError when the file cannot be read or is not TOML."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise RuleError(f"cannot read rule file {path}: {error.strerror}") from error
    return parse_pack(path, raw)


def parse_pack(path: Path, raw: bytes) -> Pack:
    """Raises RuleError, with file and line, when ``raw`` is not UTF-8 TOML."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise RuleError(f"{path}:{line}: not UTF-8; save the file as UTF-8") from error
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        found = _SYNTAX_LINE.search(message)
        line = int(found[1]) if found else text.count("\n") + 1
        raise RuleError(f"{path}:{line}: not valid TOML: {_SYNTAX_LINE.sub('', message)}") from error
    return _outline(path, text, document)


def _outline(path: Path, text: str, document: Mapping[str, Any]) -> Pack:
    problems: list[Problem] = []

    def complain(key: str, message: str) -> None:
        line = next(_header_lines(text, rf"(\[+\s*)?{re.escape(key)}\b"), 1)
        problems.append(Problem(str(path), line, None, message))

    for key in document.keys() - _TOP_LEVEL:
        complain(key, f"unknown table '{key}'; expected [[rule]], [[dialect]], [class.NAME] or [disable]")

    def tables(key: str) -> tuple[Mapping[str, Any], ...]:
        value = document.get(key, [])
        if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
            complain(key, f"'{key}' must be written as [[{key}]]")
            return ()
        return tuple(value)

    classes = document.get("class", {})
    if not isinstance(classes, dict) or not all(isinstance(v, dict) for v in classes.values()):
        complain("class", "a class must be written as [class.NAME]")
        classes = {}
    disable = document.get("disable", {})
    names = disable.get("rules", []) if isinstance(disable, dict) else None
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names) or set(disable) - {"rules"}:
        complain("disable", '[disable] holds one list of rule ids: rules = ["id", ...]')
        names = []
    return Pack(path, text, tables("rule"), tables("dialect"), classes, tuple(names), tuple(problems))
