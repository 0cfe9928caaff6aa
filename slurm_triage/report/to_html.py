"""The report as one HTML page: no scripts, nothing loaded from elsewhere, light and dark, printable."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from slurm_triage.report import wording
from slurm_triage.report.as_document import as_document
from slurm_triage.report.document import Document
from slurm_triage.report.evidence import TELLING, groups, select
from slurm_triage.report.markdown import TEMPLATES, quote_lines
from slurm_triage.report.plain_text import plain
from slurm_triage.report.progress_table import NO_STEPS, progress_rows
from slurm_triage.report.rank_table import rank_table

if TYPE_CHECKING:
    from jinja2 import Template

    from slurm_triage.model.report import Report

_CODE = re.compile(r"`([^`]+)`")


def to_html(source: Report | Document, *, share: bool = False) -> str:
    """A self-contained page. jinja2 escapes every value; the content policy allows one style sheet, by its hash."""
    document = as_document(source, share=share)
    template, style, digest = _page()
    evidence = select(document)
    kinds, rest = groups(document)
    findings = [f"`{k.cls}` ({k.role}): {k.title}" + (f" — {k.who}" if k.who else "") for k in kinds]
    findings += [f"{wording.plural(rest, 'more kind')} of findings in triage.json."] if rest else []
    findings += wording.history_lines(document)
    findings += wording.suspect_lines(document) + wording.attempt_lines(document) + wording.all_notes(document)
    primary = document["primary"]
    return template.render(
        d=document,
        style=style,
        style_hash=digest,
        label=wording.job_label(document),
        primary=primary,
        cause=wording.cause_clause(document),
        retry=wording.retry_clause(document) if primary else None,
        facts=" · ".join(wording.job_facts(document)),
        narrative=document["narrative"] or wording.cause_clause(document),
        chain=wording.chain_lines(document),
        table=rank_table(document),
        steps=document["next_steps"] or [wording.default_step(document)],
        resubmit=wording.resubmit_sentence(document),
        evidence=evidence,
        quotes="\n".join([*quote_lines(evidence.quotes), *evidence.last_words]),
        telling="\n".join(quote_lines(evidence.telling)),
        telling_head=TELLING,
        more="\n".join(quote_lines(evidence.more)),
        progress=progress_rows(document),
        no_steps=NO_STEPS,
        throughput=wording.throughput_lines(document),
        findings=findings,
        dashboards=wording.dashboards_sentence(document),
        healthy=wording.is_healthy(document),
    )


@cache
def _page() -> tuple[Template, Any, Any]:
    """The template, the style sheet, and the content policy's word for that sheet."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["code_parts"] = code_parts
    style = (TEMPLATES / "triage.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    # Both come from this package; in a style sheet HTML escapes would be read literally.
    return environment.get_template("triage.html.j2"), Markup(style), Markup(f"sha256-{digest}")


def code_parts(text: str) -> list[str]:
    """``text`` split at its code marks: words, code, words, code ..."""
    return _CODE.split(text)


def _finalize(value: Any) -> Any:
    """What is printed: "unknown" for None, and no invisible character except line ends."""
    from markupsafe import Markup

    if value is None:
        return wording.UNKNOWN
    if isinstance(value, str) and not isinstance(value, Markup):
        return "\n".join(plain(line) for line in value.split("\n"))
    return value
