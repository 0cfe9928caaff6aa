"""Whether two texts say the same of different ranks, times, places and amounts."""

from __future__ import annotations

import re

# Replaced in this order: the longest and most specific first. What goes: who (rank, node, user's paths), when (times,
# steps), where in memory (addresses, hex), how much (numbers). What stays: the words, the file and function names.
_REPLACEMENTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b"), "<time>"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\b(?:[0-9a-f]{1,4}:){2,7}:?[0-9a-f]{1,4}(?:\.[0-9a-f])?\b", re.IGNORECASE), "<address>"),
    (re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}(?:[:<]\d+>?)?"), "<address>"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE), "<hex>"),
    (re.compile(r"(?:/[\w.@%+=:~-]+)+/([\w.@%+=:~-]+)"), r"\1"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,}\b", re.IGNORECASE), "<hex>"),
    (re.compile(r"[-+]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?", re.IGNORECASE), "<n>"),
    (re.compile(r"\s+"), " "),
)
_ANY_NODE = "<node>"


def normalise(text: str, nodes: tuple[str, ...] = ()) -> str:
    """``text`` without anything that differs between two occurrences of the same failure."""
    for node in sorted(set(nodes), key=len, reverse=True):
        if len(node) > 2:
            text = re.sub(rf"(?<![\w-]){re.escape(node)}(?:\.[\w.-]+)?(?![\w-])", _ANY_NODE, text)
    for pattern, replacement in _REPLACEMENTS:
        text = pattern.sub(replacement, text)
    return text.strip().lower()
