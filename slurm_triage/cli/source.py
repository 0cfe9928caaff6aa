"""Options that say which ledger to read and how to print, shared by the commands that read it."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from slurm_triage.cli.text_table import Style
from slurm_triage.errors import LedgerError, NotFoundError
from slurm_triage.ledger.place import ledger_root, ledgers_to_read
from slurm_triage.ledger.read import ReadCounts
from slurm_triage.ledger.segment import writer_dirs

EXIT_PARTIAL = 5


def add_ledger(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ledger",
        metavar="DIR",
        type=Path,
        help="directory of the ledger (default: $SLURM_TRIAGE_LEDGER, else the site's)",
    )
    parser.add_argument("-M", "--clusters", metavar="NAMES", default="", help="only these clusters, or all")


def add_style(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-P", "--parsable2", action="store_true", help="fields between bars, nothing cut")
    parser.add_argument("--delimiter", metavar="TEXT", default="|", help="instead of the bar")
    parser.add_argument("-n", "--noheader", action="store_true", help="no heading")
    parser.add_argument("--json", action="store_true", help="JSON")


def style(args: argparse.Namespace) -> Style:
    return Style(parsable=args.parsable2, header=not args.noheader, delimiter=args.delimiter)


def roots(args: argparse.Namespace) -> tuple[Path, ...]:
    """The ledgers to read. Raises NotFoundError if there is none, or none of a cluster that is asked for."""
    # Path.is_dir raises where one may not look.
    is_dir = os.path.isdir
    found = ledgers_to_read() if args.ledger is None else (args.ledger,) if is_dir(args.ledger) else ()
    if not found:
        where = args.ledger or ledger_root()
        if is_dir(where):
            raise LedgerError(f"you may not read the ledger {where}; ask its owner, or name another with --ledger")
        raise NotFoundError(f"there is no ledger at {where}; name one with --ledger or $SLURM_TRIAGE_LEDGER")
    wanted = clusters(args)
    known = {directory.name for root in found for directory in writer_dirs(root)} if wanted else set()
    for name in wanted:
        if name not in known:
            raise NotFoundError(f"the ledger has nothing of the cluster {name}, but of: {', '.join(sorted(known))}")
    return found


def clusters(args: argparse.Namespace) -> tuple[str, ...]:
    names = tuple(name for name in args.clusters.split(",") if name)
    return () if "all" in names else names


def words(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def clock(epoch_s: float | None) -> str:
    """Local time as sacct prints it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(epoch_s)) if epoch_s is not None else ""


def warn_of_damage(counts: ReadCounts) -> int:
    """Exit status: 0, or 5 after a warning if something in the ledger could not be read."""
    if not counts.damaged:
        return 0
    print(
        f"slurm-triage: {counts.damaged} damaged places were skipped (first: {counts.first_damage}); "
        "run slurm-triage ledger verify",
        file=sys.stderr,
    )
    return EXIT_PARTIAL
