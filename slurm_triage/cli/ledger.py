"""Care of the ledger: verify it, repair it, sum it up, export it, mirror it into a database, retire what is old."""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from slurm_triage.cli.source import EXIT_PARTIAL, add_ledger, clusters, roots, warn_of_damage
from slurm_triage.errors import LedgerError, TriageError, UsageError
from slurm_triage.ledger.segment import writer_dirs

if TYPE_CHECKING:
    from slurm_triage.ledger.mirror import Mirror

#: A database that is away is asked this often at least.
_LONGEST_PAUSE_S = 300.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", required=True, metavar="verify|repair|stats|export|mirror|retire")
    verify = commands.add_parser(
        "verify", help="read every byte; status 5 if an acknowledged record is damaged or gone"
    )
    repair = commands.add_parser("repair", help="put damage into quarantine, note losses, rebuild indexes")
    repair.add_argument("--break-claim", metavar="NAME", help="first remove this claim of a writer that is gone")
    stats = commands.add_parser("stats", help="sums by status, class and month")
    export = commands.add_parser("export", help="every attempt once, as JSON lines, CSV, SQL or Parquet")
    export.add_argument("--format", choices=("jsonl", "csv", "sql", "parquet"), default="jsonl")
    export.add_argument("-O", "--output", metavar="FILE", type=Path, help="default: standard output")
    retire = commands.add_parser("retire", help="replace old segments by their sums")
    retire.add_argument("--older-than", metavar="DAYS", type=float, required=True)
    mirror = commands.add_parser("mirror", help="copy what is new into a SQL database")
    mirror.add_argument("--to", metavar="URL", help="the database, without password (default: the setting mirror)")
    mirror.add_argument("--follow", action="store_true", help="go on for ever")
    mirror.add_argument("--interval", metavar="S", type=float, default=60.0, help="with --follow: pause (default 60)")
    mirror.add_argument("--restart", action="store_true", help="copy everything again")
    for command in (verify, repair, stats, export, mirror, retire):
        add_ledger(command)
    for command in (verify, stats):
        command.add_argument("--json", action="store_true", help="JSON")


def run(args: argparse.Namespace) -> int:
    actions = {
        "verify": _verify,
        "repair": _repair,
        "stats": _stats,
        "export": _export,
        "mirror": _mirror,
        "retire": _retire,
    }
    return actions[args.action](args)


def _directories(args: argparse.Namespace) -> list[Path]:
    wanted = clusters(args)
    return [d for root in roots(args) for d in writer_dirs(root) if not wanted or d.name in wanted]


def _verify(args: argparse.Namespace) -> int:
    from slurm_triage.ledger.verify import verify

    verdicts = [verify(directory) for directory in _directories(args)]
    if args.json:
        _json([{**asdict(v), "lost": v.lost, "sound": not v.new_losses} for v in verdicts])
    elif not verdicts:
        print("0 segments, sound: nothing has been recorded here yet")
    for verdict in () if args.json else verdicts:
        print(
            f"{verdict.writer}: {verdict.lines} records in {verdict.segment_count} segments, "
            f"{verdict.size_bytes / 1e6:.1f} MB, {verdict.indexed} indexed"
        )
        for f in verdict.findings:
            known = " (in quarantine)" if f.known else ""
            lost = f", {f.lost} records lost" if f.lost else ""
            print(f"  {f.kind:14} {f.file} at byte {f.offset}, {f.size_bytes} bytes{lost}: {f.detail}{known}")
        if verdict.new_losses:
            print("  damaged: run slurm-triage ledger repair")
        else:
            print(f"  sound; {verdict.lost} records lost in the past" if verdict.lost else "  sound")
    return EXIT_PARTIAL if any(v.new_losses for v in verdicts) else 0


def _repair(args: argparse.Namespace) -> int:
    from slurm_triage.ledger.lock import break_claim
    from slurm_triage.ledger.repair import repair

    directories = _directories(args)
    if args.break_claim is not None:
        if len(directories) != 1:
            raise UsageError("several clusters are in this ledger; name the one whose claim to break with -M")
        break_claim(directories[0], args.break_claim)
    status = 0
    for directory in directories:
        done = repair(directory, time.time)
        print(
            f"{done.writer}: {done.quarantined} places ({done.quarantined_bytes} bytes) put into quarantine, "
            f"{done.lost_noted} lost records noted, {done.resealed} segments sealed anew, {done.indexed} indexes made"
        )
        if done.busy is not None:
            print(f"  not all done: {done.busy}")
            status = EXIT_PARTIAL
    return status


