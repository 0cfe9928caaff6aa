"""Fills the captures of a match into the title or note of its rule."""

from __future__ import annotations

import re
from collections.abc import Mapping

from slurm_triage.model.duration import human
from slurm_triage.model.size import human_size

#: Stands for a capture that the line did not give.
UNKNOWN = "unknown"
_MAX_VALUE_CHARS = 80
#: The capture that holds an amount of memory.
SIZE = "bytes"
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{(\w+)(?:\|([^{}]*))?\}")
#: ``: {cause}`` at the end of a text.
_TAIL = re.compile(r":\s*\{(\w+)\}\s*\Z")
_PARENTHESES = re.compile(r"\s*\([^()]*\{\w+\}[^()]*\)")


def fill(template: str, captures: Mapping[str, str]) -> str:
    """``{name|text}`` falls back to text; a parenthesis, or an end ``: {name}``, whose capture is missing is left out;
    any other missing capture becomes "unknown"; doubled braces stand for themselves. Captures named ``..._ms`` are
    shown as durations, and ``bytes`` in a unit that can be read."""
    if "{" not in template:
        return template

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return found[0][0]
        text = captures.get(name)
        if text is None:
            return found[2] if found[2] is not None else UNKNOWN
        if name.endswith("_ms") and text.isdigit():
            return human(float(text) / 1000)
        if name == SIZE:
            return human_size(text)
        return text if len(text) <= _MAX_VALUE_CHARS else f"{text[: _MAX_VALUE_CHARS - 1]}…"

    def parenthesis(found: re.Match[str]) -> str:
        known = all(name in captures or fallback or not name for name, fallback in _PLACEHOLDER.findall(found[0]))
        return found[0] if known else ""

    template = _TAIL.sub(lambda found: found[0] if found[1] in captures else "", template)
    return _PLACEHOLDER.sub(value, _PARENTHESES.sub(parenthesis, template))
