"""Each kind of fault is found, with file, line and rule; sound packs pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_triage.errors import NotFoundError
from slurm_triage.model.rule import Rule
from slurm_triage.rules.lint import lint, ordered

from .packtext import class_text, rule_text

BASE = class_text("disk-broken") + class_text("net-broken")


def messages(*paths: Path) -> list[str]:
    return [f"{p.line}:{p.rule}: {p.message}" for p in lint(paths)]


def test_sound_packs_have_no_problems(only_packs) -> None:
    only_packs(base=BASE + rule_text("one", "disk-broken") + rule_text("two", match="ok, gizmo exploded"))
    # The harmless rule wins over the failure by its priority only.
    assert messages() != []
    only_packs(base=BASE + rule_text("one", "disk-broken") + rule_text("two", pattern="widget fine"))
    assert messages() == []
    only_packs(base=LAST_RESORT + FRAMES.replace("made-up", "other"))
    assert messages() == []


LAST_RESORT = rule_text(match="a gizmo broke").replace("patterns = ['gizmo exploded']", "last_resort = ['gizmo']")
FRAMES = (
    rule_text()
    .replace("patterns = ['gizmo exploded']", "frames = ['gizmo/']")
    .replace("['gizmo exploded']", r'["  File \"/e/gizmo/load.py\", line 3, in open\nValueError: x"]')
)

FAULTS = [
    (rule_text(extra='subsumes = ["nobody"]'), "subsumes names an unknown rule 'nobody'"),
    (rule_text(extra='requires = ["nobody"]'), "requires names an unknown rule 'nobody'"),
    (rule_text(extra='absent = ["nobody"]'), "absent names an unknown rule 'nobody'"),
    (rule_text(extra='resolved_by = ["nobody"]'), "resolved_by names an unknown rule 'nobody'"),
    (rule_text(extra='absent = ["made-up"]'), "names itself"),
    (rule_text(pattern="^gizmo"), "pattern '^gizmo': ^ and $ do not work here"),
    (rule_text(pattern="gizmo(?=x)"), "hyperscan: Zero-width assertions are not supported"),
    (rule_text(pattern="(gizmo)?", match="gizmo"), "hyperscan: Pattern matches empty buffer"),
    (rule_text(extra="verify = ['(a+)+']"), "verify '(a+)+': a repeat inside a repeat"),
    (rule_text(extra="unless = ['(']"), "unless '(': not a valid Python expression"),
    (rule_text(extra="extract = ['x']"), "extract 'x': has no named group"),
    (rule_text().replace("A title", "Disk {path}"), "title: no extract expression produces {path}"),
    (rule_text(extra="note = 'See {url}'"), "note: no extract expression produces {url}"),
    (rule_text().replace("A title", "Odd {"), "title: Single '{' encountered"),
    (rule_text().replace("samples.match = ['gizmo exploded']", ""), "needs at least one matching sample"),
    (rule_text().replace("samples.reject = ['all is well']", ""), "needs at least one rejecting sample"),
    (rule_text(match="all is well"), "does not match its matching sample 'all is well': no pattern occurs in it"),
    (rule_text(extra="verify = ['^nope']"), "does not match its matching sample 'gizmo exploded': no verify"),
    (rule_text(match="XGIZMO=gizmo exploded"), "the line repeats a setting, an argument or a command"),
    (rule_text(reject="a gizmo exploded"), "matches its rejecting sample 'a gizmo exploded'"),
    (
        LAST_RESORT.replace("reject = ['all is well']", "reject = ['my gizmo broke']"),
        "its rejecting sample 'my gizmo broke'",
    ),
    (LAST_RESORT.replace("match = ['a gizmo broke']", "match = ['it broke']"), "does not match its matching sample"),
    (FRAMES.replace("/e/gizmo", "/w/widget"), "does not match its matching sample"),
    (rule_text(cls="no-such"), "unknown class 'no-such'"),
    (rule_text(extra="colour = 1"), "unknown key 'colour'"),
]


@pytest.mark.parametrize("text, message", FAULTS, ids=[f[1][:40] for f in FAULTS])
def test_faults(only_packs, text: str, message: str) -> None:
    only_packs(base=text)
    found = [m for m in messages() if message in m]
    assert found
    assert found[0].startswith("3:made-up: ")


def test_all_problems_are_reported_not_only_the_first(only_packs) -> None:
    only_packs(
        base=rule_text("a", extra='absent = ["x"]') + rule_text("b", cls="no-such", pattern="other text"),
        other="x = [",
        third="[y]\n",
    )
    assert len(messages()) == 4


def test_placeholders_that_extract_produces(only_packs) -> None:
    text = rule_text(extra="extract = ['on (?P<path>\\S+)']\nnote = 'Step {step} on {path}, {{so it is}}'")
    only_packs(base=text.replace("A title", "Lost {path|something} (rank {rank} of {node})"))
    assert messages() == []


def test_a_title_must_not_have_holes(only_packs) -> None:
    text = rule_text(extra="extract = ['on (?P<path>\\S+)']")
    only_packs(base=text.replace("A title", "Lost {path}"))
    assert "title has an 'unknown'" in messages()[0]


def test_a_rule_says_where_its_text_comes_from(only_packs) -> None:
    only_packs(base=rule_text().replace('references = ["made up"]\n', ""))
    assert "references" in messages()[0]


def test_events_and_switched_off_rules_may_be_named(only_packs) -> None:
    text = rule_text(extra='resolved_by = ["@step", "other"]') + rule_text("other", pattern="other text")
    packs = only_packs(base=text)
    site = packs.parent / "site"
    site.mkdir()
    (site / "off.toml").write_text('[disable]\nrules = ["other"]\n')
    assert messages() == []
    (site / "off.toml").write_text('[disable]\nrules = ["othre"]\n')
    assert messages() == ["1:None: [disable] names no rule: 'othre'"]


def crossing(one: str = "", two: str = "", one_cls: str = "disk-broken", two_cls: str = "net-broken") -> str:
    """Rule one shows its sample to rule two."""
    first = rule_text("one", one_cls, pattern="gizmo exploded", match="the gizmo exploded badly", extra=one)
    return BASE + first + rule_text("two", two_cls, pattern="exploded badly", match="it exploded badly", extra=two)


NO_ORDER = "sample 'the gizmo exploded badly' is also matched by two (net-broken): declare which wins"

ORDERS = [
    (crossing(), NO_ORDER),
    (crossing(one="priority = 1"), None),
    (crossing(two="priority = 1"), "which wins by its priority 1"),
    (crossing(one='subsumes = ["two"]'), None),
    (crossing(two='subsumes = ["one"]'), None),
    (crossing(two="unless = ['gizmo']"), None),
    (crossing(one="before_step = 0", two="after_step = 0"), None),
    (crossing(one="before_step = 5", two="after_step = 0"), NO_ORDER),
    (crossing(one='requires = ["x"]', two='absent = ["x"]') + rule_text("x", pattern="some x text"), None),
    (crossing(two_cls="disk-broken"), None),
    (crossing(two_cls="fact", two='fact = "x"'), None),
    (crossing(one_cls="fact", one='fact = "x"'), None),
    (crossing(one_cls="harmless"), "give this rule a priority above 0, or two an unless"),
    (crossing(one_cls="harmless", one="priority = 1"), None),
    (crossing(one_cls="harmless", one='subsumes = ["two"]'), "give this rule a priority above 0"),
    (crossing(two_cls="harmless"), "is also matched by two (harmless)"),
    (crossing(two_cls="harmless", two='requires = ["one"]'), "is also matched by two (harmless)"),
    (crossing(one="before_step = 0", two="after_step = 0\npriority = 1"), "which wins by its priority 1"),
    (crossing(one='subsumes = ["two"]', two="priority = 1"), "which wins by its priority 1"),
    (crossing(one="priority = 1", two_cls="harmless"), None),
]


@pytest.mark.parametrize("text, message", ORDERS)
def test_order_between_classes(only_packs, text: str, message: str | None) -> None:
    only_packs(base=text)
    found = messages()
    if message is None:
        assert found == []
    else:
        assert len(found) == 1
        assert message in found[0]
        assert found[0].startswith("23:one: ")


def test_only_the_first_matching_line_of_a_block_counts(only_packs) -> None:
    block = 'samples.match = ["""the gizmo exploded\\nit exploded badly"""]'
    first = rule_text("one", "disk-broken", extra="block_lines = 3")
    first = first.replace("samples.match = ['gizmo exploded']", block)
    only_packs(base=BASE + first + rule_text("two", "net-broken", pattern="exploded badly"))
    assert messages() == []


def test_order_is_about_pairs() -> None:
    low, high = Rule("low", "a", "L", ("x",)), Rule("high", "b", "H", ("x",), priority=1)
    assert ordered(high, low)
    assert not ordered(low, high)


def test_a_file_is_judged_together_with_the_packs_in_force(only_packs, tmp_path: Path) -> None:
    only_packs(base=BASE + rule_text("one", "disk-broken"), broken="x = [")
    mine = tmp_path / "mine.toml"
    mine.write_text(rule_text("two", "net-broken", match="a gizmo exploded", extra='resolved_by = ["one"]'))
    assert messages(mine) == [
        "3:two: sample 'a gizmo exploded' is also matched by one (disk-broken): "
        "declare which wins: a higher priority here, subsumes, or an unless there"
    ]
    mine.write_text(rule_text("one", "net-broken"))
    assert messages(mine) == []


def test_a_pack_in_force_is_not_counted_twice(only_packs, monkeypatch: pytest.MonkeyPatch) -> None:
    packs = only_packs(base=BASE + rule_text("one", "disk-broken"), other=rule_text("two", pattern="some other text"))
    monkeypatch.chdir(packs)
    assert messages(Path("other.toml")) == messages(packs) == []
    only_packs(other=rule_text("one"))
    assert messages(Path("other.toml")) == [f"3:one: this id is taken by the rule at {packs / 'base.toml'}:23"]


def test_dialects(only_packs) -> None:
    text = """
