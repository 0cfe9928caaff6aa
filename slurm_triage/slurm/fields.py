"""Single values as Slurm's tools write them, turned into ours. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from slurm_triage.errors import AccountingError

#: Slurm's words for "there is no value".
NOTHING = frozenset({"", "None", "Unknown", "N/A", "(null)", "None assigned", "INVALID"})

#: 365 days: what the backfill scheduler writes into jobs without a limit (seen on 22.05 to 26.05).
NO_LIMIT_S = 365 * 86400.0

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_SIZE = re.compile(r"([\d.]+)([KMGTP]?)")
_CANCELLED_BY = re.compile(r"CANCELLED by (\d+)")
_GPU_COUNT = re.compile(r"(?:^|,)gres/gpu=(\d+)")


def text(value: str | None) -> str | None:
    """The value, or None for Slurm's words for nothing."""
    return None if value is None or value in NOTHING else value


def rows(output: str, delimiter: str, columns: Sequence[str]) -> Iterator[dict[str, str]]:
    """Rows in which every field is followed by the delimiter; each ends with a newline.

    Raises AccountingError when the output ends within a row.
    """
    values = output.split(delimiter)
    tail = values.pop()
    if len(values) % len(columns) or tail.strip("\n"):
        raise AccountingError("Slurm's answer ends in the middle of a row; ask again")
    for first in range(0, len(values), len(columns)):
        row = values[first : first + len(columns)]
        row[0] = row[0].removeprefix("\n")
        yield dict(zip(columns, row, strict=True))


def number(value: str | None) -> int | None:
    return int(value) if value is not None and value.isascii() and value.isdigit() else None


def state(value: str | None) -> tuple[str | None, int | None]:
    """(state, uid of who cancelled it) of ``CANCELLED by 2001``; a trailing ``+`` (cut column) is removed."""
    if text(value) is None or value is None:
        return None, None
    by = _CANCELLED_BY.match(value)
    if by is not None:
        return "CANCELLED", int(by[1])
    return value.partition(" ")[0].rstrip("+"), None


def size_bytes(value: str | None) -> int | None:
    """Bytes in ``1234K``; None for nothing and for 0, which Slurm writes when it did not look."""
    match = _SIZE.fullmatch(value or "")
    if match is None:
        return None
    return int(float(match[1]) * _UNITS[match[2]]) or None


def gpus(tres: str | None) -> int | None:
    """Number of GPUs in ``billing=1,gres/gpu=2,gres/gpu:a100=2``; None if it names none."""
    match = _GPU_COUNT.search(tres or "")
    return int(match[1]) if match else None


def time_limit_s(minutes: str | None) -> float | None:
    """Seconds in a number of minutes; None for UNLIMITED, Partition_Limit and NO_LIMIT_S."""
    count = number(minutes)
    return None if count is None or count * 60.0 == NO_LIMIT_S else count * 60.0


def epoch(value: str | None) -> float | None:
    """Seconds since the epoch in ``1796018056``; None for Unknown, None and 0."""
    seconds = number(value)
    return float(seconds) if seconds else None
