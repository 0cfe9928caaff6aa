"""A rule: one piece of knowledge about log text, read from a TOML pack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["root", "contributor", "consequence", "teardown", "context"]
Domain = Literal["user", "config", "node", "fabric", "storage", "scheduler", "container", "unknown"]
Retry = Literal["same-nodes", "other-nodes", "after-fix", "pointless", "not-needed"]

#: Classes of matches that are not failures.
HARMLESS = "harmless"
FACT = "fact"


@dataclass(frozen=True, slots=True)
class Rule:
    """See docs/rules.md for the meaning of every field.

    ``patterns`` are in hyperscan's dialect and are matched within one line. ``verify``, ``unless`` and ``extract`` are
    Python regular expressions applied to the body of a matched line (label, ANSI and Ray prefix removed): one
    ``verify`` must match if there is any, no ``unless`` may, and the named groups of ``extract`` become captures.
    ``role`` says what the text usually is: the initiating event (root) or something that follows from one. ``guess``:
    the text only shows how it ended, and the class is the usual reason for that. ``prompt``: it is printed the moment
    the fault happens, not after a time-out, so that a silence which follows is the fault's doing. ``last_resort`` and
    ``frames`` are not searched in the log: the first in lines that look like trouble when nothing else explains the
    end, the second in the stack of an exception. ``next_steps`` replace those of the class.
    """

    id: str
    cls: str
    title: str
    patterns: tuple[str, ...]
    domain: Domain = "unknown"
    stage: str | None = None
    role: Role = "root"
    retry: Retry | None = None
    caseless: bool = False
    verify: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    before_step: int | None = None
    after_step: int | None = None
    resolved_by: tuple[str, ...] = ()
    extract: tuple[str, ...] = ()
    fact: str | None = None
    block_lines: int = 0
    on_echo: bool = False
    priority: int = 0
    guess: bool = False
    prompt: bool = False
    last_resort: tuple[str, ...] = ()
    strong: bool = False
    vague: bool = False
    frames: tuple[str, ...] = ()
    subsumes: tuple[str, ...] = ()
    note: str | None = None
    next_steps: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    samples_match: tuple[str, ...] = ()
    samples_reject: tuple[str, ...] = ()
    pack: str = ""


@dataclass(frozen=True, slots=True)
class StepDialect:
    """How one framework prints a finished step.

    ``literal`` is a byte string that every such line contains; ``pattern`` a Python regular expression that starts
    with it (or with a short prefix) and names the groups step, seconds, rate, loss, total, time_per_step_ms ...
    """

    id: str
    literal: str
    pattern: str
    unit: str
    zero_based: bool = True
    higher_is_better: bool = True
    seconds_scale: float = 1.0
    samples_match: tuple[str, ...] = ()
    samples_reject: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    pack: str = ""


@dataclass(frozen=True, slots=True)
class FailureClass:
    """What one class means, and what helps. ``kind`` orders causes: a specific class explains, a generic one (an
    exception, a signal) only says how it showed, an outcome (a stage failed) says nothing by itself.

    ``next_steps`` are jinja2 templates over the report.
    """

    id: str
    title: str
    domain: Domain
    retry: Retry
    kind: Literal["specific", "generic", "outcome"]
    means: str
    recognised: str
    confused_with: str
    next_steps: tuple[str, ...]
    playbook: str | None = None
    """Which telemetry playbook of the seed helps."""


@dataclass(frozen=True, slots=True)
class RuleSet:
    """All rules in force: packs, then overlays, minus those switched off. ``digest`` identifies the content."""

    rules: tuple[Rule, ...]
    dialects: tuple[StepDialect, ...]
    classes: tuple[FailureClass, ...]
    digest: str

    def by_id(self, rule_id: str) -> Rule | None:
        return next((r for r in self.rules if r.id == rule_id), None)

    @property
    def fact_kinds(self) -> dict[str, str]:
        """Rule id -> kind, for rules of class ``fact``."""
        return {rule.id: rule.fact for rule in self.rules if rule.fact is not None}
