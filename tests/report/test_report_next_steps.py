"""Next steps with the job's values: for every class, for every kind of job, never breaking, never running code."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.errors import RuleError
from slurm_triage.model.report import Report
from slurm_triage.model.rule import FailureClass
from slurm_triage.report.next_steps import quote, render_next_steps
from slurm_triage.rules.load import load_rules

from .hostile_reports import HOSTILE, with_hostile_text
from .sample_reports import SAMPLES, failed

RULES = load_rules()
CLASSES = RULES.classes
#: What a rule says in place of its class.
OWN = [
    replace(next(c for c in CLASSES if c.id == rule.cls), id=rule.id, next_steps=rule.next_steps)
    for rule in RULES.rules
    if rule.next_steps
]


def cls(*steps: str) -> FailureClass:
    return FailureClass("oom-gpu", "GPU out of memory", "config", "after-fix", "specific", "", "", "", steps)


def context(report: Report, **changes: Any) -> dict[str, Any]:
    primary = report.diagnosis.primary or failed().diagnosis.primary
    base = {
        "job": report.job,
        "p": report.progress,
        "primary": primary,
        "d": report.diagnosis,
        "report": report,
        "config": {},
        "env": {},
        "maxtext": True,
        "capture": {},
    }
    return {**base, **changes}


def render(*steps: str, strict: bool = True, **changes: Any) -> tuple[str, ...]:
    return render_next_steps(cls(*steps), context(failed(), **changes), strict=strict)


@pytest.mark.parametrize("name", SAMPLES)
def test_steps_of_every_class_and_rule_can_be_filled_in(name: str) -> None:
    values = context(SAMPLES[name]())
    for step in (step for failure in (*CLASSES, *OWN) for step in render_next_steps(failure, values, strict=True)):
        assert step == step.strip()
        assert "\n" not in step
        assert "None" not in step
        assert "{{" not in step
        assert step.count("`") % 2 == 0


@given(HOSTILE)
@settings(max_examples=20, deadline=None)
def test_values_never_open_or_close_code(text: str) -> None:
    values = context(
        with_hostile_text(text), config={"steps": text}, env={"X": text}, capture={"image": text, "node": text}
    )
    for failure in (*CLASSES, *OWN):
        for step in render_next_steps(failure, values):
            assert step.count("`") % 2 == 0
            assert "\x1b" not in step


def test_values_are_filled_in() -> None:
    assert render(
        "Job {{ job.job_id }} lost {{ p.lost_steps }} steps ({{ p.lost_s | duration }}).",
        "{% if capture.get('bytes') %}Needs {{ capture['bytes'] }}.{% endif %}",
        "Nodes {{ report.nodes | nodes }}, step time {{ p.step_time_s }} s.",
        "A plain step.",
        capture={"bytes": "221.71GiB"},
    ) == (
        "Job 7877 lost 18 steps (9 min).",
        "Needs 221.71GiB.",
        "Nodes gpu[001-008], step time 30.12 s.",
        "A plain step.",
    )


def test_steps_that_become_empty_are_dropped() -> None:
    assert render("{% if job.restarts %}x{% endif %}", "{{ '' }}", "  ", "kept") == ("kept",)


def test_lines_of_a_step_become_one() -> None:
    assert render("{{ job.job_id }}\n   and\n\n more ") == ("7877 and more",)


def test_unknown_values_are_called_unknown() -> None:
    assert render("{{ job.restarts }} {{ job.restarts | duration }} {{ () | nodes }}") == ("unknown unknown unknown",)
    assert render("{{ capture.image }} {{ nothing.at.all }}", strict=False) == ("unknown unknown",)
    assert render("{% if nothing.at.all %}a{% else %}b{% endif %}", strict=False) == ("b",)


@pytest.mark.parametrize(
    "step", ["{{ nothing }}", "{{ job.job_id", "{% for %}", "{{ 1 + 'a' }}", "{{ job.job_id | nofilter }}"]
)
def test_a_wrong_template_names_class_and_step(step: str) -> None:
    with pytest.raises(RuleError, match=r"Step 2 of class oom-gpu"):
        render("fine", step)


@pytest.mark.parametrize(
    "step",
    [
        "{{ job.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ render.__globals__ }}",
        "{{ config.update({'a': 1}) }}",
        "{{ self.__init__.__globals__ }}",
    ],
)
def test_templates_cannot_leave_the_sandbox(step: str) -> None:
    with pytest.raises(RuleError):
        render(step)


def test_a_value_with_backticks_cannot_end_the_code_around_it() -> None:
    (step,) = render("Run `scancel {{ job.name }}`.", job=replace(failed().job, name="a` b `c"))
    assert step == "Run `scancel aˋ b ˋc`."


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30))
@settings(max_examples=60, deadline=None)
def test_quoting_gives_one_shell_word_back(text: str) -> None:
    quoted = quote(text)
    assert "`" not in quoted
    assert not any(ord(c) < 0x20 for c in quoted)
    script = f"LC_ALL=C.UTF-8; printf '%s|' {quoted}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    assert done.stdout.decode() == text + "|"


def test_quoting_looks_as_usual_for_usual_words() -> None:
    assert quote("gpu001") == "gpu001"
    assert quote("two words") == "'two words'"
    assert quote(5) == "5"
    assert shlex.split(quote("it's")) == ["it's"]
