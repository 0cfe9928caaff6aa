"""The second look: hyperscan says that a pattern of a rule occurs in a line, this says whether the rule means the line.

Bodies come from hostile logs. They are cut at 4096 characters before they get here, and lint refuses expressions whose
time grows faster than their length squared.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache

from slurm_triage.model.rule import Rule

#: Longer numbers in captures are cut: 15 digits still are exact as a float.
MAX_DIGITS = 15
#: This group collects every match in the body and the block (a list of ranks may go over several lines).
COLLECTED = "ranks"


@lru_cache(maxsize=8192)
def expression(pattern: str) -> re.Pattern[str]:
    """Compiled once per process, and only when a line needs it: most rules of the packs never match."""
    return re.compile(pattern)


def rejection(rule: Rule, body: str) -> str | None:
    """Why ``verify`` or ``unless`` turn this body away; None if they do not. The text is the expression at fault."""
    if rule.verify and not any(expression(p).search(body) for p in rule.verify):
        return "no verify expression matches: " + " | ".join(rule.verify)
    for pattern in rule.unless:
        if expression(pattern).search(body):
            return f"unless {pattern}"
    return None


def body_verdict(rule: Rule, body: str, block: Sequence[str] = ()) -> dict[str, str] | None:
    """The captures if the rule means this line, else None.

    ``body`` is the line without label, ANSI codes and prefixes; ``block`` the bodies of the same rank's next lines.
    An expression of ``extract`` is searched in the body, then line by line in the block, and the first match counts;
    of two expressions that name the same group the first one that finds something wins.
    """
    if rejection(rule, body) is not None:
        return None
    captures: dict[str, str] = {}
    for pattern in rule.extract:
        compiled = expression(pattern)
        for name, value in _captured(compiled, body, block).items():
            captures.setdefault(name, value)
    return captures


def _captured(compiled: re.Pattern[str], body: str, block: Sequence[str]) -> Mapping[str, str]:
    lines = (body, *block)
    if COLLECTED in compiled.groupindex:
        found = [m[COLLECTED].strip() for line in lines for m in compiled.finditer(line) if m[COLLECTED]]
        return {COLLECTED: ",".join(dict.fromkeys(found))} if found else {}
    for line in lines:
        match = compiled.search(line)
        if match is not None:
            return {name: _bounded(value) for name, value in match.groupdict().items() if value is not None}
    return {}


def _bounded(value: str) -> str:
    """A number with more digits than any real one has, or in digits of another script, as one that can be reckoned
    with: logs are not to be trusted with the size of what is computed from them."""
    if not value.isdigit() or (len(value) <= MAX_DIGITS and value.isascii()):
        return value
    return "".join(str(unicodedata.digit(digit)) for digit in value[:MAX_DIGITS])
