"""Whatever a log holds, the views keep their structure and act on nothing."""

from __future__ import annotations

import json
import re
import unicodedata
from html.parser import HTMLParser

import pytest
from hypothesis import assume, example, given, settings
from markdown_it import MarkdownIt
from markdown_it.token import Token

from slurm_triage.report.build_document import report_document
from slurm_triage.report.markdown import to_markdown
from slurm_triage.report.markdown_text import Markdown, cell, code, escape, fenced, prose
from slurm_triage.report.plain_text import columns, cut, fit, plain, shown
from slurm_triage.report.terminal import to_terminal
from slurm_triage.report.to_html import to_html
from slurm_triage.report.to_json import to_json

from .hostile_reports import HOSTILE, SPECIAL, hostile, with_hostile_text
from .sample_reports import requeued

#: CommonMark with tables and strikethrough, raw HTML on (so that it would be seen), bare links recognised.
PARSER = MarkdownIt("gfm-like", {"html": True, "linkify": True})

ALLOWED_INLINE = {"text", "text_special", "softbreak", "strong_open", "strong_close", "code_inline"}


def blocks(text: str) -> list[str]:
    """The page's skeleton: block tokens with their level; tables by their number of columns."""
    skeleton = []
    for token in PARSER.parse(text):
        if token.type == "inline":
            continue
        skeleton.append(f"{token.type}:{token.tag}:{token.level}")
    return skeleton


def inline(tokens: list[Token]) -> set[str]:
    return {child.type for token in tokens for child in token.children or ()}


def control_characters(text: str) -> set[str]:
    return {char for char in text if unicodedata.category(char) in {"Cc", "Cf", "Zl", "Zp", "Cs", "Co"}} - {"\n"}


@given(HOSTILE)
@settings(max_examples=60, deadline=None)
@example("\n## Forged heading\n")
@example("```\n# out of the fence\n```")
@example("[click](http://evil.example)")
@example("[x]: http://evil.example")
@example("<img src=x onerror=alert(1)>")
@example("| a | b |")
@example("\\`a\\`")
def test_markdown_keeps_its_structure(text: str) -> None:
    assume(shown(text))
    for report, tame in zip(hostile(text), hostile("tame words"), strict=True):
        page = to_markdown(report)
        tokens = PARSER.parse(page)
        assert [t for t in blocks(page) if t.startswith(("heading", "table", "th_", "td_", "fence"))] == [
            t for t in blocks(to_markdown(tame)) if t.startswith(("heading", "table", "th_", "td_", "fence"))
        ]
        assert not [t for t in tokens if t.type in {"html_block", "blockquote_open", "code_block", "hr"}]
        assert inline(tokens) <= ALLOWED_INLINE
        headings = [tokens[i + 1].content for i, t in enumerate(tokens) if t.type == "heading_open"]
        assert headings[1:] == [h for h in headings[1:] if re.fullmatch(r"[A-Z][\w ()=]+", h)]
        assert not control_characters(page)


@given(HOSTILE)
@settings(max_examples=50, deadline=None)
@example("\x1b[2J\x1b]52;c;ZXZpbA==\x07")
@example("漢" * 300)
def test_terminal_shows_no_control_character_and_keeps_its_width(text: str) -> None:
    for report in hostile(text):
        document = report_document(report)
        command, path = document["resubmit"]["command"], document["log"]["path"]
        for width in (40, 80, 200):
            screen = to_terminal(report, width=width, color=False)
            assert not control_characters(screen)
            assert screen.endswith("\n")
            # Commands and paths are there to be copied: they are not folded.
            unfolded = {shown(str(command), 4000), f"log = {plain(str(path))}".strip()}
            wide = [line for line in screen.splitlines() if columns(line) > width]
            assert {line.strip() for line in wide} <= unfolded


@given(HOSTILE)
@settings(max_examples=30, deadline=None)
def test_colours_are_the_only_escape_sequences(text: str) -> None:
    screen = to_terminal(with_hostile_text(text), width=80, color=True)
    assert not control_characters(re.sub(r"\x1b\[[0-9;]+m", "", screen))
    assert screen.count("\x1b[0m") * 2 == len(re.findall(r"\x1b\[[0-9;]+m", screen))


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"comment {data!r}")


