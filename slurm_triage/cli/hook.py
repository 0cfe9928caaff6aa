"""Record that a job has ended, as a hook would; for sites with hooks of their own, and for trying things out."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from slurm_triage.errors import UsageError
from slurm_triage.service.event_file import record
from slurm_triage.service.start import start_worker
from slurm_triage.settings import load_settings
from slurm_triage.slurm import hook_env


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", nargs="?", help="raw job id (default: $SLURM_JOB_ID)")
    parser.add_argument("--config", metavar="FILE", type=Path, help="instead of /etc/slurm-triage/config.toml")
    parser.add_argument("--start-worker", action="store_true", help="start a worker if there is none")


def run(args: argparse.Namespace) -> int:
    settings = load_settings(args.config)
    job_id = args.job or hook_env.job_id(os.environ)
    if job_id is None or not (job_id.isascii() and job_id.isdigit()):
        raise UsageError("name the job by its raw id (sacct -o jobidraw), or set SLURM_JOB_ID")
    told = {key: value for key, value in os.environ.items() if key.startswith("SLURM_JOB_") and key != "SLURM_JOB_ID"}
    print(record(settings.spool, job_id, told if args.job is None else {}))
    if args.start_worker:
        start_worker(str(args.config) if args.config else None)
    return 0
