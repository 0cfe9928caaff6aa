"""Process the spool: one worker per cluster, elected by the ledger's lock."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType

from slurm_triage.errors import LedgerError, UsageError
from slurm_triage.settings import load_settings

#: A worker that was started on demand goes when nothing has come for this long.
IDLE_EXIT_S = 300.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", type=Path, help="instead of /etc/slurm-triage/config.toml")
    parser.add_argument("--once", action="store_true", help="end when the spool is empty")
    parser.add_argument(
        "--on-demand",
        action="store_true",
        help=f"end after {IDLE_EXIT_S:.0f} s without work, and at once, in silence, if there is a worker already",
    )
    parser.add_argument("--no-reconcile", action="store_true", help="do not look for jobs that no hook reported")
    parser.add_argument("-v", "--verbose", action="store_true", help="one line per report")


def run(args: argparse.Namespace) -> int:
    from slurm_triage.service.build import worker

    settings = load_settings(args.config)
    if args.no_reconcile:
        settings = replace(settings, reconcile_s=0.0)
    if args.once:
        # A watched job may run for weeks.
        settings = replace(settings, watch_jobs=0)
    if args.once and args.on_demand:
        raise UsageError("--once and --on-demand exclude each other; give one of them")
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if args.verbose else logging.INFO,
        format="%(asctime)s %(message)s",
    )
    logging.getLogger("filelock").setLevel(logging.WARNING)
    asked = _Asked()
    idle_exit_s = 0.0 if args.once else IDLE_EXIT_S if args.on_demand else None
    try:
        with worker(settings) as elected:
            logging.getLogger("slurm-triage").info("at work: spool %s, ledger %s", settings.spool, settings.ledger)
            elected.run(lambda: asked.to_stop, idle_exit_s=idle_exit_s)
            logging.getLogger("slurm-triage").info("ended: %s, %d queries", elected.counts, elected.lookup.queries)
    except LedgerError as error:
        if args.on_demand and "another writer" in str(error):
            return 0
        raise
    return 0


class _Asked:
    """``to_stop``: a signal has asked for the end."""

    def __init__(self) -> None:
        self.to_stop = False
        signal.signal(signal.SIGTERM, self._note)
        signal.signal(signal.SIGINT, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.to_stop = True
