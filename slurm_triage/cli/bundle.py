"""A redacted archive of one job, to replay elsewhere: same log, same accounting, same verdict.

Secrets are always taken out; --share also replaces user, host names, addresses and paths. Look at it before you publish
it. The README in it says how to replay it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from slurm_triage.cli.source import EXIT_PARTIAL
from slurm_triage.errors import AccountingError, NotFoundError, UsageError
from slurm_triage.model.files import JobFiles
from slurm_triage.model.job import NO_JOB, Job

_MIB = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="JOB|PATH", help="job id, log file or job directory")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="FILE.tar.gz or FILE.tar.zst (default: triage-bundle-JOB.tar.gz)",
    )
    parser.add_argument("--share", action="store_true", help="replace user, host names, addresses and paths")
    parser.add_argument("--accounting", metavar="FILE", help="the job's accounting record as JSON")
    parser.add_argument("--outputs", metavar="DIR", type=Path, help="where jobs are looked up by id")
    parser.add_argument("--now", metavar="TIME", help="take TIME as the present, for running jobs")
    parser.add_argument(
        "--max-mib",
        metavar="N",
        type=float,
        default=32,
        help="most log text; of more, the beginning, the end and what stands around each match is kept (default 32)",
    )


def run(args: argparse.Namespace) -> int:
    from slurm_triage.bundle.make import make_bundle
    from slurm_triage.cli.log import _now
    from slurm_triage.pipeline import Engine

    if not 0 < args.max_mib <= 4096:
        raise UsageError("--max-mib takes a number of MiB up to 4096")
    job, files = _job_and_files(args)
    made = make_bundle(
        job,
        files,
        Engine.load(),
        args.output,
        share=args.share,
        max_bytes=int(args.max_mib * _MIB),
        now=_now(args.now),
    )
    verdict = f"{made.expected['status']}, {made.expected['class'] or 'healthy'}"
    print(f"{made.path}: {made.path.stat().st_size} bytes; {verdict}")
    if made.left_out_bytes:
        print(f"{made.left_out_bytes} bytes of the logs are left out; raise --max-mib to keep more")
    if made.same:
        return 0
    print(
        f"slurm-triage: the bundle gives another verdict ({made.replayed['status']}, {made.replayed['class']}) than "
        "the job; raise --max-mib, or leave out --share",
        file=sys.stderr,
    )
    return EXIT_PARTIAL


def _job_and_files(args: argparse.Namespace) -> tuple[Job, JobFiles]:
    from slurm_triage.locate import locate
    from slurm_triage.locate.names import is_job_id
    from slurm_triage.slurm.record_file import load_record

    if args.accounting:
        job = load_record(args.accounting)
        return job, locate(args.target, outputs=args.outputs, job=job)
    if not is_job_id(args.target) or args.outputs is not None:
        return NO_JOB, locate(args.target, outputs=args.outputs)
    return _by_id(args.target)


def _by_id(job_id: str) -> tuple[Job, JobFiles]:
    """Through accounting; without it, what lies around here under that id. Raises NotFoundError, AccountingError."""
    from slurm_triage.locate import locate
    from slurm_triage.service.job_files import files_of
    from slurm_triage.settings import load_settings
    from slurm_triage.slurm.accounting import select
    from slurm_triage.slurm.choose import choose

    settings = load_settings()
    try:
        accounting = choose(settings.accounting, pyslurm_python=settings.pyslurm_python).accounting
        try:
            jobs = select(accounting.jobs([job_id]), job_id)
        finally:
            accounting.close()
    except AccountingError as error:
        try:
            return NO_JOB, locate(job_id)
        except NotFoundError as missing:
            raise AccountingError(f"{missing}; and accounting cannot be asked: {error}") from missing
    if len(jobs) > 1:
        raise UsageError(f"{job_id} is {len(jobs)} jobs; name one of them, such as {jobs[0].job_id}")
    return (jobs[0], files_of(jobs[0])) if jobs else (NO_JOB, locate(job_id))
