"""Print the command line that runs a job again, with what changes and why; --exec runs it."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from slurm_triage.cli.text_table import printable
from slurm_triage.cli.triage_now import triage_now, with_ledger
from slurm_triage.errors import NotFoundError, UsageError
from slurm_triage.locate import locate
from slurm_triage.model.job import NO_JOB
from slurm_triage.model.report import Report
from slurm_triage.pipeline import Engine, triage
from slurm_triage.resubmit.rebuild import Command, command_of
from slurm_triage.resubmit.recorded import FROM_STDIN
from slurm_triage.slurm.record_file import load_record


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", help="job id, job directory or log")
    parser.add_argument("--exec", action="store_true", help="run the command instead of only printing it")
    parser.add_argument("-M", "--clusters", metavar="NAME", default="", help="the cluster that ran it")
    parser.add_argument("--accounting", metavar="FILE", help="the job's accounting record as JSON")
    parser.add_argument("--outputs", metavar="DIR", help="where jobs are looked up by id")


def run(args: argparse.Namespace) -> int:
    report = _report(args)
    resubmit = report.diagnosis.resubmit
    if resubmit.action == "none":
        raise UsageError(f"running this job again makes no sense: {resubmit.why}")
    command = command_of(report)
    print(f"# {printable(resubmit.action)}: {printable(resubmit.why)}")
    sentences = report.history.sentences if report.history is not None else ()
    notes = command.notes if command is not None else ()
    for remark in dict.fromkeys((*resubmit.changes, *notes, *sentences)):
        print(f"# {printable(remark)}")
    if command is None:
        raise NotFoundError(_unknown(report))
    if args.clusters:
        print(f"# where {printable(args.clusters)} is the cluster that sbatch submits to")
    where = _directory(report, command)
    if where != Path.cwd():
        print(f"# in {printable(str(where))}, where it was submitted")
    print(command.line())
    if not args.exec:
        return 0
    if FROM_STDIN in command.notes:
        raise UsageError(FROM_STDIN)
    sys.stdout.flush()
    env = {**os.environ, **dict(command.env)}
    try:
        return subprocess.run(list(command.words), cwd=where, env=env, check=False).returncode
    except OSError as error:
        raise NotFoundError(f"cannot run {command.words[0]} in {where} ({error.strerror}); run it by hand") from error


def _unknown(report: Report) -> str:
    if report.job.submit_line:
        line = printable(report.job.submit_line)
        return f"accounting's submit line is no call of sbatch: {line}; start it again by hand"
    return "neither the job's submit_cmd.txt nor its log nor accounting tells how it was submitted; submit it by hand"


def _directory(report: Report, command: Command) -> Path:
    """Where the command's relative paths begin: in the job's working directory, or beside the launcher's outputs."""
    program = command.words[0]
    places = [report.job.work_dir]
    inside = report.files.job_dir or report.log_path
    if "/" in program and inside:
        places.append(str(Path(inside).absolute().parents[1]))
    # sbatch itself is found anywhere; its script was in the working directory.
    needed = program if "/" in program else "."
    return next((place for place in map(Path, filter(None, places)) if (place / needed).exists()), Path.cwd())


def _report(args: argparse.Namespace) -> Report:
    """An id is looked up in accounting, unless it is said what accounting knows or where the files are."""
    if args.accounting is None and args.outputs is None and "/" not in args.job and not Path(args.job).exists():
        reports = triage_now(args.job, None, tuple(name for name in args.clusters.split(",") if name))
        if len(reports) > 1:
            failed = next((r for r in reports if r.diagnosis.status != "completed"), reports[0]).job
            task = f"{failed.array_job_id}_{failed.array_task_id}" if failed.array_task_id else failed.job_id
            raise UsageError(f"{args.job} has {len(reports)} parts; name one of them, such as {task}")
        return reports[0]
    job = load_record(args.accounting) if args.accounting else NO_JOB
    outputs = Path(args.outputs) if args.outputs else None
    engine = Engine.load()
    return with_ledger(triage(job, locate(args.job, outputs=outputs, job=job), engine), engine)
