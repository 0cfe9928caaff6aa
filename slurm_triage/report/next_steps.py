"""The next steps of a class or rule with this job's values filled in.

A step is a jinja2 template in a pack. It may use ``job``, ``p`` (progress), ``primary``, ``d`` (diagnosis),
``report``, ``config``, ``env`` and ``capture`` (captures of the cause's line), and the filters ``duration``, ``nodes``
and ``q`` (shell quoting). Templates of site and user rules run too, so they run in jinja2's sandbox.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from slurm_triage.errors import RuleError
from slurm_triage.model.duration import human
from slurm_triage.model.nodelist import fold
from slurm_triage.model.rule import FailureClass
from slurm_triage.model.shell_word import shell_word
from slurm_triage.report.plain_text import cut, plain
from slurm_triage.report.wording import UNKNOWN, number

if TYPE_CHECKING:
    from jinja2 import Environment, Template, Undefined

#: A command with all its arguments fits; a line of log text beyond this is noise in a to-do list.
MAX_VALUE_CHARS = 2000

#: Backticks mark code in a step. In a value they become this letter, which means nothing to a shell or to Markdown.
_BACKTICK = "ˋ"
_MARKUP = re.compile(r"\{[{%#]")


def render_next_steps(cls: FailureClass, context: Mapping[str, Any], *, strict: bool = False) -> tuple[str, ...]:
    """The steps of ``cls``, one line each, empty ones dropped.

    A value that is None or that ``context`` does not hold is written as "unknown" and is false in conditions; with
    ``strict`` a missing name is an error. Raises RuleError, naming class and step, for a template that is wrong.
    """
    steps = (_render(cls, index, source, context, strict) for index, source in enumerate(cls.next_steps, 1))
    return tuple(step for step in steps if step)


def _render(cls: FailureClass, index: int, source: str, context: Mapping[str, Any], strict: bool) -> str:
    if _MARKUP.search(source) is None:
        # Importing jinja2 takes 70 ms, and many steps are plain sentences.
        return source.strip()
    from jinja2 import TemplateError

    try:
        text = _compiled(source, strict).render(context)
    except (TemplateError, TypeError, ValueError, OverflowError) as error:
        raise RuleError(
            f"Step {index} of class {cls.id} cannot be filled in ({error}); correct its template."
        ) from error
    return " ".join(line.strip() for line in text.splitlines() if line.strip())


@lru_cache(maxsize=1024)
def _compiled(source: str, strict: bool) -> Template:
    return _environment(strict).from_string(source)


@cache
def _environment(strict: bool) -> Environment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        autoescape=False, finalize=_value, undefined=StrictUndefined if strict else _unknown(), trim_blocks=True
    )
    environment.filters.update({"duration": duration, "nodes": nodes, "q": quote})
    return environment


def _unknown() -> type[Undefined]:
    from jinja2 import ChainableUndefined

    class Unknown(ChainableUndefined):
        """A name that is missing: "unknown" in text, false in conditions, and so is everything below it."""

        def __str__(self) -> str:
            return UNKNOWN

    return Unknown


def duration(seconds: float | None) -> str:
    """``2 h 5 min``."""
    return human(seconds) if isinstance(seconds, int | float) else UNKNOWN


def nodes(names: Iterable[str] | str | None) -> str:
    """``gpu[001-003,007]``."""
    if not names:
        return UNKNOWN
    return names if isinstance(names, str) else fold(names)


def quote(value: object) -> str:
    """``value`` as one shell word."""
    return shell_word(str(value))


def _value(value: Any) -> Any:
    """What a template prints for ``value``."""
    if value is None:
        return UNKNOWN
    if isinstance(value, float):
        return number(value)
    if isinstance(value, str):
        return cut(plain(value).replace("`", _BACKTICK), MAX_VALUE_CHARS)
    return value
