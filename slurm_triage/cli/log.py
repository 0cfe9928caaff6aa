"""Triage a log, a job directory or an outputs tree, without Slurm."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from slurm_triage.cli.view import print_view
from slurm_triage.errors import NotFoundError, PartialResultError, TriageError, UsageError
from slurm_triage.locate import is_outputs_tree, locate, locate_all
from slurm_triage.model.duration import parse_time
from slurm_triage.model.files import JobFiles
from slurm_triage.model.job import NO_JOB, Job
from slurm_triage.model.report import Report
from slurm_triage.pipeline import Engine, triage
from slurm_triage.report.write import write_beside
from slurm_triage.settings import load_settings
from slurm_triage.slurm.record_file import load_record

#: A log without an end that was written to so recently may go on. Training prints a line every some seconds.
_YOUNG_S = 120.0
#: Statuses that make ``--exit-code`` return 1.
FAILURES = frozenset({"failed", "hanging", "cancelled", "unknown"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", nargs="+", help="log file, job directory, outputs tree, job id, or - for standard input"
    )
    parser.add_argument("--accounting", metavar="FILE", help="the job's accounting record as JSON")
    parser.add_argument(
        "--outputs", metavar="DIR", help="where jobs are looked up by id (default: $JOB_WORKSPACE, ./outputs)"
    )
    parser.add_argument(
        "--now", metavar="TIME", help="take TIME (ISO 8601 or epoch seconds) as the present, for running jobs"
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print triage.json")
    output.add_argument("--markdown", action="store_true", help="print TRIAGE.md")
    output.add_argument("--html", action="store_true", help="print a self-contained page")
    parser.add_argument("--write", action="store_true", help="also write triage.json and TRIAGE.md next to the job")
    parser.add_argument("--share", action="store_true", help="replace user, host names, addresses and paths")
    parser.add_argument(
        "--exit-code",
        action="store_true",
        help="status 1 if the job is failed, hanging, cancelled or unknown",
    )


def run(args: argparse.Namespace) -> int:
    now = _now(args.now)
    job = load_record(args.accounting) if args.accounting else NO_JOB
    outputs = Path(args.outputs) if args.outputs else None
    engine = Engine.load(least_silence_s=load_settings().stall_after_s)
    failed = False
    shown = 0
    problems: list[TriageError] = []
    for files in _targets(args.path, outputs, job, problems):
        try:
            report = triage(job, files, engine, now=now)
            if shown:
                sys.stdout.write("\n")
            print_view(report, args)
            shown += 1
            failed = failed or report.diagnosis.status in FAILURES
            _note_if_young(report)
            if args.write:
                for path in write_beside(report):
                    print(f"wrote {path}", file=sys.stderr)
        except TriageError as error:
            problems.append(error)
    if len(problems) == 1 and shown <= 1 and len(args.path) == 1:
        raise problems[0]
    for problem in problems:
        print(f"slurm-triage: {problem}", file=sys.stderr)
    if problems:
        return PartialResultError.exit_status if shown else problems[0].exit_status
    return 1 if failed and args.exit_code else 0


def _note_if_young(report: Report) -> None:
    """Without accounting nobody knows whether the job still runs."""
    if report.diagnosis.status != "unknown" or report.job.state is not None or report.files.primary is None:
        return
    path = report.files.primary.path
    with contextlib.suppress(OSError):
        age_s = time.time() - Path(path).stat().st_mtime
        if 0.0 <= age_s < _YOUNG_S:
            hint = f"if the job still runs, see slurm-triage watch --log {shlex.quote(path)}"
            print(f"slurm-triage: the log was written to {age_s:.0f} s ago; {hint}", file=sys.stderr)


def _targets(targets: Sequence[str], outputs: Path | None, job: Job, problems: list[TriageError]) -> Iterator[JobFiles]:
    """The jobs that are named, one after the other. What cannot be looked at keeps nobody from seeing the rest."""
    for target in targets:
        try:
            if not _is_tree(target):
                yield locate(target, outputs=outputs, job=job)
                continue
            jobs = list(locate_all(Path(target)))
            if not jobs:
                raise NotFoundError(
                    f"{target} holds no job: expected <id>-<name>.log files or job directories with a log link"
                )
            yield from jobs
        except TriageError as error:
            problems.append(error)


def _now(text: str | None) -> float | None:
    if text is None:
        return None
    moment = parse_time(float(text) if text.replace(".", "", 1).isdigit() else text)
    if moment is None:
        raise UsageError(f"--now {text!r} is not a time; write it as 2026-11-30T01:54:32 or as seconds since 1970")
    return moment


def _is_tree(target: str) -> bool:
    """A directory that is not itself a job: no log inside, but jobs below."""
    # Path.is_dir raises for names that are too long; locate says what is wrong with them.
    directory = target not in {"", "-"} and os.path.isdir(target)  # noqa: PTH112
    return directory and is_outputs_tree(Path(target))
