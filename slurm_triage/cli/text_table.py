"""Tables as sacct prints them: fixed columns with a rule under the header, or fields between bars (-P)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from slurm_triage.errors import UsageError

_BOLD, _DIM, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[0m"


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


def pick_fields(wanted: str | None, known: Sequence[str], default: Sequence[str]) -> list[str]:
    """Fields of ``-o a,b``. Raises UsageError naming the ones there are."""
    if wanted is None:
        return list(default)
    fields = [name.strip().lower() for name in wanted.split(",") if name.strip()]
    for name in fields:
        if name not in known:
            raise UsageError(f"unknown field '{name}'; choose from {','.join(known)}")
    if not fields:
        raise UsageError(f"-o needs fields; choose from {','.join(known)}")
    return fields


def render(
    rows: Sequence[Mapping[str, str]],
    fields: Sequence[str],
    *,
    parsable: bool = False,
    header: bool = True,
    stream: TextIO | None = None,
) -> str:
    """The whole table with a newline at its end. On a terminal the last column is cut to the screen's width."""
    stream = stream or sys.stdout
    titles = {name: name.replace("_", " ").title().replace(" ", "") for name in fields}
    if parsable:
        lines = ["|".join(titles[f] for f in fields)] if header else []
        lines += ["|".join(printable(row[f]).replace("|", "/") for f in fields) for row in rows]
        return "".join(line + "\n" for line in lines)
    cells = [{f: printable(row[f]) for f in fields} for row in rows]
    width = {f: max([len(titles[f]) if header else 1, *(len(row[f]) for row in cells)]) for f in fields}
    if stream.isatty():
        import shutil  # 10 ms that look-ups into a pipe need not pay

        others = sum(width[f] + 1 for f in fields[:-1])
        room = max(10, shutil.get_terminal_size().columns - others)
        width[fields[-1]] = min(width[fields[-1]], room)

    def line(row: Mapping[str, str]) -> str:
        return " ".join(_fit(row[f], width[f]) for f in fields).rstrip() + "\n"

    out = []
    if header:
        out.append(bold(line(titles).rstrip("\n"), stream) + "\n")
        out.append(line({f: "-" * width[f] for f in fields}))
    out += [line(row) for row in cells]
    return "".join(out)


def _fit(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: width - 1] + "+"
