"""Packs, overlays, switch-offs, and errors that name file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_triage.errors import RuleError
from slurm_triage.rules import load
from slurm_triage.rules.load import load_rules

from .packtext import class_text, rule_text


def overlay(directory: Path, **packs: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in packs.items():
        (directory / f"{name}.toml").write_text(text)
    return directory


def ids(ruleset) -> list[str]:
    return [rule.id for rule in ruleset.rules]


def test_a_rule_is_read_whole(only_packs) -> None:
    only_packs(
        base=class_text("disk-broken")
        + """
[[rule]]
id = "disk-gone"
class = "disk-broken"
title = "Disk {path} is gone"
stage = "Training"
role = "contributor"
patterns = ['disk gone', 'disk lost']
caseless = true
verify = ['disk']
unless = ['not really']
requires = ["a"]
absent = ["b"]
before_step = 0
after_step = 3
resolved_by = ["@step"]
extract = ['path=(?P<path>\\S+)']
block_lines = 4
priority = 7
subsumes = ["c"]
note = "A note."
references = ["somewhere"]
samples.match = ['Disk gone path=/x']
samples.reject = ['disk is fine']
"""
    )
    rule = load_rules(site_dirs=[], samples=True).by_id("disk-gone")
    assert rule is not None
    assert (rule.cls, rule.role, rule.stage, rule.pack) == ("disk-broken", "contributor", "Training", "base")
    assert (rule.patterns, rule.caseless) == (("disk gone", "disk lost"), True)
    assert (rule.verify, rule.unless, rule.extract) == (("disk",), ("not really",), (r"path=(?P<path>\S+)",))
    assert (rule.requires, rule.absent, rule.subsumes, rule.resolved_by) == (("a",), ("b",), ("c",), ("@step",))
    assert (rule.before_step, rule.after_step, rule.block_lines, rule.priority) == (0, 3, 4, 7)
    assert (rule.samples_match, rule.samples_reject) == (("Disk gone path=/x",), ("disk is fine",))


def test_domain_and_retry_come_from_the_class(only_packs) -> None:
    text = class_text("disk-broken", domain="storage")
    text += rule_text("plain", "disk-broken") + rule_text("own", "disk-broken", extra='domain = "user"')
    only_packs(base=text)
    ruleset = load_rules(site_dirs=[])
    assert [(r.domain, r.retry) for r in ruleset.rules] == [("storage", "after-fix"), ("user", "after-fix")]


def test_an_overlay_replaces_a_rule_whole_and_adds_rules_and_classes(only_packs, tmp_path: Path) -> None:
    only_packs(base=rule_text("one", extra='note = "old"') + rule_text("two"))
    site = overlay(
        tmp_path / "rules.d", site=class_text("site-class") + rule_text("one", "site-class") + rule_text("three")
    )
    ruleset = load_rules(site_dirs=[site])
    assert ids(ruleset) == ["one", "two", "three"]
    one = ruleset.by_id("one")
    assert one is not None
    assert (one.cls, one.note, one.pack) == ("site-class", None, "site")
    assert [c.id for c in ruleset.classes] == ["site-class"]


def test_the_user_comes_after_the_site(only_packs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_packs(base=rule_text("one"))
    overlay(tmp_path / "site", a=rule_text("one", extra='note = "site"'))
    overlay(tmp_path / "config/slurm-triage/rules.d", a=rule_text("one", extra='note = "user"'))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert load_rules().rules[0].note == "user"


def test_root_never_reads_a_users_rules(only_packs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_packs(base=rule_text("one"))
    overlay(tmp_path / "site", a=rule_text("one", extra='note = "site"'))
    overlay(tmp_path / "config/slurm-triage/rules.d", a=rule_text("one", extra='note = "user"'))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert load_rules(samples=True).rules[0].note == "site"


def test_a_relative_config_home_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_CONFIG_HOME", "somewhere")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load.overlay_dirs()[-1] == tmp_path / ".config/slurm-triage/rules.d"


@pytest.mark.parametrize("name", ["one", "a-dialect"])
def test_disable_in_an_overlay(only_packs, tmp_path: Path, name: str) -> None:
    dialect = '[[dialect]]\nid = "a-dialect"\nliteral = "step "\npattern = \'step (?P<step>\\d+)\'\nunit = "x/s"\n'
    only_packs(base=rule_text("one") + rule_text("two") + dialect)
    site = overlay(tmp_path / "rules.d", site=f'[disable]\nrules = ["{name}"]\n')
    ruleset = load_rules(site_dirs=[site])
    assert name not in [*ids(ruleset), *(d.id for d in ruleset.dialects)]
    assert len(ruleset.rules) + len(ruleset.dialects) == 2


def test_disabled_by_argument_also_drops_overlay_rules(only_packs, tmp_path: Path) -> None:
    only_packs(base=rule_text("one"))
    site = overlay(tmp_path / "rules.d", site=rule_text("one") + rule_text("two"))
    assert ids(load_rules(site_dirs=[site], disabled=["one"])) == ["two"]


def test_the_digest_follows_the_content(only_packs, tmp_path: Path) -> None:
    packs = only_packs(base=rule_text("one"))
    first = load_rules(site_dirs=[]).digest
    assert load_rules(site_dirs=[], samples=True).digest == first
    assert load_rules(site_dirs=[tmp_path / "none"]).digest == first
    assert load_rules(site_dirs=[], disabled=["x"]).digest != first
    (packs / "base.toml").write_text(rule_text("one") + "\n# changed\n")
    assert load_rules(site_dirs=[]).digest != first


def test_files_that_are_not_toml_are_left_alone(only_packs) -> None:
    (only_packs(base=rule_text("one")) / "base.toml~").write_text("nonsense")
    assert ids(load_rules(site_dirs=[])) == ["one"]


BROKEN = [
    ("x = [1,", 1, "not valid TOML"),
    ("\n\nfoo = \n", 3, "not valid TOML"),
    (rule_text().replace("title", "titel"), 3, "unknown key 'titel'"),
    (rule_text().replace("patterns = ['gizmo exploded']", ""), 3, "exactly one of patterns, last_resort, frames"),
    (rule_text(extra="frames = ['gizmo']"), 3, "exactly one of patterns, last_resort, frames"),
    (rule_text(extra='strong = "yes"'), 3, "'strong' must be"),
    (rule_text().replace('title = "A title"', ""), 3, "'title' is missing"),
    (rule_text().replace('"made-up"', '"Made Up"'), 3, "'id' must be a kebab-case name"),
    (rule_text(extra='role = "boss"'), 3, "'role' must be root | contributor"),
    (rule_text(extra="before_step = -1"), 3, "'before_step' must be a step number"),
    (rule_text(extra="samples.reject2 = []"), 3, "'samples' must be"),
    (rule_text().replace("['gizmo exploded']\nref", "'gizmo exploded'\nref"), 3, "'patterns' must be"),
    (rule_text("a") + rule_text("b") + rule_text("a"), 23, "this id is taken by the rule at"),
    (rule_text("a") + rule_text("b", "no-such-class"), 13, "unknown class 'no-such-class'"),
    (rule_text(cls="fact"), 3, "a rule of class 'fact' needs the kind of fact"),
    (rule_text(extra='fact = "x"'), 3, "'fact' is for rules of class 'fact' only"),
    (class_text("c") + rule_text(cls="c", extra="on_echo = true"), 13, "'on_echo' must not be set for a failure"),
    (class_text("c").replace("domain", "domane"), 2, "unknown key 'domane'"),
    (class_text("harmless"), 2, "cannot be the name of a class"),
    ('[[dialect]]\nid = "d"\nliteral = "x"\n', 2, "'pattern' is missing"),
    (rule_text() + "\n[rules]\n", 12, "unknown table 'rules'"),
    ('[rule]\nid = "x"\n', 1, "'rule' must be written as [[rule]]"),
    ("[disable]\nrule = ['x']\n", 1, "[disable] holds one list"),
    ("[disable]\nrules = 'x'\n", 1, "[disable] holds one list"),
]


@pytest.mark.parametrize("text, line, message", BROKEN, ids=[b[2][:30] for b in BROKEN])
def test_errors_name_file_and_line(only_packs, text: str, line: int, message: str) -> None:
    packs = only_packs(base=text)
    with pytest.raises(RuleError) as caught:
        load_rules(site_dirs=[])
    assert str(caught.value).startswith(f"{packs / 'base.toml'}:{line}: ")
    assert message in str(caught.value)


def test_lines_are_right_behind_multi_line_strings(only_packs) -> None:
    tricky = rule_text("a", extra="note = '''\n[[rule]]\nid = \"b\"\n'''") + rule_text("c", "no-such-class")
    packs = only_packs(base=tricky)
    line = tricky[: tricky.index('id = "c"')].count("\n") + 1
    with pytest.raises(RuleError, match=f"^{packs / 'base.toml'}:{line}: c: unknown class"):
        load_rules(site_dirs=[])


def test_not_utf8(only_packs) -> None:
    packs = only_packs()
    (packs / "base.toml").write_bytes(b"\n# caf\xe9\n")
    with pytest.raises(RuleError, match=r"base\.toml:2: not UTF-8"):
        load_rules(site_dirs=[])


def test_an_unreadable_directory_is_an_error_not_an_empty_one(only_packs, tmp_path: Path) -> None:
    only_packs(base=rule_text())
    place = tmp_path / "file"
    place.write_text("")
    with pytest.raises(RuleError, match=f"cannot read rules in {place}: Not a directory"):
        load_rules(site_dirs=[place])
    (tmp_path / "rules.d").mkdir()
    (tmp_path / "rules.d/dir.toml").mkdir()
    with pytest.raises(RuleError, match=r"cannot read rules in .*dir\.toml: Is a directory"):
        load_rules(site_dirs=[tmp_path / "rules.d"])


@pytest.mark.parametrize("key", ["verify", "unless", "extract", "last_resort", "frames"])
def test_an_expression_that_python_cannot_read_is_refused_when_loaded(tmp_path: Path, key: str) -> None:
    text = rule_text("mine", extra=f"{key} = ['(']")
    if key in {"last_resort", "frames"}:
        text = text.replace("patterns = ['gizmo exploded']\n", "")
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(RuleError, match=rf"mine.toml:\d+: mine: {key} '\(': not a valid Python expression"):
        load_rules(site_dirs=[tmp_path])