def tags(page: str) -> Page:
    parser = Page()
    parser.feed(page)
    parser.close()
    return parser


@given(HOSTILE)
@settings(max_examples=50, deadline=None)
@example("</pre><script>alert(1)</script>")
@example('"><img src=x onerror=alert(1)>')
def test_html_keeps_its_structure(text: str) -> None:
    assume(shown(text))
    for report, tame in zip(hostile(text), hostile("tame words"), strict=True):
        page = tags(to_html(report))
        expected = tags(to_html(tame))
        assert [t for t in page.tags if t != "code"] == [t for t in expected.tags if t != "code"]
        assert page.attributes == expected.attributes
        assert "script" not in page.tags


def test_html_page_loads_and_runs_nothing() -> None:
    page = to_html(requeued())
    assert "default-src 'none'" in page
    assert not re.search(r"<script|<link|<img|<iframe|\bon\w+=|url\(|@import|style=", page)
    assert page.count("http://") == page.count("http://localhost")


@given(HOSTILE)
@settings(max_examples=50, deadline=None)
def test_json_reads_back_what_was_written(text: str) -> None:
    for report in hostile(text):
        json.loads(to_json(report))
        json.loads(to_json(report, share=True))


@given(HOSTILE)
@settings(max_examples=60, deadline=None)
def test_plain_text_is_one_visible_line_and_stays_as_it_is(text: str) -> None:
    line = plain(text)
    assert not control_characters(line)
    assert "\n" not in line
    assert plain(line) == line
    assert plain(fit(line, 20)) == fit(line, 20)
    assert columns(fit(line, 20)) <= 20
    assert len(cut(line, 20)) <= 20


@given(HOSTILE, HOSTILE)
@settings(max_examples=60, deadline=None)
def test_cells_keep_the_number_of_columns(first: str, second: str) -> None:
    for make in (escape, code, prose):
        row = f"| {cell(make(first))} | {cell(make(second))} |"
        tokens = PARSER.parse(f"| a | b |\n|---|---|\n{row}\n")
        body = tokens[next(i for i, t in enumerate(tokens) if t.type == "tbody_open") :]
        assert len([t for t in body if t.type == "td_open"]) == 2
        assert [t.type for t in body].count("tr_open") == 1


@given(HOSTILE)
@settings(max_examples=60, deadline=None)
def test_fences_hold_any_lines(text: str) -> None:
    tokens = PARSER.parse(fenced([text, "```", text]) + "\n\nafter\n")
    assert [t.type for t in tokens] == ["fence", "paragraph_open", "inline", "paragraph_close"]


@given(HOSTILE)
@settings(max_examples=60, deadline=None)
def test_code_spans_show_the_text_as_it_is(text: str) -> None:
    tokens = PARSER.parse(f"x {code(text)} y")
    spans = [c for t in tokens for c in t.children or () if c.type == "code_inline"]
    line = shown(text)
    assert [span.content for span in spans] == ([line] if line else [])


@pytest.mark.parametrize("text", SPECIAL)
def test_single_special_pieces_at_the_beginning_of_a_line(text: str) -> None:
    for made in (escape(f"{text} word"), prose(f"{text}word"), escape(text)):
        tokens = PARSER.parse(f"{made}\n\nafter\n")
        kinds = [t.type for t in tokens]
        assert kinds in (
            ["paragraph_open", "inline", "paragraph_close"] * 2,
            ["paragraph_open", "inline", "paragraph_close"],
        )
        assert inline(tokens) <= ALLOWED_INLINE


def test_ordinary_words_are_left_alone() -> None:
    for text in (
        "rank 3 on gpu[001-003,005]: RESOURCE_EXHAUSTED: Out of memory (221.71GiB)",
        "/shared/alice/outputs/7877-JAX-llama2-70b.log",
        "completed step: 139, seconds: 30.118, loss: 2.101",
        "3.14 is a number, -5 too, a_b_c is a name, a > b",
    ):
        assert escape(text) == text
    assert isinstance(escape("x"), Markdown)
