"""Reports whose log-derived fields hold whatever an attacker (or a progress bar) printed."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from slurm_triage.model.diagnosis import RankView, Suspect
from slurm_triage.model.files import LogFile
from slurm_triage.model.report import AttemptSummary, Report

from .sample_reports import failed, requeued

#: Pieces that mean something to Markdown, HTML, terminals or shells, alone and combined.
SPECIAL = [
    *(
        "`",
        "``",
        "```",
        "~~~",
        "|",
        "\\",
        "\\|",
        "*",
        "**",
        "_",
        "#",
        "## ",
        "> ",
        "- ",
        "1. ",
        "[",
        "](",
        "][",
        "]: ",
        "![",
    ),
    *(
        "<",
        ">",
        "<b>",
        "<script>alert(1)</script>",
        "<!--",
        "-->",
        "&amp;",
        "&#60;",
        "&lt;",
        "$",
        "$$",
        "~",
        "~~",
        "=",
        "---",
    ),
    *(
        "http://evil.example",
        "www.evil.example",
        "mailto:a@b.example",
        "<http://evil.example>",
        "@team",
        "javascript:x",
    ),
    *("\n", "\r", "\r\n", "\t", "\x00", "\x07", "\x08", "\x1b[2J", "\x1b]0;x\x07", "\x1b(B", "\x9b31m", "\x7f", "\x85"),
    *(
        "\u202e",
        "\u2066",
        "\u200b",
        "\u2028",
        "\ufeff",
        "\u3164",
        "\U000e0041",
        "\ufe0f",
        "\u0301",
        "漢字",
        "é",
        "\ud800",
    ),
    *(
        "{{ 1 }}",
        "{% raw %}",
        "{#",
        "$(id)",
        "'; rm -rf /",
        "| --- |",
        "\n## Forged\n",
        "\n```\n# x\n",
        "    code",
        "[x] ",
    ),
]
HOSTILE = st.lists(st.one_of(st.sampled_from(SPECIAL), st.text(max_size=8)), max_size=12).map("".join)


def with_hostile_text(text: str, base: Report | None = None) -> Report:
    """``text`` in every field that can come from a log, a file name, a job or its owner."""
    report = failed() if base is None else base
    story = report.diagnosis
    findings = tuple(
        replace(
            finding,
            title=text,
            why=text,
            node=text,
            match=None
            if finding.match is None
            else replace(
                finding.match,
                first=replace(finding.match.first, text=text),
                last=replace(finding.match.last, text=text),
                block=(text, text),
                captures={"bytes": text},
            ),
        )
        for finding in story.findings
    )
    primary = None if story.primary is None else replace(story.primary, title=text, stage=text, node=text)
    return replace(
        report,
        job=replace(
            report.job, name=text, user=text, account=text, partition=text, state=text, reason=text, submit_line=text
        ),
        nodes=(text, "gpu001"),
        files=replace(
            report.files,
            logs=(LogFile(text, "primary"),),
            job_dir=text,
            problem=text,
            core_dumps=(text,),
        ),
        facts=replace(report.facts, notes=(text,)),
        log_path=text,
        stages=tuple(replace(stage, name=text) for stage in report.stages),
        throughput=replace(report.throughput, unit=text, hints=(text,)),
        dashboards=replace(report.dashboards, tunnel_command=text, head_node=text, tsdb_path=text),
        attempts=(AttemptSummary(1, text, text, text, 0, 1, (text,)),),
        evidence={text: (text, text)},
        diagnosis=replace(
            story,
            primary=primary,
            findings=findings,
            suspects=(Suspect(text, (text,), "low", False),),
            resubmit=replace(story.resubmit, command=text, why=text, changes=(text,), args={"x": text}),
            ranks=(
                RankView((0,), (text,), 1, text, text, text),
                RankView((1,), (text,), 2, text, text, text),
            ),
            narrative=text,
            chain=(text, text),
            next_steps=(text, f"Do `{text}` now"),
            notes=(text,),
        ),
    )


def hostile(text: str) -> list[Report]:
    return [with_hostile_text(text), with_hostile_text(text, requeued())]