def _stats(args: argparse.Namespace) -> int:
    from slurm_triage.ledger.stats import stats

    found = stats(roots(args), clusters(args))
    total = found.total
    if args.json:
        _json(
            {
                "total": total,
                "months": found.months,
                "retired_segments": found.retired_segments,
                "lost_rollups": found.lost_rollups,
                "read": found.counts,
            }
        )
        return warn_of_damage(found.counts)
    print(
        f"{total.attempts} attempts, {total.gpu_hours:.0f} GPU hours, {total.gpu_hours_lost:.0f} lost; "
        f"{found.segment_count} segments, {found.size_bytes / 1e6:.1f} MB, {found.retired_segments} retired"
    )
    if found.lost_rollups:
        print(f"{found.lost_rollups} sums of retired segments are damaged; what they counted is missing here")
    if found.counts.quarantined:
        print(f"{found.counts.quarantined} damaged places are in quarantine; slurm-triage ledger verify tells of them")
    print("\nstatus       attempts")
    for status, count in total.statuses.most_common():
        print(f"{status:12} {count:8}")
    print("\nclass                    attempts  GPU hours lost")
    for cls, (attempts, lost) in sorted(total.classes.items(), key=lambda item: -item[1][1]):
        print(f"{cls:24} {attempts:8.0f} {lost:15.1f}")
    print("\nmonth   attempts  failed  GPU hours lost")
    for month, tally in found.months.items():
        print(f"{month:6} {tally.attempts:9} {tally.statuses['failed']:7} {tally.gpu_hours_lost:15.1f}")
    return warn_of_damage(found.counts)


def _export(args: argparse.Namespace) -> int:
    from slurm_triage.ledger.export import export
    from slurm_triage.ledger.read import records, snapshot

    snap = snapshot(roots(args), clusters(args))
    if args.output is None:
        if args.format == "parquet" and sys.stdout.isatty():
            raise UsageError("Parquet is binary; name a file with -O")
        export(records(snap), args.format, sys.stdout.buffer)
        return warn_of_damage(snap.counts)
    try:
        with args.output.open("wb") as out:
            export(records(snap), args.format, out)
    except OSError as error:
        raise LedgerError(f"cannot write {args.output} ({error.strerror}); choose another file") from error
    return warn_of_damage(snap.counts)


def _mirror(args: argparse.Namespace) -> int:
    from slurm_triage.ledger.mirror import Mirror, read_password
    from slurm_triage.settings import PREFIX, load_settings

    settings = load_settings()
    url = args.to or settings.mirror
    if not url:
        raise UsageError("no database is named; set mirror in config.toml, or give --to mysql+pymysql://user@host/name")
    password = os.environ.get(f"{PREFIX}MIRROR_PASSWORD")
    if password is None and settings.mirror_password_file:
        password = read_password(Path(settings.mirror_password_file))
    mirror = Mirror(url, password)
    if not args.follow:
        return _copy_once(mirror, args, quiet=False)
    told = None
    pause_s = args.interval
    while True:
        try:
            _copy_once(mirror, args, quiet=True)
            told, pause_s = None, args.interval
        except TriageError as error:
            if str(error) != told:
                told = str(error)
                print(f"slurm-triage: {told}", file=sys.stderr, flush=True)
            pause_s = min(2 * pause_s, max(args.interval, _LONGEST_PAUSE_S))
        args.restart = False
        time.sleep(pause_s)


def _copy_once(mirror: Mirror, args: argparse.Namespace, *, quiet: bool) -> int:
    status = 0
    for directory in _directories(args):
        copied = mirror.catch_up(directory, restart=args.restart)
        if copied.records or not quiet:
            print(f"{directory.name}: {copied.records} records copied to {mirror.name}", flush=True)
        status = max(status, warn_of_damage(copied.counts))
    return status


def _retire(args: argparse.Namespace) -> int:
    from slurm_triage.ledger.rollup import retire

    for directory in _directories(args):
        removed = retire(directory, time.time() - args.older_than * 86400.0)
        print(f"{directory.name}: {len(removed)} segments replaced by their sums")
    return 0


def _json(document: Any) -> None:
    sys.stdout.buffer.write(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
