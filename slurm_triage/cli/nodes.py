"""Failure statistics per node: which nodes fail more often than chance explains. With NODE: its record."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from typing import Any

import orjson

from slurm_triage.cli.source import add_ledger, add_style, clock, clusters, roots, style, warn_of_damage
from slurm_triage.cli.text_table import Column, print_table
from slurm_triage.errors import NotFoundError, UsageError
from slurm_triage.ledger.nodes import ADVICE_S, Census, NodeStats
from slurm_triage.ledger.query import Filter, select_objects
from slurm_triage.ledger.read import ReadCounts
from slurm_triage.ledger.when import parse_when
from slurm_triage.model.nodelist import expand, fold

_SINCE = "now-90days"
_COLUMNS = (
    Column("Cluster"),
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
    parser.add_argument(
        "node", nargs="?", metavar="NODE", help="one node: every failure of its own; or a list of nodes"
    )
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
    # Nodes of two clusters may have the same name, and are compared with those of their own.
    censuses: dict[str, Census] = {}
    for values in select_objects(roots(args), wanted, clusters(args), counts):
        censuses.setdefault(values.get("cluster", ""), Census()).add_object(values)
    rows = [(cluster, row) for cluster, census in sorted(censuses.items()) for row in census.stats(now)]
    names = expand(args.node) if args.node else ()
    if names:
        rows = [(cluster, row) for cluster, row in rows if row.node in names]
        if not rows:
            raise NotFoundError(
                f"no job of the ledger ran on {args.node} since {args.starttime}; check the name or use -S"
            )
    if args.exclude and len(censuses) > 1:
        # A node of the same name may be sound elsewhere.
        raise UsageError(f"this ledger is of several clusters: name one with -M ({', '.join(sorted(censuses))})")
    if args.exclude:
        print(fold({row.node for _, row in rows if row.advice is not None}))
    elif args.json:
        _json([_plain(cluster, row) for cluster, row in rows], alone=len(names) == 1)
    elif len(names) == 1:
        for number, (cluster, row) in enumerate(rows):
            print("\n" if number else "", end="")
            _one(args, cluster if len(censuses) > 1 else "", row, now)
    else:
        shown = [(cluster, row) for cluster, row in rows if row.failures or args.all or names]
        first = 0 if len(censuses) > 1 else 1
        print_table(_COLUMNS[first:], [_cells(cluster, row)[first:] for cluster, row in shown], style(args))
    return warn_of_damage(counts)


def _one(args: argparse.Namespace, cluster: str, row: NodeStats, now: float) -> None:
    of = f" of {cluster}" if cluster else ""
    print(f"{row.node}{of}: {row.jobs} jobs, {len(row.failures)} in which it was the node that failed")
    print(f"  rate        {row.rate:.2%} of its jobs, all other nodes {row.cluster_rate:.2%}")
    print(f"  chance      p = {row.p_value:.2g}, corrected for all nodes q = {row.q_value:.2g}")
    print(f"  last clean  {clock(row.last_clean_run) or 'none'}")
    print(f"  advice      {_advice(row) or _no_advice(row, now)}")
    if not row.failures:
        return
    print("  by class    " + ", ".join(f"{cls} {count}" for cls, count in row.by_class.most_common()) + "\n")
    columns = (Column("End"), Column("JobID"), Column("User"), Column("Class"), Column("Evidence"))
    cells = [[clock(f.at), f.job_id, f.user or "", f.cls or "", f.evidence] for f in reversed(row.failures)]
    print_table(columns, cells, style(args))


def _no_advice(row: NodeStats, now: float) -> str:
    if row.last_failure is None:
        return "none"
    if row.last_clean_run is not None and row.last_clean_run > row.last_failure:
        return "none; it has finished a job cleanly since it failed"
    if row.last_failure + ADVICE_S <= now:
        return f"none; it has not failed for {ADVICE_S / 86400:.0f} days"
    return "none; what was seen is no evidence against the node"


def _cells(cluster: str, row: NodeStats) -> list[str]:
    return [
        cluster,
        row.node,
        str(row.jobs),
        str(len(row.failures)),
        f"{row.rate:.1%}",
        f"{row.cluster_rate:.1%}",
        f"{row.p_value:.2g}",
        f"{row.q_value:.2g}",
        ",".join(f"{cls}:{count}" for cls, count in row.by_class.most_common()),
        clock(row.last_failure),
        clock(row.last_clean_run),
        _advice(row),
    ]


def _advice(row: NodeStats) -> str:
    return f"exclude until {clock(row.advice.expires)}: {row.advice.why}" if row.advice is not None else ""


def _plain(cluster: str, row: NodeStats) -> dict[str, Any]:
    return {"cluster": cluster, **asdict(row), "by_class": dict(row.by_class)}


def _json(rows: list[dict[str, Any]], *, alone: bool) -> None:
    document = rows[0] if alone and len(rows) == 1 else {"nodes": rows}
    sys.stdout.buffer.write(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
