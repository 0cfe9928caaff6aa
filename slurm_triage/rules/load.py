"""Finds the packs in force and merges them: built-in packs, then the site's overlays, then the user's."""

from __future__ import annotations

import hashlib
import marshal
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from slurm_triage import __version__
from slurm_triage.errors import RuleError
from slurm_triage.model.rule import FailureClass, Rule, RuleSet, StepDialect
from slurm_triage.rules import cache

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
    ruleset = _parse(levels, disabled, digest)
    if samples:
        return ruleset
    payload = _freeze(ruleset)
    cache.store(name, key, payload, directory)
    return _thaw(payload, digest)


def _parse(levels: Iterable[Iterable[PackBytes]], disabled: Collection[str], digest: str) -> RuleSet:
    # Imported only where needed: a start with a warm cache parses nothing.
    from slurm_triage.rules.merge import merge
    from slurm_triage.rules.packfile import parse_pack

    merged = merge([[parse_pack(path, raw) for path, raw in level] for level in levels], disabled)
    if merged.problems:
        raise RuleError(str(merged.problems[0]))
    return merged.ruleset(digest)


def digest_of(levels: Iterable[Iterable[PackBytes]], disabled: Collection[str] = ()) -> str:
    """Identifies the content of the packs, wherever they lie."""
    total = hashlib.sha256()
    for number, level in enumerate(levels):
        for path, raw in level:
            total.update(f"{number}/{path.name}/{len(raw)}\0".encode(errors="surrogateescape"))
            total.update(raw)
    total.update("\0".join(sorted(disabled)).encode(errors="surrogateescape"))
    return total.hexdigest()


#: Everything of a rule but its samples, which only tests and people need.
_NOT_CACHED = frozenset({"samples_match", "samples_reject"})
_RECORDS: Mapping[str, type[Any]] = {"rules": Rule, "dialects": StepDialect, "classes": FailureClass}


def _columns(record: type[Any]) -> list[str]:
    return [f.name for f in fields(record)]


def _cache_key(digest: str) -> str:
    shape = [(name, _columns(record)) for name, record in _RECORDS.items()]
    return hashlib.sha256(f"{digest} {__version__} {sys.version_info[:2]} {shape}".encode()).hexdigest()


def _freeze(ruleset: RuleSet) -> bytes:
    def row(item: Any) -> tuple[Any, ...]:
        return tuple(() if name in _NOT_CACHED else getattr(item, name) for name in _columns(type(item)))

    return marshal.dumps({name: [row(item) for item in getattr(ruleset, name)] for name in _RECORDS})


def _thaw(payload: bytes, digest: str) -> RuleSet:
    data = marshal.loads(payload)
    rules, dialects, classes = (_revive(record, data[name]) for name, record in _RECORDS.items())
    return RuleSet(rules, dialects, classes, digest)


def _revive(record: type[Any], rows: Iterable[Sequence[Any]]) -> tuple[Any, ...]:
    """Records from their values, written straight into the slots: the frozen classes' own constructor took 13 ms for
    400 rules, this takes 2."""
    setters = [getattr(record, name).__set__ for name in _columns(record)]

    def make(row: Sequence[Any]) -> Any:
        item = object.__new__(record)
        for put, value in zip(setters, row, strict=True):
            put(item, value)
        return item

    return tuple(make(row) for row in rows)
