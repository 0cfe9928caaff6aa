"""Slurm node lists: ``chi[2801-2802,2805]`` to names and back."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: A list longer than this is kept folded: it is not a plausible node list but hostile input.
MAX_NODES = 100_000

#: Slurm's own limit on numeric dimensions of a node name (HIGHEST_DIMENSIONS) is 5.
MAX_DIMENSIONS = 5

_DIGITS = re.compile(r"[0-9]{1,15}")
_NUMBERED = re.compile(r"^(.*?)(\d+)(\D*)$", re.DOTALL)


def expand(text: str | None) -> tuple[str, ...]:
    """Names in a Slurm node list, in order. Malformed input is returned as one name; None and Slurm's words for
    "no nodes" give ()."""
    if not text or text in {"None assigned", "(null)", "None", "Unknown", "N/A"}:
        return ()
    names: list[str] = []
    for part in _split_outside_brackets(text):
        names.extend(_expand_part(part, MAX_NODES - len(names)))
        if len(names) >= MAX_NODES:
            break
    return tuple(names)


def _split_outside_brackets(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for char in text:
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
        if (char == "," or char.isspace()) and depth <= 0:
            parts.append(current)
            current = ""
        else:
            current += char
    parts.append(current)
    return [p for p in parts if p]


def _expand_part(part: str, room: int) -> list[str]:
    open_at = part.find("[")
    close_at = part.find("]", open_at)
    if open_at < 0 or close_at < 0 or part.count("[") > MAX_DIMENSIONS:
        return [part]
    prefix, inside, suffix = part[:open_at], part[open_at + 1 : close_at], part[close_at + 1 :]
    tails = _expand_part(suffix, room) if suffix else [""]
    names: list[str] = []
    for item in inside.split(","):
        low, dash, high = item.partition("-")
        if not dash:
            numbers: Iterable[str] = (item,)
        elif _DIGITS.fullmatch(low) and _DIGITS.fullmatch(high) and (int(high) - int(low)) * len(tails) < room:
            numbers = (str(n).zfill(len(low)) for n in range(int(low), int(high) + 1))
        else:
            return [part]
        names.extend(prefix + number + tail for number in numbers for tail in tails)
        if len(names) > room:
            return [part]
    return names


def fold(names: Iterable[str]) -> str:
    """The shortest usual spelling: ``chi[2801-2802,2805]``. Order of the result is sorted; duplicates are dropped."""
    groups: dict[tuple[str, int, str], list[int]] = {}
    plain: list[str] = []
    for name in sorted(set(names)):
        match = _NUMBERED.match(name)
        if match is None or len(match[2]) > 15:
            plain.append(name)
        else:
            groups.setdefault((match[1], len(match[2]), match[3]), []).append(int(match[2]))
    parts = list(plain)
    for (prefix, width, suffix), numbers in groups.items():
        ranges = _ranges(sorted(numbers), width)
        single = len(ranges) == 1 and "-" not in ranges[0]
        parts.append(f"{prefix}{ranges[0]}{suffix}" if single else f"{prefix}[{','.join(ranges)}]{suffix}")
    return ",".join(parts)


def fold_ranks(ranks: Iterable[int]) -> str:
    """``0-2,5`` for (0, 1, 2, 5)."""
    return ",".join(_ranges(sorted(set(ranks)), 1))


def _ranges(numbers: list[int], width: int) -> list[str]:
    ranges: list[str] = []
    start = previous = None
    for number in [*numbers, None]:
        if start is not None and previous is not None and number != previous + 1:
            low, high = str(start).zfill(width), str(previous).zfill(width)
            ranges.append(low if start == previous else f"{low}-{high}")
            start = number
        elif start is None:
            start = number
        previous = number
    return ranges
