"""Faults of regular expressions that lint can see without running them."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable
from typing import Any

if sys.version_info >= (3, 11):
    from re import _constants as sre
    from re import _parser as sre_parser
else:
    import sre_constants as sre
    import sre_parse as sre_parser

NEWLINE = ord("\n")

#: Repeats of more than this many count as unbounded.
_LARGE = 64

#: Bounded repeats up to this many are cheap.
_SMALL = 16

REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT)
_CATEGORIES = {
    sre.CATEGORY_DIGIT: re.compile(r"\d"),
    sre.CATEGORY_NOT_DIGIT: re.compile(r"\D"),
    sre.CATEGORY_SPACE: re.compile(r"\s"),
    sre.CATEGORY_NOT_SPACE: re.compile(r"\S"),
    sre.CATEGORY_WORD: re.compile(r"\w"),
    sre.CATEGORY_NOT_WORD: re.compile(r"\W"),
}


def parse(pattern: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return sre_parser.parse(pattern)


def python_problem(pattern: str) -> str | None:
    """Why ``pattern`` is not a Python expression, or may take time beyond the square of the line's length."""
    try:
        tree = parse(pattern)
    except (re.error, RecursionError, FutureWarning, DeprecationWarning) as error:
        return f"not a valid Python expression: {error}"
    if _nests(tree, inside=False):
        return "a repeat inside a repeat can take exponential time; repeat a class instead, or bound it: {0,40}"
    if _degree(tree) > 2:
        return "three or more unbounded repeats in a row can take cubic time; bound them: .{0,200} or [^,]{0,80}"
    if _begins_unbounded(tree):
        return (
            r"an unbounded repeat at the beginning is tried from every character; bound it, \d{1,20}, or put \b before"
        )
    return None


def _begins_unbounded(tree: Any) -> bool:
    """``\\d+ bytes`` on a line of 4096 digits takes 8 million steps; ``\\d+`` alone is done at once."""
    for position, (op, arg) in enumerate(tree):
        if op is sre.SUBPATTERN:
            return _begins_unbounded(arg[3]) or (position + 1 < len(tree) and _is_unbounded(arg[3]))
        if op is sre.BRANCH:
            return any(_begins_unbounded(child) for child in arg[1])
        if op in REPEATS and arg[0] == 0 and arg[1] is not sre.MAXREPEAT:
            continue
        return position + 1 < len(tree) and _is_unbounded([(op, arg)])
    return False


def _is_unbounded(tree: Any) -> bool:
    return len(tree) == 1 and tree[0][0] in REPEATS and tree[0][1][1] is sre.MAXREPEAT


def group_names(pattern: str) -> frozenset[str]:
    try:
        return frozenset(re.compile(pattern).groupindex)
    except re.error:
        return frozenset()


def literal_prefix_bytes(pattern: str) -> int:
    """Length of the plain text that every match begins with."""
    length = 0
    for op, arg in parse(pattern):
        if op is not sre.LITERAL:
            break
        length += len(chr(arg).encode())
    return length


def pattern_problems(pattern: str) -> list[str]:
    """Faults of an expression for hyperscan: it must also be a Python expression and stay within one line."""
    try:
        tree = parse(pattern)
    except (re.error, RecursionError, FutureWarning, DeprecationWarning) as error:
        return [f"not a plain expression: {error}"]
    problems = []
    if any(op is sre.AT and arg not in (sre.AT_BOUNDARY, sre.AT_NON_BOUNDARY) for op, arg in walk(tree)):
        problems.append("^ and $ do not work here (a line begins with a rank label); use verify")
    if tree.state.flags & (re.DOTALL | re.MULTILINE | re.VERBOSE):
        problems.append("inline flags (?s) (?m) (?x) are not allowed")
    if tree.state.flags & re.IGNORECASE:
        problems.append("write caseless = true instead of (?i)")
    if any(takes(op, arg, NEWLINE) for op, arg in walk(tree)):
        problems.append(r"can match a newline; write [^x\n] for [^x], [ \t] for \s, [^0-9\n] for \D")
    if any(op in (sre.LITERAL, sre.NOT_LITERAL, sre.RANGE) and not _is_ascii(arg) for op, arg in _members(tree)):
        problems.append("a character class holds a non-ASCII character, but patterns match bytes; write a group (a|b)")
    if len(tree) and _ends_open(tree):
        problems.append("ends in a repeat, so every further character is reported again; drop the repeat")
    if sum(_is_bounded_wide(op, arg) for op, arg in walk(tree)) > 1:
        problems.append(r"two bounded repeats make a large automaton; write [^\n]*, a match never leaves its line")
    return problems


