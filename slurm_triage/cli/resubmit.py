"""Print the command line that runs a job again, with what changes and why; --exec runs it."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from slurm_triage.cli.text_table import printable
from slurm_triage.errors import NotFoundError, UsageError
from slurm_triage.locate import locate
from slurm_triage.model.job import NO_JOB
from slurm_triage.model.report import Report
from slurm_triage.pipeline import Engine, triage
from slurm_triage.resubmit.rebuild import Command, rebuild
from slurm_triage.slurm.record_file import load_record


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", help="job id, job directory or log")
    parser.add_argument("--exec", action="store_true", help="run the command instead of only printing it")
    parser.add_argument("--accounting", metavar="FILE", help="the job's accounting record as JSON")
    parser.add_argument("--outputs", metavar="DIR", help="where jobs are looked up by id")


def run(args: argparse.Namespace) -> int:
    job = load_record(args.accounting) if args.accounting else NO_JOB
    outputs = Path(args.outputs) if args.outputs else None
    report = triage(job, locate(args.job, outputs=outputs, job=job), Engine.load())
    resubmit = report.diagnosis.resubmit
    if resubmit.action == "none":
        raise UsageError(f"running this job again makes no sense: {resubmit.why}")
    command = command_of(report)
    if command is None:
        raise NotFoundError(
            "neither the job's submit_cmd.txt nor its log nor accounting tells how it was submitted; submit it by hand"
        )
    print(f"# {printable(resubmit.action)}: {printable(resubmit.why)}")
    for change in (*resubmit.changes, *(n for n in command.notes if n not in resubmit.changes)):
        print(f"# {printable(change)}")
    print(command.line())
    if not args.exec:
        return 0
    sys.stdout.flush()
    return subprocess.run(list(command.words), env={**os.environ, **dict(command.env)}, check=False).returncode


def command_of(report: Report) -> Command | None:
    primary = report.diagnosis.primary
    return rebuild(
        report.diagnosis.resubmit,
        report.job,
        report.facts.last,
        report.files.submit_cmd,
        report.nodes,
        pin=primary is not None and primary.cls == "hang",
    )
