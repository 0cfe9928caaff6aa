"""Progress and hang verdict of running jobs: once, or --follow. It never ends a job."""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass

from slurm_triage.errors import AccountingError, NotFoundError, UsageError
from slurm_triage.model.job import Job
from slurm_triage.pipeline import Engine
from slurm_triage.service.follow import Follower
from slurm_triage.service.job_files import files_of
from slurm_triage.service.notify import notify
from slurm_triage.service.watch import ENDED, Look, look
from slurm_triage.settings import load_settings
from slurm_triage.slurm import command
from slurm_triage.slurm.accounting import Accounting, display_id, select
from slurm_triage.slurm.choose import choose_askable

#: How often accounting is asked whether a followed job still runs.
ASK_EVERY_S = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("jobs", nargs="*", metavar="JOB", help="default: all of your running jobs")
    parser.add_argument("--follow", action="store_true", help="go on until the jobs have ended")
    parser.add_argument("--interval", type=float, default=10.0, metavar="S", help="seconds between two looks")
    parser.add_argument("--limit", type=float, metavar="S", help="call it a hang after this long without a step")
    parser.add_argument("--notify", metavar="COMMAND", help="run when a job begins to hang, or goes on again")
    parser.add_argument("--log", metavar="FILE", help="the log to follow, for one job or for none (no Slurm needed)")
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 if a job hangs, or hung while followed")


def run(args: argparse.Namespace) -> int:
    if args.interval <= 0 or (args.limit is not None and args.limit <= 0):
        raise UsageError("--interval and --limit need seconds above 0")
    if args.log is not None and len(args.jobs) > 1:
        raise UsageError("--log goes with one job")
    engine = Engine.load(least_silence_s=load_settings().stall_after_s)
    accounting: Accounting | None = None
    if args.log is None:
        settings = load_settings()
        accounting = choose_askable(settings.accounting, pyslurm_python=settings.pyslurm_python)
    try:
        watched, waiting = _watched(args, engine, accounting)
        while args.follow and waiting and not watched:
            time.sleep(args.interval)
            watched, waiting = _watched(args, engine, accounting)
        if not watched:
            if not waiting:
                print("no running jobs")
            return 0
        hanging = _follow(watched, args, accounting) if args.follow else [_report(one, args) for one in watched]
        return 1 if args.exit_code and any(hanging) else 0
    finally:
        if accounting is not None:
            accounting.close()


@dataclass
class _Watched:
    """One job. ``status``: the last one, for telling changes."""

    job: Job
    follower: Follower
    engine: Engine
    status: str = "running"

    @property
    def name(self) -> str:
        return display_id(self.job) or self.follower.path

    def look(self, limit_s: float | None) -> Look:
        now = time.time()
        self.follower.poll(now)
        return look(self.follower, self.job, self.engine.ruleset.fact_kinds, now, limit_s)


def _watched(args: argparse.Namespace, engine: Engine, accounting: Accounting | None) -> tuple[list[_Watched], int]:
    """The jobs to watch, and how many have no log yet."""
    if args.log is not None or accounting is None:
        job = Job(job_id=args.jobs[0] if args.jobs else None, state="RUNNING")
        return [_Watched(job, Follower(args.log, engine), engine)], 0
    wanted = args.jobs or _own_running()
    found: list[_Watched] = []
    waiting = 0
    for asked in wanted:
        jobs = select(accounting.jobs([asked]), asked)
        if not jobs:
            raise NotFoundError(f"accounting does not know job {asked}; check the id")
        for job in jobs:
            if job.is_terminal:
                print(f"{display_id(job)} has ended ({job.state}): slurm-triage {display_id(job)} tells why")
                continue
            log = files_of(job).primary
            if log is None:
                print(f"{display_id(job)} {(job.state or 'unknown').lower()}: no log yet")
                waiting += 1
                continue
            found.append(_Watched(job, Follower(log.path, engine), engine))
    return found, waiting


def _own_running() -> list[str]:
    user = str(os.geteuid())
    return command.run(["squeue", "-h", "-r", "-u", user, "-t", "R", "-o", "%i"], timeout_s=20.0).split()


def _report(one: _Watched, args: argparse.Namespace) -> bool:
    """One look, printed; True if the job hangs."""
    seen = one.look(args.limit)
    print(seen.line(one.name))
    for line in seen.evidence:
        print(f"    {line}")
    sys.stdout.flush()
    if args.notify is not None and seen.status != one.status:
        problem = notify(args.notify, one.name, seen, os.environ)
        if problem is not None:
            print(f"slurm-triage: --notify {problem}", file=sys.stderr)
    one.status = seen.status
    return seen.status == "hanging"


def _follow(watched: list[_Watched], args: argparse.Namespace, accounting: Accounting | None) -> list[bool]:
    hanging = dict.fromkeys(map(id, watched), False)
    asked_at = time.monotonic()
    while watched:
        for one in list(watched):
            try:
                hanging[id(one)] = _report(one, args) or hanging[id(one)]
            except NotFoundError as error:
                print(f"{one.name}: {error}")
                watched.remove(one)
        if not watched:
            break
        time.sleep(args.interval)
        if accounting is not None and time.monotonic() - asked_at >= min(ASK_EVERY_S, 6 * args.interval):
            asked_at = time.monotonic()
            watched = _still_running(watched, accounting)
        elif accounting is None:
            watched = [one for one in watched if one.status != ENDED]
    return list(hanging.values())


def _still_running(watched: list[_Watched], accounting: Accounting) -> list[_Watched]:
    try:
        jobs = accounting.jobs([one.job.job_id or "" for one in watched])
    except AccountingError as error:
        print(f"slurm-triage: {error}", file=sys.stderr)
        return watched
    running = []
    for one in watched:
        job = jobs.get(one.job.job_id or "", one.job)
        if job.is_terminal:
            print(f"{one.name} has ended ({job.state}): slurm-triage {one.name} tells why")
        else:
            one.job = job
            running.append(one)
    return running
