"""Numbers for Prometheus: jobs by verdict, GPU time lost, how far the worker is behind.

Prints them, or writes slurm-triage.prom into the directory of node_exporter's textfile collector. See docs/metrics.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from slurm_triage.cli.source import EXIT_PARTIAL, add_ledger, clusters
from slurm_triage.ledger.place import ledgers_to_read

_SINCE = "now-1day"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--write", metavar="DIR", type=Path, help="write slurm-triage.prom into DIR, print nothing")
    parser.add_argument(
        "-S",
        "--since",
        metavar="TIME",
        default=_SINCE,
        help=f"jobs that were there after TIME (default {_SINCE})",
    )
    add_ledger(parser)


def run(args: argparse.Namespace) -> int:
    from slurm_triage.ledger.when import parse_when
    from slurm_triage.metrics.exposition import Sample, exposition, write
    from slurm_triage.metrics.from_ledger import ledger_samples
    from slurm_triage.metrics.from_spool import reconciled_samples, spool_samples
    from slurm_triage.metrics.from_worker import worker_samples
    from slurm_triage.settings import load_settings

    now = time.time()
    since = parse_when(args.since, now)
    settings = load_settings()
    samples = [
        *ledger_samples((args.ledger,) if args.ledger else ledgers_to_read(), since, clusters(args), now=now),
        *spool_samples(settings.spool, now),
        *reconciled_samples(settings.state),
        *worker_samples(settings.state),
        Sample("window_seconds", max(0.0, now - since), {}),
        Sample("metrics_timestamp_seconds", now, {}),
    ]
    text = exposition(samples)
    if args.write is None:
        sys.stdout.buffer.write(text)
        sys.stdout.flush()
    else:
        write(args.write, text)
    # Not readable is a measurement, too: it is exported, and the status tells it to whoever calls.
    return EXIT_PARTIAL if any(s.name.endswith("_readable") and not s.value for s in samples) else 0
