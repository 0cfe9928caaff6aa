"""What a report says must fit together: each thing once, and nothing that its own numbers contradict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_triage.model.diagnosis import Finding, Primary, RankView, Resubmit
from slurm_triage.model.progress import Throughput
from slurm_triage.model.report import Report
from slurm_triage.report.build_document import report_document
from slurm_triage.report.evidence import select
from slurm_triage.report.terminal import to_terminal
from slurm_triage.report.to_html import to_html
from slurm_triage.report.wording import throughput_lines

from .sample_base import diagnosis, match, report

SLOW = Throughput(
    early=2629.3, recent=2461.0, change=-0.918, degraded=True, pattern="phased", from_step=43, to_step=97
)  # fmt: skip
TITLE = "throughput fell by up to 92% from step 43"


def primary(cls: str, title: str, retry: str = "other-nodes") -> Primary:
    return Primary(cls, title, "Training", "fabric", None, (), None, None, "high", retry)


def screen(source: Report) -> str:
    return " ".join(to_terminal(source, width=100, color=False).split())


def slow_job() -> Report:
    """A job that completed, more slowly than it began."""
    cause = Finding("tgs-degradation", "root", "throughput", TITLE)
    why = "the job completed; look at the slow nodes before the next run"
    found = diagnosis(
        primary=primary("tgs-degradation", TITLE), findings=(cause,), resubmit=Resubmit("none", why), narrative=""
    )
    return replace(report(), throughput=SLOW, diagnosis=found)


def no_verdict(**log: object) -> Report:
    """A log that tells nothing about its end."""
    base = report()
    file = replace(base.files.logs[0], size_bytes=int(log.get("size_bytes", 4096)))  # type: ignore[call-overload]
    return replace(
        base,
        files=replace(base.files, logs=(file,)),
        facts=replace(base.facts, binary=bool(log.get("binary"))),
        diagnosis=diagnosis(status="unknown", resubmit=Resubmit("none", "no failure was found")),
    )


def test_the_change_of_the_worst_window_is_not_that_of_the_recent_steps() -> None:
    line = throughput_lines(report_document(slow_job()))[0]
    assert "recent 2461: degraded, phased, worst window -91.8 %, from step 43 to step 97" in line


@pytest.mark.parametrize(("change", "verdict"), [(-0.05, "no degradation."), (-0.301, "too few slow steps")])
def test_a_drop_without_a_verdict_says_why(change: float, verdict: str) -> None:
    line = throughput_lines(report_document(replace(report(), throughput=Throughput(348.3, 243.4, change))))[0]
    assert f"({100 * change:+.1f} %): {verdict}" in line


def test_header_and_last_sentence_agree_about_running_again() -> None:
    text = screen(slow_job())
    assert "no need to run again" in text
    assert "run again on other nodes" not in text
    assert "no need to run again" in to_html(slow_job())


def test_a_new_run_that_is_pointless_stays_pointless() -> None:
    found = diagnosis(
        status="failed",
        primary=primary("license", "no licence", "pointless"),
        resubmit=Resubmit("none", "a new run would end the same way"),
    )
    assert "running again does not help" in screen(replace(report(), diagnosis=found))


def test_evidence_does_not_repeat_the_title() -> None:
    assert select(report_document(slow_job())).unseen == ()
    assert screen(slow_job()).lower().count(TITLE.lower()) == 1


def test_without_evidence_nobody_is_sent_to_it() -> None:
    assert "Read the last lines of the log" in screen(no_verdict())
    assert "this log is empty" in screen(no_verdict(size_bytes=0))
    assert "mostly binary" in screen(no_verdict(binary=True))


def test_a_span_of_clocks_below_a_second_is_no_run_time() -> None:
    base = report()
    short = replace(base, job=replace(base.job, elapsed_s=None), progress=replace(base.progress, wall_s=0.0014))
    assert "ran " not in screen(short)
    assert "ran 12 s" in screen(replace(short, progress=replace(base.progress, wall_s=12.0)))


def two_findings() -> Report:
    """A cause and what followed from it, with a rank view that holds only errors."""
    cause = Finding("port-fail", "root", "port", "the port is in use", 0, match=match("port", 4, "bind failed", rank=0))
    after = Finding(
        "signal-kill", "consequence", "segv", "it crashed", 1, match=match("segv", 9, "Segmentation fault", rank=1)
    )
    found = diagnosis(
        status="failed",
        primary=primary("port-fail", "the port is in use"),
        findings=(cause, after),
        chain=("port-fail: the port is in use", "consequence: signal-kill: it crashed (port-fail came first)"),
        ranks=tuple(RankView((rank,), (), None, f"error {'ab'[rank]}", None, None) for rank in (0, 1)),
    )
    return replace(report(), diagnosis=found)


def test_what_the_chain_tells_is_not_listed_again() -> None:
    assert screen(two_findings()).count("it crashed") == 1
    alone = two_findings()
    assert "it crashed" in screen(replace(alone, diagnosis=replace(alone.diagnosis, chain=())))


def test_a_table_of_nothing_but_rank_numbers_is_left_out() -> None:
    lines = to_terminal(two_findings(), width=100, color=False).splitlines()
    assert "  Rank 0 says error a; rank 1 says error b." in lines
    assert "  ranks" not in lines


def test_a_traceback_ends_with_its_exception() -> None:
    """Titles have lost the backticks of the exception's message, and srun speaks right behind it."""
    block = (
        '  File "train.py", line 66, in forward',
        "    return f(x)",
        "RuntimeError: in `f(x)`",
        "srun: error: gone",
    )
    head = match("python-traceback", 4, "Traceback (most recent call last):", block=block)
    cause = Finding("python-exception", "root", "python-traceback", "RuntimeError: in f(x)", 0, match=head)
    found = diagnosis(status="failed", primary=primary("python-exception", cause.title), findings=(cause,))
    quotes = select(report_document(replace(report(), diagnosis=found))).quotes
    assert [line.strip() for line in quotes[0].block] == [line.strip() for line in block[:3]]
