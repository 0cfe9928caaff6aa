"""The cache saves time and nothing else: whatever is wrong with it, the answer is the same."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from slurm_triage.model.rule import Rule, RuleSet, StepDialect
from slurm_triage.rules import cache
from slurm_triage.rules.load import load_rules
from slurm_triage.rules.matcher import Matcher

from .packtext import class_text, rule_text

RULES = RuleSet(
    rules=(
        Rule("one", "harmless", "One", ("gizmo (exploded|melted)", "widget")),
        Rule("two", "harmless", "Two", ("XYZ",)),
    ),
    dialects=(StepDialect("steps", "completed step: ", r"completed step: (?P<step>\d+)", "x/s"),),
    classes=(),
    digest="",
)
TEXT = b"a gizmo melted\ncompleted step: 3\nXYZ and a widget\n"


def check(matcher: Matcher) -> None:
    hits = matcher.scan(TEXT)
    assert (hits.rules, hits.ends, hits.dialects) == ([0, 1, 0], [14, 36, 49], {0})


def stored(cache_dir: Path, kind: str = "patterns") -> Path:
    (path,) = cache_dir.glob(f"{kind}-*")
    return path


def test_compiled_once_then_loaded(cache_dir: Path) -> None:
    first = Matcher.load(RULES)
    assert first.cache_state == cache.CacheState("stored", str(stored(cache_dir)))
    check(first)
    second = Matcher.load(RULES)
    assert second.cache_state == cache.CacheState("loaded", str(stored(cache_dir)))
    check(second)


def test_an_explicit_directory_wins(cache_dir: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert Matcher.load(RULES, tmp_path / "deep/cache").cache_state.kind == "stored"
    assert stored(tmp_path / "deep/cache")
    assert list(cache_dir.iterdir()) == []


def test_files_are_private_or_roots(cache_dir: Path) -> None:
    Matcher.load(RULES)
    mode = stat.S_IMODE(stored(cache_dir).stat().st_mode)
    assert mode == (0o644 if os.geteuid() == 0 else 0o600)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "garbage"])
def test_damage_is_noticed_and_repaired(cache_dir: Path, damage: str) -> None:
    Matcher.load(RULES)
    path = stored(cache_dir)
    data = path.read_bytes()
    middle = len(data) // 2
    path.write_bytes(
        {
            "truncated": data[:middle],
            "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
            "empty": b"",
            "garbage": os.urandom(500),
        }[damage]
    )
    matcher = Matcher.load(RULES)
    assert matcher.cache_state.kind == "stored"
    check(matcher)
    assert path.read_bytes() == data


def test_a_database_of_another_key_is_stale(cache_dir: Path) -> None:
    """A file renamed to the wanted name must not be taken for it."""
    Matcher.load(RULES)
    wanted = stored(cache_dir)
    other = RuleSet(RULES.rules[1:], (), (), "")
    wanted.rename(cache_dir / "old")
    Matcher.load(other)
    stored(cache_dir).rename(wanted)
    check(Matcher.load(RULES))


def test_other_patterns_other_file(cache_dir: Path) -> None:
    Matcher.load(RULES)
    Matcher.load(RuleSet(RULES.rules, (), (), ""))
    assert len(list(cache_dir.glob("patterns-*"))) == 2


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_writable_by_others_is_not_trusted(cache_dir: Path, mode: int) -> None:
    Matcher.load(RULES)
    path = stored(cache_dir)
    path.chmod(mode)
    before = path.stat().st_ino
    matcher = Matcher.load(RULES)
    assert matcher.cache_state.kind == "stored"
    assert path.stat().st_ino != before
    check(matcher)


def test_a_file_of_another_user_is_not_trusted(cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Matcher.load(RULES)
    path = stored(cache_dir)
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
    else:
        monkeypatch.setattr("os.geteuid", lambda: 12345)
    payload, why = cache.load(path.name, "key", cache_dir)
    assert payload is None
    assert why == f"{path} is owned or writable by another user; ignored"
    check(Matcher.load(RULES))


def test_a_link_or_a_fifo_is_not_followed(cache_dir: Path, tmp_path: Path) -> None:
    Matcher.load(RULES)
    path = stored(cache_dir)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert cache.load(path.name, "key", cache_dir)[0] is None
    assert Matcher.load(RULES).cache_state.kind == "stored"
    path.unlink()
    os.mkfifo(path)
    assert Matcher.load(RULES).cache_state.kind == "stored"


def test_a_directory_writable_by_others_is_not_used(cache_dir: Path) -> None:
    cache_dir.chmod(0o777)
    matcher = Matcher.load(RULES)
    assert matcher.cache_state.kind == "unusable"
    assert "writable by other users" in matcher.cache_state.detail
    assert list(cache_dir.iterdir()) == []
    check(matcher)


def test_no_place_to_write_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SLURM_TRIAGE_CACHE_DIR", str(tmp_path / "file/cache"))
    matcher = Matcher.load(RULES)
    assert matcher.cache_state == cache.CacheState("unusable", f"cannot write {tmp_path}/file/cache: Not a directory")
    check(matcher)


def test_a_full_disk_leaves_no_half_file(cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fchmod", full)
    matcher = Matcher.load(RULES)
    assert matcher.cache_state == cache.CacheState("unusable", f"cannot write {cache_dir}: No space left on device")
    assert list(cache_dir.iterdir()) == []
    check(matcher)


def test_the_place_follows_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SLURM_TRIAGE_CACHE_DIR")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert cache.write_dir() == cache.SYSTEM_DIR
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.write_dir() == tmp_path / "slurm-triage"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.write_dir() == tmp_path / ".cache/slurm-triage"


def test_roots_cache_serves_everybody(cache_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Matcher.load(RULES)
    monkeypatch.setattr(cache, "SYSTEM_DIR", cache_dir)
    own = tmp_path / "own"
    assert Matcher.load(RULES, own).cache_state == cache.CacheState("loaded", str(stored(cache_dir)))
    assert not own.exists()


def test_old_files_are_pruned(cache_dir: Path) -> None:
    for number in range(12):
        Matcher.load(RuleSet((Rule("r", "harmless", "R", (f"pattern number {number}",)),), (), (), ""))
    assert len(list(cache_dir.iterdir())) == 8


def test_rules_come_from_the_cache_without_samples(only_packs, monkeypatch: pytest.MonkeyPatch) -> None:
    only_packs(base=class_text("c") + rule_text("one", "c", extra="priority = 3"))
    parsed = load_rules(site_dirs=[])
    monkeypatch.setattr("slurm_triage.rules.load._parse", None)
    again = load_rules(site_dirs=[])
    assert again == parsed
    assert again.rules[0].samples_match == ()
    assert (again.rules[0].priority, again.rules[0].domain, again.classes[0].next_steps) == (3, "storage", ("Look.",))


def test_a_damaged_rules_cache_is_parsed_again(only_packs, cache_dir: Path) -> None:
    only_packs(base=rule_text("one"))
    parsed = load_rules(site_dirs=[])
    path = stored(cache_dir, "rules")
    path.write_bytes(path.read_bytes()[:-3] + b"xyz")
    assert load_rules(site_dirs=[]) == parsed


def test_a_changed_pack_is_seen_at_once(only_packs) -> None:
    packs = only_packs(base=rule_text("one"))
    load_rules(site_dirs=[])
    (packs / "base.toml").write_text(rule_text("two"))
    assert [r.id for r in load_rules(site_dirs=[]).rules] == ["two"]
