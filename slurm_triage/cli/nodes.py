"""Failure statistics per node: which nodes fail more often than chance explains. With NODE: its record."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from typing import Any

import orjson

from slurm_triage.cli.job_table import Column, print_table
from slurm_triage.cli.source import add_ledger, add_style, clusters, roots, style, warn_of_damage
from slurm_triage.errors import NotFoundError
from slurm_triage.ledger.nodes import NodeStats, node_stats
from slurm_triage.ledger.query import Filter, select
from slurm_triage.ledger.read import ReadCounts
from slurm_triage.ledger.when import parse_when
from slurm_triage.model.duration import iso
from slurm_triage.model.nodelist import fold

_SINCE = "now-90days"
_COLUMNS = (
    Column("Node"),
    Column("Jobs", right=True),
    Column("Failed", right=True),
    Column("Rate", right=True),
    Column("Others", right=True),
    Column("P", right=True),
    Column("Q", right=True),
    Column("Classes", shrinks=True),
    Column("LastFailure"),
    Column("LastClean"),
    Column("Advice", shrinks=True),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", nargs="?", metavar="NODE", help="one node: every failure of its own")
    parser.add_argument("-S", "--starttime", metavar="TIME", default=_SINCE, help=f"jobs since TIME (default {_SINCE})")
    parser.add_argument("-a", "--all", action="store_true", help="also nodes that never failed")
    parser.add_argument(
        "--exclude", action="store_true", help="only the node list to keep away from, for sbatch --exclude"
    )
    add_style(parser)
    add_ledger(parser)


def run(args: argparse.Namespace) -> int:
    now = time.time()
    counts = ReadCounts()
    wanted = Filter(since=parse_when(args.starttime, now))
    rows = node_stats(select(roots(args), wanted, clusters(args), counts), now)
    if args.node is not None:
        _one(args, next((row for row in rows if row.node == args.node), None))
    elif args.exclude:
        print(fold(row.node for row in rows if row.advice is not None))
    elif args.json:
        _json({"nodes": [_plain(row) for row in rows]})
    else:
        shown = [row for row in rows if row.failures or args.all]
        print_table(_COLUMNS, [_cells(row) for row in shown], style(args))
    return warn_of_damage(counts)


def _one(args: argparse.Namespace, row: NodeStats | None) -> None:
    if row is None:
        raise NotFoundError(f"no job of the ledger ran on {args.node} since {args.starttime}; check the name or use -S")
    if args.json:
        _json(_plain(row))
        return
    print(f"{row.node}: {row.jobs} jobs, {len(row.failures)} in which it was the node that failed")
    print(f"  rate        {row.rate:.2%} of its jobs, all other nodes {row.cluster_rate:.2%}")
    print(f"  chance      p = {row.p_value:.2g}, corrected for all nodes q = {row.q_value:.2g}")
    print(f"  last clean  {iso(row.last_clean_run) or 'none'}")
    print(f"  advice      {_advice(row) or 'none'}")
    if row.failures:
        print("  by class    " + ", ".join(f"{cls} {count}" for cls, count in row.by_class.most_common()) + "\n")
    columns = (Column("End"), Column("JobID"), Column("User"), Column("Class"), Column("Evidence"))
    cells = [[iso(f.at) or "", f.job_id, f.user or "", f.cls or "", f.evidence] for f in reversed(row.failures)]
    if cells:
        print_table(columns, cells, style(args))


def _cells(row: NodeStats) -> list[str]:
    return [
        row.node,
        str(row.jobs),
        str(len(row.failures)),
        f"{row.rate:.1%}",
        f"{row.cluster_rate:.1%}",
        f"{row.p_value:.2g}",
        f"{row.q_value:.2g}",
        ",".join(f"{cls}:{count}" for cls, count in row.by_class.most_common()),
        iso(row.last_failure) or "",
        iso(row.last_clean_run) or "",
        _advice(row),
    ]


def _advice(row: NodeStats) -> str:
    return f"exclude until {iso(row.advice.expires)}: {row.advice.why}" if row.advice is not None else ""


def _plain(row: NodeStats) -> dict[str, Any]:
    return {**asdict(row), "by_class": dict(row.by_class)}


def _json(document: dict[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
