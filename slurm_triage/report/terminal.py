"""The report for a terminal: what happened, why, what it cost and what to do, on one screen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from slurm_triage.model.sentence import sentence
from slurm_triage.report import wording
from slurm_triage.report.as_document import as_document
from slurm_triage.report.document import Document
from slurm_triage.report.evidence import TELLING, Evidence, Quote, groups, select
from slurm_triage.report.plain_text import columns, fit, plain, shown
from slurm_triage.report.progress_table import progress_parts
from slurm_triage.report.rank_table import RankTable, rank_table

if TYPE_CHECKING:
    from slurm_triage.model.report import Report

#: Narrower is unreadable, wider is hard to read; quotes and commands may use all of it.
MIN_WIDTH = 40
MAX_TEXT_WIDTH = 100
#: A screen shows about 24 lines of an unfolded report; the rest is in TRIAGE.md.
MAX_NOTES = 4
MAX_GROUPS = 4
MAX_ROWS = 6
MAX_QUOTE_LINES = 3
_INDENT = "  "
#: Characters in which a finding's title and its link of the causal chain, which is cut, agree.
_TOLD = 100
#: Columns of the rank table that hold log text: the sentence above the table and the evidence tell it.
_LONG_COLUMNS = frozenset({"First error", "Last words"})

_STATUS_COLOUR = {
    "completed": "32",
    "running": "36",
    "cancelled": "33",
    "hanging": "35",
    "failed": "31",
    "unknown": "33",
}
#: For terminals that cannot show these characters.
_ASCII = str.maketrans({"·": "-", "→": ">", "…": "~", "—": "-", "–": "-", "│": "|", "✓": "+", "✗": "x", "×": "x"})


def to_terminal(
    source: Report | Document, *, width: int, color: bool, share: bool = False, ascii_only: bool = False
) -> str:
    """The report in at most ``width`` columns, ending in a line end.

    ``color``: with ANSI colours. ``ascii_only``: for terminals without UTF-8. Commands are never wrapped, so that they
    can be copied; they may be wider.
    """
    document = as_document(source, share=share)
    view = _View(max(width, MIN_WIDTH), color)
    _head(view, document)
    _cause(view, document)
    _history(view, document)
    _ranks(view, rank_table(document))
    _evidence(view, select(document), document)
    _numbers(view, document)
    _findings(view, document)
    _next(view, document)
    text = "\n".join(view.lines) + "\n"
    return text.translate(_ASCII).encode("ascii", "replace").decode() if ascii_only else text


class _View:
    """Lines of the screen. All text passes through here and is made plain, so nothing can move the cursor."""

    def __init__(self, width: int, color: bool) -> None:
        self.width = width
        self.text_width = min(width, MAX_TEXT_WIDTH)
        self.color = color
        self.lines: list[str] = []

    def paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.color and text else text

    def bold(self, text: str) -> str:
        return self.paint(text, "1")

    def dim(self, text: str) -> str:
        return self.paint(text, "2")

    def section(self, title: str) -> None:
        self.lines += ["", self.bold(title)]

    def wrapped(self, text: str, first: str = _INDENT, rest: str | None = None) -> None:
        """A paragraph. Backticks that mark code are left out: the terminal has no other use for them."""
        clean = re.sub(r"`([^`]*)`", r"\1", plain(text))
        rest = " " * len(first) if rest is None else rest
        self.lines += wrap(clean, self.text_width, first, rest)

    def cut(self, text: str, code: str | None = None) -> None:
        """One line of log text, cut at the edge of the screen."""
        line = fit(_INDENT + plain(text), self.width)
        self.lines.append(self.paint(line, code) if code else line)


def joined(parts: Iterable[str], width: int, first: str = "", rest: str = "") -> list[str]:
    """``a · b · c`` in lines of ``width`` columns that break between parts where they can."""
    lines: list[str] = []
    line = ""
    for part in map(plain, parts):
        longer = f"{line} · {part}" if line else (rest if lines else first) + part
        if line and columns(longer) > width:
            lines.append(line)
            longer = rest + part
        line = longer
        if columns(line) > width:
            *full, line = wrap(line.lstrip(), width, rest if lines else first, rest)
            lines += full
    return [*lines, line] if line else lines


def wrap(text: str, width: int, first: str, rest: str) -> list[str]:
    """``text`` in lines of ``width`` columns (textwrap counts characters, of which some take two columns or none)."""
    lines: list[str] = []
    line = first
    for word in text.split():
        for piece in _pieces(word, width - len(rest)):
            glue = "" if line in {first, rest} else " "
            if glue and columns(line) + 1 + columns(piece) > width:
                lines.append(line)
                line, glue = rest, ""
            line += glue + piece
    return [*lines, line]


def _pieces(word: str, width: int) -> list[str]:
    pieces, current = [], ""
    for char in word:
        if current and columns(current + char) > width:
            pieces.append(current)
            current = ""
        current += char
    return [*pieces, current]


def _head(view: _View, document: Document) -> None:
    status, job = document["status"], document["job"]
    attempt = f" attempt {job['attempt']}" if job["attempt"] and job["attempt"] > 1 else ""
    label = plain(f"{wording.job_label(document)}{attempt}")
    state = status.upper()
    room = view.width - len(state) - columns(label) - 4
    name = fit(plain(str(job["name"] or "")), room) if room > 8 else ""
    colour = _STATUS_COLOUR.get(status, "0")
    view.lines.append(f"{view.paint(state, f'1;{colour}')}  {view.bold(label)}  {view.dim(name)}".rstrip())
    view.lines += [view.dim(line) for line in joined(wording.job_facts(document), view.text_width)]


def _cause(view: _View, document: Document) -> None:
    primary = document["primary"]
    if primary is not None:
        colour = _STATUS_COLOUR.get(document["status"], "0")
        parts = [
            primary["class"],
            f"{primary['confidence']} confidence",
            f"stage {primary['stage']}" if primary["stage"] else "",
            f"fault domain: {primary['domain']}",
            wording.retry_clause(document),
        ]
        first, *rest = joined(filter(None, parts), view.text_width)
        cls, behind = plain(primary["class"]), first.removeprefix(plain(primary["class"]))
        view.lines += ["", view.paint(cls, f"1;{colour}") + view.dim(behind), *map(view.dim, rest)]
    narrative = document["narrative"] or ""
    if primary is not None and primary["title"].removesuffix(")").lower() not in narrative.lower():
        # Most stories begin with it.
        narrative = f"{sentence(wording.cause_clause(document))} {narrative}".rstrip()
    if narrative:
        view.lines.append("")
        view.wrapped(narrative, "", "")
    for index, event in enumerate(wording.chain_lines(document), 1):
        view.wrapped(event, f"{index:3}. ")


def _history(view: _View, document: Document) -> None:
    if lines := wording.history_lines(document):
        view.section("History")
    for line in lines:
        view.wrapped(line, f"{_INDENT}· ")


def _ranks(view: _View, table: RankTable | None) -> None:
    if table is None:
        return
    view.section("Ranks")
    view.wrapped(table.summary)
    short = [i for i, name in enumerate(table.columns) if name not in _LONG_COLUMNS]
    if len(short) < 2:
        # Nothing but the numbers that the sentence holds.
        return
    rows = [tuple(name.lower() for name in table.columns), *(tuple(map(plain, row)) for row in table.rows[:MAX_ROWS])]
    hidden = len(table.rows) - MAX_ROWS
    widths = [max(columns(row[i]) for row in rows) for i in range(len(table.columns))]
    for index, row in enumerate(rows):
        cells = (row[i] + " " * (widths[i] - columns(row[i])) for i in short)
        view.cut("  ".join(cells).rstrip(), "2" if index == 0 else None)
    if hidden > 0 or table.rest:
        view.cut(table.rest or f"{wording.plural(hidden, 'more row')} in TRIAGE.md", "2")


def _evidence(view: _View, evidence: Evidence, document: Document) -> None:
    if not (evidence.quotes or evidence.unseen or evidence.last_words or evidence.telling or document["evidence"]):
        return
    view.section("Evidence")
    for reason in evidence.unseen:
        view.wrapped(reason)
    _quotes(view, evidence.quotes)
    for line in evidence.last_words:
        view.cut(line)
    if evidence.telling:
        view.wrapped(TELLING)
        _quotes(view, evidence.telling)
    for name, lines in document["evidence"].items():
        view.cut(f"{name}:", "2")
        for line in lines[:MAX_NOTES]:
            view.wrapped(shown(line), _INDENT * 2)
    if evidence.legend:
        # Never cut or wrapped: it is there to be copied.
        view.lines.append(view.dim(f"{_INDENT}log = {plain(evidence.legend)}"))


def _quotes(view: _View, quotes: Sequence[Quote]) -> None:
    places = [plain(q.place + ("" if q.rank is None else f" rank {q.rank}")) for q in quotes]
    places = [fit(place, view.width // 2 - 4) for place in places]
    gutter = max(map(columns, places), default=0)
    for quote, place in zip(quotes, places, strict=True):
        _quote(view, f"{_INDENT}{place}{' ' * (gutter - columns(place))} │ ", quote)


def _quote(view: _View, head: str, quote: Quote) -> None:
    """The line, folded at the edge of the screen, with its place in front; then the lines that belong to it."""
    blank = " " * (columns(head) - 2) + "│ "
    room = view.width - columns(head)
    lines = wrap(quote.text, room, "", "")
    if len(lines) > MAX_QUOTE_LINES:
        lines = [*lines[: MAX_QUOTE_LINES - 1], fit(" ".join(lines[MAX_QUOTE_LINES - 1 :]), room)]
    view.lines.append(view.dim(head) + lines[0])
    view.lines += [view.dim(blank) + line for line in lines[1:]]
    view.lines += [view.dim(fit(blank + text, view.width)) for text in quote.block]


def _numbers(view: _View, document: Document) -> None:
    blank = " " * 12
    rows = {
        "Progress": joined(progress_parts(document), view.text_width, blank, blank),
        "Cost": joined(filter(None, [sentence(wording.cost_clause(document))]), view.text_width, blank, blank),
        "Throughput": joined(wording.throughput_lines(document), view.text_width, blank, blank),
    }
    if any(rows.values()):
        view.lines.append("")
    for name, lines in rows.items():
        if lines:
            view.lines += [view.bold(name) + lines[0][len(name) :], *lines[1:]]


def _findings(view: _View, document: Document) -> None:
    found, rest = groups(document)
    # The numbered chain above has told of these.
    chain = document["chain"] if len(document["chain"]) > 1 else []
    kinds = [k for k in found if not any(event.startswith(f"{k.role}: {k.cls}: {k.title[:_TOLD]}") for event in chain)]
    lines = [f"{k.cls} ({k.role}): {k.title}" + (f" — {k.who}" if k.who else "") for k in kinds[:MAX_GROUPS]]
    more = rest + max(0, len(kinds) - MAX_GROUPS)
    lines += [f"{wording.plural(more, 'more kind')} of findings in TRIAGE.md"] if more else []
    lines += wording.suspect_lines(document)
    lines += wording.attempt_lines(document)[-MAX_NOTES:]
    lines += wording.all_notes(document)[:MAX_NOTES]
    if lines:
        view.section("Also")
    for line in lines:
        view.wrapped(shown(line, 600), f"{_INDENT}· ")


def _next(view: _View, document: Document) -> None:
    steps: Sequence[str] = document["next_steps"] or (
        () if wording.is_healthy(document) else [wording.default_step(document)]
    )
    if steps:
        view.section("Next")
    for index, step in enumerate(steps, 1):
        view.wrapped(step, f"{index:3}. ")
    sentence, command = wording.resubmit_sentence(document), document["resubmit"]["command"]
    if sentence or command:
        view.lines.append("")
        view.wrapped(sentence, "", "")
    _commands(view, [command, document["dashboards"]["tunnel_command"] if document["dashboards"]["live"] else None])


def _commands(view: _View, commands: Iterable[str | None]) -> None:
    for command in commands:
        if command:
            view.lines.append(_INDENT + view.paint(shown(command, 4000), "1;36"))
