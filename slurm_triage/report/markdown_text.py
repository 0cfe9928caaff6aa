"""Untrusted text inside Markdown: it may be read as words only, never as structure, link, image, HTML or formula.

The raw file is read as often as the rendered page, so only what could be taken for markup is escaped. Checked against a
CommonMark parser in tests/report/test_report_hostile.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from slurm_triage.report.plain_text import plain, shown

_BACKTICKS = re.compile(r"`+")
_CODE_SPAN = re.compile(r"`([^`]+)`")
#: An underscore between two word characters is never emphasis; elsewhere it may be.
_ALWAYS = re.compile(r"[\\*~$`]|(?<![^\W_])_|_(?![^\W_])")
_ENTITY = re.compile(r"&(?=#?\w{1,40};)")
#: `](` and `][` make links; `://`, `www.` and `mailto:` make them unasked. (`[x]: y` does so only where a line begins.)
_LINK = re.compile(r"(?<=\])[(\[]|:(?=//)|(?<=www)\.|:(?=\w)(?<=mailto:)|:(?=\w)(?<=xmpp:)", re.IGNORECASE)
#: What begins a heading, list, quote, rule, fence, table or definition when a line begins with it.
_LINE_START = re.compile(r"^(?:[#>=:|\[!]|[+-](?=[\s+-]|$)|(\d{1,9})(?=[.)](?:\s|$)))")


class Markdown(str):
    """Text that is Markdown already; everything else is escaped when a template prints it."""

    __slots__ = ()


def escape(text: str, limit: int = 300) -> Markdown:
    """One line of words. ``limit`` counts the characters of ``text`` that are kept."""
    return Markdown(_at_line_start(_escape_inline(shown(text, limit))))


def prose(text: str, limit: int = 1000) -> Markdown:
    """One line of words in which pairs of backticks mark code, as the sentences of rules and diagnosis have them."""
    line = shown(text, limit)
    parts = []
    position = 0
    for span in _CODE_SPAN.finditer(line):
        parts.append(_escape_inline(line[position : span.start()]))
        parts.append(code(span[1], limit))
        position = span.end()
    parts.append(_escape_inline(line[position:]))
    return Markdown(_at_line_start("".join(parts)))


def code(text: str, limit: int = 300) -> Markdown:
    """A code span whose delimiters are longer than any run of backticks inside."""
    line = shown(text, limit)
    if not line:
        return Markdown("")
    runs = {len(run) for run in _BACKTICKS.findall(line)}
    fence = "`" * next(n for n in range(1, len(runs) + 2) if n not in runs)
    pad = " " if line[0] == "`" or line[-1] == "`" else ""
    return Markdown(f"{fence}{pad}{line}{pad}{fence}")


def cell(text: str) -> Markdown:
    """Markdown that may stand in a table cell: pipes are escaped there even inside code."""
    return Markdown(re.sub(r"\\*\|", _escaped_pipe, text))


def _escaped_pipe(match: re.Match[str]) -> str:
    # An even number of backslashes leaves the pipe bare. One more makes the table see an escaped pipe.
    return match[0] if len(match[0]) % 2 == 0 else match[0][:-1] + "\\|"


def fenced(lines: Iterable[str], info: str = "text") -> Markdown:
    """A fenced code block. Lines are shown as they are; the fence is longer than any run of backticks in them."""
    kept = [plain(line) for line in lines]
    longest = max((len(run) for line in kept for run in _BACKTICKS.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markdown("\n".join([f"{fence}{info}", *kept, fence]))


def finalize(value: Any) -> Any:
    """For jinja2's ``finalize``: what a template prints is escaped unless it is Markdown already."""
    if isinstance(value, Markdown):
        return value
    return "unknown" if value is None else prose(str(value))


def _escape_inline(text: str) -> str:
    text = _ENTITY.sub("&amp;", text)
    text = _ALWAYS.sub(r"\\\g<0>", text)
    text = _LINK.sub(r"\\\g<0>", text)
    return text.replace("<", "&lt;")


def _at_line_start(text: str) -> str:
    match = _LINE_START.match(text)
    if match is None:
        return text
    if match[1]:
        return f"{match[1]}\\{text[match.end() :]}"
    return "\\" + text
