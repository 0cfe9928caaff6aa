"""Rules that are not searched in the log: read in the stack of an exception, or in lines that nothing else explains."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from slurm_triage.model.rule import Rule

_SOURCE = re.compile(r"[^\s()\[\]'\"]{1,200}\.(?:cc|cpp|cu|cuh|c|h|hpp|py|go|rs|f90|F90)(?::\d+)?\b")
#: Python's notation, and that of IPython.
_FRAME = re.compile(r'^[ |+]*File (?:"[^"]{1,400}", line \d+|[^\s":]{1,400}:\d+, in )')


@lru_cache(maxsize=1024)
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def stack_frames(block: Sequence[str]) -> list[str]:
    """The frames among the lines of a traceback."""
    return [line for line in block if _FRAME.match(line)]


def named_by_frames(rule: Rule, frames: Sequence[str], exception: str) -> bool:
    """Whether an exception that came through these stack frames is what the rule is about."""
    return any(_found(rule.frames, frame) for frame in frames) and _means(rule, exception)


def is_last_resort(rule: Rule, body: str) -> bool:
    """Whether a line that no other rule knows looks like what the rule is about. Names of source files tell where it
    was said, not what about."""
    said = _SOURCE.sub(" ", body)
    return _found(rule.last_resort, said) and _means(rule, body)


def _means(rule: Rule, text: str) -> bool:
    return (not rule.verify or _found(rule.verify, text)) and not _found(rule.unless, text)


def _found(patterns: Sequence[str], text: str) -> bool:
    return any(_expression(pattern).search(text) for pattern in patterns)