[[dialect]]
id = "x"
literal = "completed "
pattern = 'step (?P<step>\\d+) (?P<pace>\\d+)'
unit = "x/s"
samples.match = ['completed step 3 4', 'step 3 4', 'completed it']
samples.reject = ['step 1 2']
"""
    only_packs(base=text)
    assert messages() == [
        "3:x: does not match its matching sample 'completed it'",
        "3:x: literal 'completed ' is not in the matching sample 'step 3 4'",
        "3:x: matches its rejecting sample 'step 1 2'",
        "3:x: pattern: unknown group 'pace'",
    ]
    only_packs(base=text.replace("(?P<step>", "(?:").replace("'step", "'[a-z]tep").replace("samples", "#"))
    assert messages() == [
        "3:x: needs at least one matching sample",
        "3:x: needs at least one rejecting sample",
        "3:x: pattern has no group (?P<step>...)",
        "3:x: pattern must begin with 2 plain characters or more: it is searched in whole logs",
        "3:x: pattern: unknown group 'pace'",
    ]


def test_next_steps_are_templates(only_packs) -> None:
    only_packs(base=BASE.replace('["Look."]', '["Look at {{ report.job.job_id }}.", "Then {{ oops"]'))
    assert messages()[0].startswith("2:disk-broken: next_steps 'Then {{ oops': unexpected end of template")


@pytest.mark.parametrize(
    "pattern, sample, message",
    [
        ("step done: [0-9]", "step done: 3", "all that its matches must contain stands in step lines of steps too"),
        ("(done|secon)[^\\n]*loss", "done loss", "all that its matches must contain stands in step lines of steps too"),
        ("(done|secon)[^\\n]*crashed", "done crashed", None),
        ("step done: [0-9]+, loss nan", "step done: 3, loss nan", None),
        ("[a-z]: [0-9]", "a: 3", "has no literal of 3 characters"),
        ("(ab|abcdef)[0-9]", "ab3", "has no literal of 3 characters"),
        ("(abcdef)?[0-9]", "abcdef3", "has no literal of 3 characters"),
    ],
)
def test_a_rule_asks_for_something_that_is_not_in_every_step_line(
    only_packs, pattern: str, sample: str, message: str
) -> None:
    dialect = """
[[dialect]]
id = "steps"
literal = "step done: "
pattern = 'step done: (?P<step>[0-9]+)'
unit = "x/s"
samples.match = ['step done: 3, 4.0 seconds, loss 3.0', 'step done: 3, loss nan']
samples.reject = ['nothing']
"""
    only_packs(base=rule_text("slow", pattern=pattern, match=sample), d=dialect)
    assert [message in m for m in messages()] == ([True] if message else [])


def test_a_path_that_is_not_there(only_packs, tmp_path: Path) -> None:
    only_packs(base=BASE)
    with pytest.raises(NotFoundError, match=r"cannot read rule file .*nothing\.toml: No such file"):
        lint([tmp_path / "nothing.toml"])
