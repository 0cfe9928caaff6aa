"""Tables as sacct prints them: a rule under the heading, field widths (``JobName%20``), fields between bars (-P); on a
terminal cut to fit, and coloured by status."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TextIO

from slurm_triage.errors import UsageError

_FIELD = re.compile(r"^([A-Za-z_]+)(?:%(-?\d+))?$")
_COLOURS = {"failed": "31", "hanging": "33", "unknown": "35", "cancelled": "90", "completed": "32"}
_NARROWEST = 8
_BOLD, _DIM, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[0m"


class Column(NamedTuple):
    """``width``: asked for by the user (``%20``), else None. ``shrinks``: may be cut to fit a terminal."""

    name: str
    right: bool = False
    shrinks: bool = False
    width: int | None = None


class Style(NamedTuple):
    parsable: bool = False
    header: bool = True
    delimiter: str = "|"


def colour_wanted(stream: TextIO) -> bool:
    """Colour only for people: a terminal, and NO_COLOR neither set nor TERM dumb."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def bold(text: str, stream: TextIO) -> str:
    return f"{_BOLD}{text}{_RESET}" if colour_wanted(stream) else text


def dim(text: str, stream: TextIO) -> str:
    return f"{_DIM}{text}{_RESET}" if colour_wanted(stream) else text


def printable(text: str) -> str:
    """Log and rule text must not reach a terminal with control characters in it."""
    return "".join(c if c.isprintable() else "\ufffd" if c not in "\t\n" else " " for c in text)


def parse_fields(text: str, known: Mapping[str, Column]) -> list[Column]:
    """``JobID,JobName%20,Class%-12`` to columns; names in any case. Raises UsageError."""
    columns = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        match = _FIELD.match(part)
        column = known.get(match[1].lower()) if match else None
        if match is None or column is None:
            raise UsageError(f"unknown field {part!r}; the fields are: {', '.join(c.name for c in known.values())}")
        if match[2]:
            width = int(match[2])
            column = Column(column.name, column.right and width > 0, False, abs(width) or None)
        columns.append(column)
    if not columns:
        raise UsageError(f"no field is named; the fields are: {', '.join(c.name for c in known.values())}")
    return columns


def print_table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], style: Style, out: TextIO | None = None
) -> None:
    """``rows`` hold one text per column. On a terminal wide columns are cut to fit (a ``+`` marks the cut)."""
    target = out or sys.stdout
    clean = [[printable(cell) for cell in row] for row in rows]
    if style.parsable:
        lines = ([[c.name for c in columns]] if style.header else []) + clean
        for cells in lines:
            # A bar in a job's name would begin another field.
            safe = [cell.replace(style.delimiter, "/") for cell in cells] if style.delimiter else cells
            target.write(style.delimiter.join(safe) + "\n")
        return
    widths = _widths(columns, clean, _terminal_width(target))
    if style.header:
        target.write(bold(_line(columns, [c.name for c in columns], widths)[:-1], target) + "\n")
        target.write(_line(columns, ["-" * width for width in widths], widths))
    colour = colour_wanted(target)
    for row in clean:
        line = _line(columns, row, widths)
        code = next((_COLOURS[cell] for cell in row if cell in _COLOURS), None) if colour else None
        target.write(f"\x1b[{code}m{line[:-1]}\x1b[0m\n" if code else line)


def _terminal_width(out: TextIO) -> int | None:
    if not out.isatty():
        return None
    import shutil  # 10 ms that look-ups into a pipe need not pay

    return shutil.get_terminal_size().columns


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int | None) -> list[int]:
    widths = [c.width or max([len(c.name), *(len(row[i]) for row in rows)]) for i, c in enumerate(columns)]
    if room is not None:
        # The widest column that may shrink gives way first.
        while sum(widths) + len(widths) - 1 > room:
            shrinkable = [i for i, c in enumerate(columns) if c.shrinks and widths[i] > _NARROWEST]
            if not shrinkable:
                break
            widths[max(shrinkable, key=lambda i: widths[i])] -= 1
    return widths


def _line(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int]) -> str:
    parts = []
    for column, cell, width in zip(columns, cells, widths, strict=True):
        text = cell if len(cell) <= width else cell[: width - 1] + "+"
        parts.append(text.rjust(width) if column.right else text.ljust(width))
    return " ".join(parts).rstrip() + "\n"
