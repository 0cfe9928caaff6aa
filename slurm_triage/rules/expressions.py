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

_NEWLINE = ord("\n")

#: Repeats of more than this many count as unbounded.
_LARGE = 64

#: Bounded repeats up to this many are cheap.
_SMALL = 16

#: hyperscan looks for literals first; patterns without one of this many bytes slow down the scan for every rule.
MIN_LITERAL_BYTES = 3

#: Literal pieces from this length on decide where the scanner stops.
_LONG_PIECE = 6
_MANY_PIECES = 256
_WIDE_REPEAT = re.compile(r"(?<!\\)(\.|\[\^[^\]]*\])(\*|\+|\{)")

_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT)
_CATEGORIES = {
    sre.CATEGORY_DIGIT: re.compile(r"\d"),
    sre.CATEGORY_NOT_DIGIT: re.compile(r"\D"),
    sre.CATEGORY_SPACE: re.compile(r"\s"),
    sre.CATEGORY_NOT_SPACE: re.compile(r"\S"),
    sre.CATEGORY_WORD: re.compile(r"\w"),
    sre.CATEGORY_NOT_WORD: re.compile(r"\W"),
}


def _parse(pattern: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return sre_parser.parse(pattern)


def python_problem(pattern: str) -> str | None:
    """Why ``pattern`` is not a Python expression, or may take time beyond the square of the line's length."""
    try:
        tree = _parse(pattern)
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
        if op in _REPEATS and arg[0] == 0 and arg[1] is not sre.MAXREPEAT:
            continue
        return position + 1 < len(tree) and _is_unbounded([(op, arg)])
    return False


def _is_unbounded(tree: Any) -> bool:
    return len(tree) == 1 and tree[0][0] in _REPEATS and tree[0][1][1] is sre.MAXREPEAT


def group_names(pattern: str) -> frozenset[str]:
    try:
        return frozenset(re.compile(pattern).groupindex)
    except re.error:
        return frozenset()


def literal_prefix_bytes(pattern: str) -> int:
    """Length of the plain text that every match begins with."""
    length = 0
    for op, arg in _parse(pattern):
        if op is not sre.LITERAL:
            break
        length += len(chr(arg).encode())
    return length


def pattern_problems(pattern: str) -> list[str]:
    """Faults of an expression for hyperscan: it must also be a Python expression and stay within one line."""
    try:
        tree = _parse(pattern)
    except (re.error, RecursionError, FutureWarning, DeprecationWarning) as error:
        return [f"not a plain expression: {error}"]
    problems = []
    if any(op is sre.AT and arg not in (sre.AT_BOUNDARY, sre.AT_NON_BOUNDARY) for op, arg in _walk(tree)):
        problems.append("^ and $ do not work here (a line begins with a rank label); use verify")
    if tree.state.flags & (re.DOTALL | re.MULTILINE | re.VERBOSE):
        problems.append("inline flags (?s) (?m) (?x) are not allowed")
    if tree.state.flags & re.IGNORECASE:
        problems.append("write caseless = true instead of (?i)")
    if any(_takes(op, arg, _NEWLINE) for op, arg in _walk(tree)):
        problems.append(r"can match a newline; write [^x\n] for [^x], [ \t] for \s, [^0-9\n] for \D")
    if any(op in (sre.LITERAL, sre.NOT_LITERAL, sre.RANGE) and not _is_ascii(arg) for op, arg in _members(tree)):
        problems.append("a character class holds a non-ASCII character, but patterns match bytes; write a group (a|b)")
    if len(tree) and _ends_open(tree):
        problems.append("ends in a repeat, so every further character is reported again; drop the repeat")
    if sum(_is_bounded_wide(op, arg) for op, arg in _walk(tree)) > 1:
        problems.append(r"two bounded repeats make a large automaton; write [^\n]*, a match never leaves its line")
    if _literal_bytes(tree) < MIN_LITERAL_BYTES:
        problems.append(f"has no literal of {MIN_LITERAL_BYTES} bytes that every match contains; it slows every scan")
    return problems


def _walk(tree: Any) -> Iterable[tuple[Any, Any]]:
    """All (operator, argument) pairs of a parsed expression."""
    for op, arg in tree:
        yield op, arg
        for child in _children(op, arg):
            yield from _walk(child)


def _children(op: Any, arg: Any) -> list[Any]:
    """Sub-expressions of one operator."""
    if op in _REPEATS or op is getattr(sre, "POSSESSIVE_REPEAT", None):
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
    for op, arg in _walk(tree):
        if op is sre.IN:
            yield from arg
        elif op is sre.NOT_LITERAL:
            yield op, arg


def _is_ascii(arg: Any) -> bool:
    return max(arg) < 128 if isinstance(arg, tuple) else bool(arg < 128)


def _takes(op: Any, arg: Any, char: int) -> bool:
    """Can this one-character element match ``char``?"""
    if op is sre.LITERAL:
        return bool(arg == char)
    if op is sre.NOT_LITERAL:
        return bool(arg != char)
    if op is sre.ANY:
        return char != _NEWLINE
    if op is sre.IN:
        negated = arg[0][0] is sre.NEGATE
        return bool(negated != any(_takes(kind, value, char) for kind, value in arg[negated:]))
    if op is sre.RANGE:
        return bool(arg[0] <= char <= arg[1])
    if op is sre.CATEGORY:
        return _CATEGORIES[arg].match(chr(char)) is not None
    return False


def _is_open(op: Any, arg: Any) -> bool:
    return op in _REPEATS and (arg[1] is sre.MAXREPEAT or arg[1] > _LARGE)


def _nests(tree: Any, inside: bool) -> bool:
    """Does a repeated group contain an unbounded repeat, so that a text can be divided between them in many ways?"""
    for op, arg in tree:
        if inside and _is_open(op, arg):
            return True
        multiplies = op in _REPEATS and arg[1] > 1 and not _has_separator(arg[2])
        if any(_nests(child, inside or multiplies) for child in _children(op, arg)):
            return True
    return False


def _has_separator(tree: Any) -> bool:
    """Does a repeated group begin or end with a character that none of its own repeats takes: ``(,[0-9]+)*``?"""
    while len(tree) == 1 and tree[0][0] is sre.SUBPATTERN:
        tree = tree[0][1][3]
    repeated = [element for op, arg in _walk(tree) if op in _REPEATS for element in _walk(arg[2])]
    for op, arg in (tree[0], tree[-1]):
        if op is sre.LITERAL and not any(_takes(kind, value, arg) for kind, value in repeated):
            return True
    return False


def _is_bounded_wide(op: Any, arg: Any) -> bool:
    """``.{0,80}``: hyperscan counts the characters; two of them took 0.2 s to compile, other patterns 1 ms."""
    return op in _REPEATS and arg[1] is not sre.MAXREPEAT and arg[1] > _SMALL and _is_wide(arg[2])


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
    return any(op is sre.ANY or (op is sre.NOT_LITERAL and arg == _NEWLINE) for op, arg in tree)


def _ends_open(tree: Any) -> bool:
    """Can a match be prolonged by a character that the last element repeats?"""
    op, arg = tree[-1]
    if op in _REPEATS:
        return bool(arg[1] is sre.MAXREPEAT or arg[1] - arg[0] > 1)
    if op is sre.SUBPATTERN:
        return len(arg[3]) > 0 and _ends_open(arg[3])
    if op is sre.BRANCH:
        return any(len(child) > 0 and _ends_open(child) for child in arg[1])
    return False


def _literal_bytes(tree: Any) -> int:
    """Length of the longest literal that every match contains."""
    best = run = 0
    for op, arg in tree:
        if op is sre.LITERAL or _is_small_choice(op, arg):
            run += 1 if op is sre.IN else len(chr(arg).encode("utf-8", "surrogatepass"))
            best = max(best, run)
            continue
        inner = 0
        if op is sre.SUBPATTERN:
            inner = _literal_bytes(arg[3])
            if all(child_op is sre.LITERAL for child_op, _ in arg[3]):
                run += inner
                best = max(best, run)
                continue
        elif op is sre.BRANCH:
            inner = min(_literal_bytes(child) for child in arg[1])
        elif op in _REPEATS and arg[0] >= 1:
            inner = _literal_bytes(arg[2])
        run = 0
        best = max(best, inner)
    return best


def _is_small_choice(op: Any, arg: Any) -> bool:
    """A class of a few characters, such as the parser makes of ``(abc|abd)``, is as good as a literal."""
    return op is sre.IN and len(arg) <= 4 and all(kind is sre.LITERAL for kind, _ in arg)


def literal_tails(pattern: str) -> set[str]:
    """The last 8 characters (hyperscan compares no more at first) of each literal piece of a pattern, as the scanner
    sees it: alternatives are multiplied out, ``to (save|load) it`` is two pieces. Pieces below 6 characters are left
    out: hyperscan prefers longer ones."""
    tails: set[str] = set()
    tails |= _grow(_parse(pattern), {""}, tails)
    return {tail[-8:] for tail in tails if len(tail) >= _LONG_PIECE}


def _grow(tree: Any, pieces: set[str], done: set[str]) -> set[str]:
    """Literal pieces that are still open at the end of ``tree``; those that ended within go to ``done``."""
    for op, arg in tree:
        if op is sre.LITERAL:
            pieces = {piece + chr(arg) for piece in pieces}
        elif op is sre.SUBPATTERN:
            pieces = _grow(arg[3], pieces, done)
        elif op is sre.BRANCH:
            pieces = set().union(*(_grow(child, pieces, done) for child in arg[1]))
        elif _is_small_choice(op, arg):
            pieces = {piece + chr(char) for piece in pieces for _, char in arg}
        elif op in _REPEATS and arg[:2] == (0, 1):
            pieces = pieces | _grow(arg[2], pieces, done)
        elif op is not sre.AT:
            done |= pieces
            pieces = {""}
        if len(pieces) > _MANY_PIECES:
            done |= pieces
            pieces = {""}
    return pieces


def wide_head(pattern: str) -> str | None:
    """What stands before the first ``.*`` or ``.{0,80}`` of a pattern, if that is a whole expression."""
    found = _WIDE_REPEAT.search(pattern)
    if found is None:
        return None
    head = pattern[: found.start()]
    try:
        re.compile(head)
    except re.error:
        return None
    return head
