"""``TRIAGE.md``: the seed's output format, heading by heading, below one line that can be pasted into a chat."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_triage.model.sentence import sentence
from slurm_triage.report import wording
from slurm_triage.report.as_document import as_document
from slurm_triage.report.document import Document
from slurm_triage.report.evidence import TELLING, Group, Quote, groups, select
from slurm_triage.report.markdown_text import Markdown, cell, code, escape, fenced, finalize, prose
from slurm_triage.report.plain_text import shown
from slurm_triage.report.progress_table import NO_STEPS, progress_rows
from slurm_triage.report.rank_table import rank_table

if TYPE_CHECKING:
    from jinja2 import Template

    from slurm_triage.model.report import Report

TEMPLATES = Path(__file__).parent / "templates"

_MAX_PATH = 4096
_MAX_COMMAND = 4000
_MAX_NOTES = 12


def to_markdown(source: Report | Document, *, share: bool = False) -> str:
    """The report as Markdown. ``share``: without private names (see ``redact``)."""
    document = as_document(source, share=share)
    return _template().render(_variables(document))


@cache
def _template() -> Template:
    # jinja2 takes longer to import (70 ms) than everything else a look-up by job id does.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return environment.get_template("triage.md.j2")


def _variables(document: Document) -> dict[str, Any]:
    primary = document["primary"]
    healthy = wording.is_healthy(document)
    evidence = select(document)
    table = rank_table(document)
    progress = progress_rows(document)
    return {
        "d": document,
        "summary": prose(wording.chat_line(document), 600),
        "path": escape(wording.log_path(document), _MAX_PATH),
        "primary": primary,
        "healthy": healthy,
        "stage": (primary["stage"] if primary else None) or ("none" if healthy else wording.UNKNOWN),
        "retry": wording.retry_clause(document) if primary else None,
        "facts": " · ".join(wording.job_facts(document)),
        "narrative": prose(document["narrative"] or wording.cause_clause(document)),
        "chain": wording.chain_lines(document),
        "table": None if table is None else _table(table.columns, table.rows),
        "ranks": None if table is None else table.summary,
        "table_rest": None if table is None else table.rest,
        "unseen": evidence.unseen,
        "quotes": _quotes(evidence.quotes, evidence.last_words),
        "telling": _quotes(evidence.telling),
        "telling_head": TELLING,
        "legend": None if evidence.legend is None else code(evidence.legend, _MAX_PATH),
        "measured": [(name, fenced(shown(line) for line in lines)) for name, lines in document["evidence"].items()],
        "progress": _table(("Metric", "Value"), progress) if progress else NO_STEPS,
        "throughput": wording.throughput_lines(document),
        "findings": _findings(document),
        "tunnel": _command(document["dashboards"]["tunnel_command"]),
        "dashboards": prose(wording.dashboards_sentence(document)),
        "steps": document["next_steps"] or [wording.default_step(document)],
        "command": _command(document["resubmit"]["command"]),
        "resubmit": wording.resubmit_sentence(document),
        "more": _quotes(evidence.more),
    }


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Markdown:
    lines = [columns, *rows]
    body = ["| " + " | ".join(cell(escape(text, _MAX_PATH)) for text in line) + " |" for line in lines]
    rule = "|" + "|".join("-" * (len(name) + 2) for name in columns) + "|"
    return Markdown("\n".join([body[0], rule, *body[1:]]))


def quote_lines(quotes: Sequence[Quote]) -> list[str]:
    """The place of each line, the rank if known, the line as it stands, and what follows it."""
    lines: list[str] = []
    for quote in quotes:
        rank = "" if quote.rank is None else f" [rank {quote.rank}]"
        lines.append(f"{quote.place}:{rank} {quote.text}")
        lines.extend(f"    {line}" for line in quote.block)
    return lines


def _quotes(quotes: Sequence[Quote], others: Sequence[str] = ()) -> Markdown | None:
    lines = [*quote_lines(quotes), *others]
    return fenced(lines) if lines else None


def _command(command: str | None) -> Markdown | None:
    return fenced([shown(command, _MAX_COMMAND)], "sh") if command else None


def _findings(document: Document) -> list[Markdown]:
    kinds, rest = groups(document)
    lines = [prose(line) for line in wording.history_lines(document)] + [_group(kind) for kind in kinds]
    if rest:
        lines.append(escape(f"{wording.plural(rest, 'more kind')} of findings in triage.json."))
    lines.extend(prose(line) for line in wording.suspect_lines(document))
    lines.extend(prose(line) for line in wording.attempt_lines(document)[-_MAX_NOTES:])
    lines.extend(prose(note) for note in wording.all_notes(document)[:_MAX_NOTES])
    return lines


def _group(kind: Group) -> Markdown:
    at = "" if kind.place is None else f", first at {code(kind.place)}"
    who = f" — {escape(kind.who)}{at}" if kind.who else ""
    why = f". {prose(sentence(kind.why))}" if kind.why else ""
    return Markdown(f"{code(kind.cls)} ({escape(kind.role)}): {prose(kind.title)}{who}{why}")
