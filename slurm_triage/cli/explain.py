"""Show how a verdict came about: rules that fired, roles, what was set aside and why; or what one line matches."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from slurm_triage.cli.text_table import bold, dim, printable
from slurm_triage.errors import UsageError
from slurm_triage.locate import locate
from slurm_triage.locate.names import is_job_id
from slurm_triage.model.diagnosis import Finding, RankView
from slurm_triage.model.duration import iso
from slurm_triage.model.job import NO_JOB
from slurm_triage.model.nodelist import fold, fold_ranks
from slurm_triage.model.report import Report
from slurm_triage.pipeline import Engine, triage
from slurm_triage.report.wording import number
from slurm_triage.rules.match_text import explain_line
from slurm_triage.settings import load_settings
from slurm_triage.slurm.record_file import load_record

_ROLE_ORDER = ("root", "contributor", "consequence", "teardown", "context")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", nargs="?", help="log, job directory or job id")
    parser.add_argument("--line", metavar="TEXT", help="explain one line of log text instead of a job")
    parser.add_argument("--accounting", metavar="FILE", help="the job's accounting record as JSON")
    parser.add_argument("--outputs", metavar="DIR", help="where jobs are looked up by id")


def run(args: argparse.Namespace) -> int:
    if (args.job is None) == (args.line is None):
        raise UsageError("name either a job or --line TEXT")
    if args.line is not None:
        return _explain_line(args.line, Engine.load())
    print("\n\n".join("\n".join(explanation(report)) for report in _reports(args)))
    return 0


def _reports(args: argparse.Namespace) -> list[Report]:
    if is_job_id(args.job) and not (args.accounting or args.outputs):
        from slurm_triage.cli.triage_now import triage_now  # asks accounting and the ledger

        return triage_now(args.job)
    job = load_record(args.accounting) if args.accounting else NO_JOB
    outputs = Path(args.outputs) if args.outputs else None
    engine = Engine.load(least_silence_s=load_settings().stall_after_s)
    return [triage(job, locate(args.job, outputs=outputs, job=job), engine)]


def explanation(report: Report) -> list[str]:
    """The whole reasoning as lines for a terminal."""
    diagnosis = report.diagnosis
    lines = [bold(f"{diagnosis.status}: {_verdict(report)}", sys.stdout), ""]
    if diagnosis.chain:
        lines.append(bold("Causal chain", sys.stdout))
        lines.extend(f"  {number}. {printable(text)}" for number, text in enumerate(diagnosis.chain, 1))
        lines.append("")
    lines.append(bold("Findings, by role", sys.stdout))
    for role in _ROLE_ORDER:
        lines.extend(_finding(f) for f in diagnosis.findings if f.role == role)
    if not diagnosis.findings:
        lines.append("  none")
    if len(diagnosis.ranks) > 1:
        lines += ["", bold("Rank by rank, the odd ones first", sys.stdout)]
        lines.extend(line for view in diagnosis.ranks for line in _rank(view))
    if diagnosis.telling:
        lines += ["", bold("Lines that look like trouble and that no rule knows", sys.stdout)]
        lines.extend(printable(f"  line {t.place.line or '?'}: {t.place.text}") for t in diagnosis.telling)
    if diagnosis.suppressed:
        lines += ["", bold("Matched, but set aside", sys.stdout)]
        lines.extend(f"  {rule}: {reason}" for rule, reason in diagnosis.suppressed)
    if diagnosis.harmless:
        lines += ["", bold("Known to be harmless", sys.stdout)]
        lines.extend(f"  {rule}: {count} line(s)" for rule, count in diagnosis.harmless)
    lines += ["", bold("Numbers the verdict rests on", sys.stdout), *_numbers(report)]
    return lines


def _verdict(report: Report) -> str:
    primary = report.diagnosis.primary
    if primary is None:
        return "no failure found"
    return printable(f"{primary.cls} ({primary.confidence} confidence): {primary.title}")


def _finding(finding: Finding) -> str:
    where = f" rank {finding.said_by}" if finding.said_by is not None else ""
    step = f" after step {finding.step}" if finding.step is not None else ""
    place = ""
    if finding.match is not None:
        first = finding.match.first
        place = f" line {first.line}" if first.line is not None else f" byte {first.offset}"
    head = f"  {finding.role:12} {finding.cls:20} {finding.rule}{where}{step}{place}"
    why = f"\n{'':15}{dim(finding.why, sys.stdout)}" if finding.why else ""
    return printable(head) + f": {printable(finding.title)}" + why


def _rank(view: RankView) -> list[str]:
    where = f" on {fold(view.nodes)}" if view.nodes else ""
    parts = [
        f"last step {view.last_step}" if view.last_step is not None else "",
        f"heard of until {iso(view.last_time)}" if view.last_time is not None else "",
        view.exit or "",
    ]
    said = [("first error", view.first_error), ("last words", view.last_words)]
    return [
        printable(f"  {fold_ranks(view.ranks)}{where}: {', '.join(filter(None, parts)) or 'no step, no exit'}"),
        *(dim(printable(f"{'':15}{name}: {text}"), sys.stdout) for name, text in said if text),
    ]


def _numbers(report: Report) -> list[str]:
    progress = report.progress
    pairs = [
        ("last step", progress.last_step),
        ("total steps", progress.total_steps),
        ("silence before the end (s)", progress.silence_s),
        ("wall time (s)", progress.wall_s),
        ("sum of step times (s)", progress.sum_step_s),
        ("unaccounted time (s)", progress.unaccounted_s),
        ("accounting", f"{report.job.source}, state {report.job.state or 'unknown'}"),
    ]
    return [
        f"  {name}: {number(value) if isinstance(value, int | float) else value or 'unknown'}" for name, value in pairs
    ]


def _explain_line(text: str, engine: Engine) -> int:
    matches = explain_line(text, engine.ruleset, engine.matcher)
    if not matches:
        print("no rule matches this line")
        return 0
    for match in matches:
        verdict = f"does not count: {match.rejected}" if match.rejected else f"{match.rule.cls} ({match.rule.role})"
        print(f"{match.rule.id}: {verdict}; {match.rule.title}")
    return 0
