"""What must stand in a line for a pattern to match it: a few hundred short literals tell which lines are worth a look.

hyperscan searches them nearly twice as fast as all patterns, and in an ordinary log hardly any line contains one.
"""

from __future__ import annotations

import heapq
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from slurm_triage.rules.expressions import NEWLINE, REPEATS, parse, takes, walk

if sys.version_info >= (3, 11):
    from re import _constants as sre
else:
    import sre_constants as sre

#: Texts of which every match contains at least one.
Clause = frozenset[str]

#: hyperscan compares the last 8 bytes of a literal first. With 4 to 6 bytes the search was 20 to 300 % slower.
_LITERAL_CHARS = 8
MIN_CHARS = 3
#: Alternatives that are multiplied out: ``(a|b)(c|d)`` has four texts.
_MAX_TEXTS = 64
#: How much dearer a literal is for each kind of ordinary line that contains it.
_ORDINARY_COST = 1_000


def clauses(pattern: str) -> list[Clause]:
    """Every match of the pattern contains a text of each clause. None at all if a match may depend on anything but
    its own line, or the pattern means something else to Python than to hyperscan."""
    try:
        tree = parse(pattern)
    except (re.error, RecursionError, FutureWarning, DeprecationWarning):
        return []
    if tree.state.flags & ~re.UNICODE or any(_looks_beyond(op, arg) for op, arg in walk(tree)):
        return []
    return [clause for clause in _clauses(tree) if min(map(len, clause)) >= MIN_CHARS]


def _looks_beyond(op: Any, arg: Any) -> bool:
    if op is sre.AT:
        return arg not in (sre.AT_BOUNDARY, sre.AT_NON_BOUNDARY)
    return takes(op, arg, NEWLINE)


def _clauses(tree: Any) -> list[Clause]:
    """In the order of what they stand for. A single one: the tree matches nothing but its texts."""
    found: list[Clause] = []
    texts = _grow(tree, {""}, found)
    return [*found, frozenset(texts)]


def _grow(tree: Any, texts: set[str], found: list[Clause]) -> set[str]:
    """``texts`` (one of them stands before what ``tree`` matches) with the literals that follow. Where something else
    follows, they go to ``found`` and the next texts begin."""
    for op, arg in tree:
        if op is sre.SUBPATTERN and not arg[1] and not arg[2]:
            texts = _grow(arg[3], texts, found)
            continue
        following, between = _element(op, arg)
        if not following or len(texts) * len(following) > _MAX_TEXTS:
            found += [frozenset(texts), *between]
            texts = {""}
        texts = {text + more for text in texts for more in following or {""}}
    return texts


def _element(op: Any, arg: Any) -> tuple[Clause, list[Clause]]:
    """(the texts that an element is, none if it is anything else; what it then must contain all the same)."""
    if op is sre.LITERAL:
        return frozenset({chr(arg)}), []
    if op is sre.IN and len(arg) <= 4 and all(kind is sre.LITERAL and char < 128 for kind, char in arg):
        return frozenset(chr(char) for _, char in arg), []
    if op is sre.AT:
        return frozenset({""}), []
    if op is sre.BRANCH:
        choices = [_clauses(child) for child in arg[1]]
        longest = frozenset().union(*(max(choice, key=lambda clause: min(map(len, clause))) for choice in choices))
        return (longest, []) if all(len(choice) == 1 for choice in choices) else (frozenset(), [longest])
    if op in REPEATS:
        inner = _clauses(arg[2])
        if arg[:2] == (0, 1) and len(inner) == 1:
            return inner[0] | {""}, []
        return frozenset(), inner if arg[0] > 0 else []
    return frozenset(), []


def cover(patterns: Iterable[Sequence[Clause]], ordinary: str) -> list[str]:
    """Few literals, one of which occurs wherever one of the patterns matches. ``patterns``: the clauses of each.
    What occurs in ``ordinary`` is avoided."""

    @cache
    def cost(piece: str) -> int:
        return _ORDINARY_COST * ordinary.count(piece) + 1 + _LITERAL_CHARS - len(piece)

    def dearness(clause: Clause) -> tuple[int, int]:
        return max(min(map(cost, _pieces(text))) for text in clause), len(clause)

    left: set[str] = set().union(*(min(options, key=dearness) for options in patterns))
    users: dict[str, set[str]] = defaultdict(set)
    for text in left:
        for piece in _pieces(text):
            users[piece].add(text)
    # The greedy way: always the piece that covers most for its cost. What a piece gains only falls.
    heap = [(-len(texts) / cost(piece), piece) for piece, texts in users.items()]
    heapq.heapify(heap)
    chosen: list[str] = []
    while left:
        gain, piece = heapq.heappop(heap)
        now = -len(users[piece] & left) / cost(piece)
        if now > gain:
            heapq.heappush(heap, (now, piece))
        elif now:
            chosen.append(piece)
            left -= users[piece]
    return sorted(chosen)


def _pieces(text: str) -> set[str]:
    return {text[i : i + _LITERAL_CHARS] for i in range(max(1, len(text) - _LITERAL_CHARS + 1))}