def walk(tree: Any) -> Iterable[tuple[Any, Any]]:
    """All (operator, argument) pairs of a parsed expression."""
    for op, arg in tree:
        yield op, arg
        for child in _children(op, arg):
            yield from walk(child)


def _children(op: Any, arg: Any) -> list[Any]:
    """Sub-expressions of one operator."""
    if op in REPEATS or op is getattr(sre, "POSSESSIVE_REPEAT", None):
        return [arg[2]]
    if op is sre.SUBPATTERN:
        return [arg[3]]
    if op is sre.BRANCH:
        return list(arg[1])
    if op in (sre.ASSERT, sre.ASSERT_NOT):
        return [arg[1]]
    if op is getattr(sre, "ATOMIC_GROUP", None):
        return [arg]
    if op is sre.GROUPREF_EXISTS:
        return [child for child in arg[1:] if child is not None]
    return []


def _members(tree: Any) -> Iterable[tuple[Any, Any]]:
    """The members of all character classes."""
    for op, arg in walk(tree):
        if op is sre.IN:
            yield from arg
        elif op is sre.NOT_LITERAL:
            yield op, arg


def _is_ascii(arg: Any) -> bool:
    return max(arg) < 128 if isinstance(arg, tuple) else bool(arg < 128)


def takes(op: Any, arg: Any, char: int) -> bool:
    """Can this one-character element match ``char``?"""
    if op is sre.LITERAL:
        return bool(arg == char)
    if op is sre.NOT_LITERAL:
        return bool(arg != char)
    if op is sre.ANY:
        return char != NEWLINE
    if op is sre.IN:
        negated = arg[0][0] is sre.NEGATE
        return bool(negated != any(takes(kind, value, char) for kind, value in arg[negated:]))
    if op is sre.RANGE:
        return bool(arg[0] <= char <= arg[1])
    if op is sre.CATEGORY:
        return _CATEGORIES[arg].match(chr(char)) is not None
    return False


def _is_open(op: Any, arg: Any) -> bool:
    return op in REPEATS and (arg[1] is sre.MAXREPEAT or arg[1] > _LARGE)


def _nests(tree: Any, inside: bool) -> bool:
    """Does a repeated group contain an unbounded repeat, so that a text can be divided between them in many ways?"""
    for op, arg in tree:
        if inside and _is_open(op, arg):
            return True
        multiplies = op in REPEATS and arg[1] > 1 and not _has_separator(arg[2])
        if any(_nests(child, inside or multiplies) for child in _children(op, arg)):
            return True
    return False


def _has_separator(tree: Any) -> bool:
    """Does a repeated group begin or end with a character that none of its own repeats takes: ``(,[0-9]+)*``?"""
    while len(tree) == 1 and tree[0][0] is sre.SUBPATTERN:
        tree = tree[0][1][3]
    repeated = [element for op, arg in walk(tree) if op in REPEATS for element in walk(arg[2])]
    for op, arg in (tree[0], tree[-1]):
        if op is sre.LITERAL and not any(takes(kind, value, arg) for kind, value in repeated):
            return True
    return False


def _is_bounded_wide(op: Any, arg: Any) -> bool:
    """``.{0,80}``: hyperscan counts the characters; two of them took 0.2 s to compile, other patterns 1 ms."""
    return op in REPEATS and arg[1] is not sre.MAXREPEAT and arg[1] > _SMALL and _is_wide(arg[2])


def _degree(tree: Any) -> int:
    """Power of the line's length that matching may take: unbounded repeats that can follow each other in one match.

    A repeat of a narrow class (digits, blanks) ends by itself at the next other character and is not counted.
    """
    total = 0
    for op, arg in tree:
        if _is_open(op, arg) and _is_wide(arg[2]):
            total += 1
        elif op is sre.BRANCH:
            total += max((_degree(child) for child in arg[1]), default=0)
        elif op not in (sre.ASSERT, sre.ASSERT_NOT):
            total += sum(_degree(child) for child in _children(op, arg))
    return total


def _is_wide(tree: Any) -> bool:
    """Does the repeated thing take almost any character? ``[^"]*`` does not: it ends at the quote it waits for."""
    return any(op is sre.ANY or (op is sre.NOT_LITERAL and arg == NEWLINE) for op, arg in tree)


def _ends_open(tree: Any) -> bool:
    """Can a match be prolonged by a character that the last element repeats?"""
    op, arg = tree[-1]
    if op in REPEATS:
        return bool(arg[1] is sre.MAXREPEAT or arg[1] - arg[0] > 1)
    if op is sre.SUBPATTERN:
        return len(arg[3]) > 0 and _ends_open(arg[3])
    if op is sre.BRANCH:
        return any(len(child) > 0 and _ends_open(child) for child in arg[1])
    return False
