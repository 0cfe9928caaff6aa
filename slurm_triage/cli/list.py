"""Table of triaged jobs, with sacct's flags. Without -j and -S: the last 7 days (before -E)."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import orjson

from slurm_triage.cli.source import add_ledger, add_style, clock, clusters, roots, style, warn_of_damage, words
from slurm_triage.cli.text_table import Column, parse_fields, print_table, printable
from slurm_triage.ledger.query import Filter, by_job, matches, parse_node_counts, parse_nodes, parse_states, select
from slurm_triage.ledger.read import ReadCounts
from slurm_triage.ledger.record import LedgerRecord, to_dict
from slurm_triage.model.nodelist import fold

if TYPE_CHECKING:
    from slurm_triage.model.history import Outbreak

DEFAULT_FORMAT = "JobID,JobName,User,Partition,State,Status,Class,Node,Elapsed,GPUHours,Lost,End"
_SINCE = "now-7days"


def _elapsed(seconds: float | None) -> str:
    """``D-HH:MM:SS`` as sacct prints it."""
    if seconds is None:
        return ""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return (f"{days}-" if days else "") + f"{hour:02d}:{minute:02d}:{second:02d}"


def _text(value: object) -> str:
    return "" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


_FIELDS: tuple[tuple[Column, Callable[[LedgerRecord], str]], ...] = (
    (Column("JobID"), lambda r: r.display_id),
    (Column("JobIDRaw"), lambda r: r.job_id),
    (Column("JobName", shrinks=True), lambda r: _text(r.name)),
    (Column("Cluster"), lambda r: _text(r.cluster)),
    (Column("User"), lambda r: _text(r.user)),
    (Column("Account"), lambda r: _text(r.account)),
    (Column("Partition"), lambda r: _text(r.partition)),
    (Column("State", shrinks=True), lambda r: _text(r.state)),
    (Column("ExitCode", right=True), lambda r: _text(r.exit_code)),
    (Column("Status"), lambda r: r.status),
    (Column("Class"), lambda r: _text(r.cls)),
    (Column("Confidence"), lambda r: _text(r.confidence)),
    (Column("Domain"), lambda r: _text(r.domain)),
    (Column("Stage"), lambda r: _text(r.stage)),
    (Column("Rule"), lambda r: _text(r.rule)),
    (Column("Fingerprint"), lambda r: _text(r.fingerprint)),
    (Column("Node", shrinks=True), lambda r: fold(r.culprits)),
    (Column("NodeList", shrinks=True), lambda r: r.nodes),
    (Column("NNodes", right=True), lambda r: _text(r.node_count)),
    (Column("Restarts", right=True), lambda r: _text(r.restarts)),
    (Column("Submit"), lambda r: clock(r.submit)),
    (Column("Start"), lambda r: clock(r.start)),
    (Column("End"), lambda r: clock(r.end)),
    (Column("Elapsed", right=True), lambda r: _elapsed(r.elapsed_s)),
    (Column("ElapsedRaw", right=True), lambda r: "" if r.elapsed_s is None else str(int(r.elapsed_s))),
    (Column("LastStep", right=True), lambda r: _text(r.last_step)),
    (Column("StepTime", right=True), lambda r: _text(r.step_time_s)),
    (Column("Throughput", right=True), lambda r: _text(r.throughput)),
    (Column("GPUs", right=True), lambda r: _text(r.gpus)),
    (Column("GPUHours", right=True), lambda r: _text(r.gpu_hours)),
    (Column("Lost", right=True), lambda r: _text(r.gpu_hours_lost)),
    (Column("Model", shrinks=True), lambda r: _text(r.model)),
    (Column("Image", shrinks=True), lambda r: _text(r.image)),
    (Column("JobDir", shrinks=True), lambda r: _text(r.job_dir)),
    (Column("Report", shrinks=True), lambda r: _text(r.report_path)),
)
FIELDS = {column.name.lower(): column for column, _ in _FIELDS}
_VALUES = {column.name: value for column, value in _FIELDS}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-j", "--jobs", metavar="IDS", help="job ids, also 7878_3 and 29+1")
    parser.add_argument("-u", "--user", metavar="NAMES", help="only jobs of these users")
    parser.add_argument("-A", "--accounts", metavar="NAMES", help="only jobs of these accounts")
    parser.add_argument("-r", "--partition", metavar="NAMES", help="only jobs of these partitions")
    parser.add_argument("--name", metavar="NAMES", help="only jobs of these names")
    parser.add_argument("-S", "--starttime", metavar="TIME", help=f"jobs that were there after TIME (default {_SINCE})")
    parser.add_argument("-E", "--endtime", metavar="TIME", help="jobs that were there before TIME")
    parser.add_argument("-s", "--state", metavar="STATES", help="Slurm states (F,TO,NODE_FAIL) or statuses (hanging)")
    parser.add_argument("-w", "-N", "--nodelist", metavar="NODES", help="jobs that ran on any of these nodes")
    parser.add_argument("-i", "--nnodes", metavar="MIN[-MAX]", help="jobs of so many nodes")
    parser.add_argument("--class", dest="classes", metavar="NAMES", help="only these failure classes")
    parser.add_argument("-o", "--format", metavar="FIELDS", help="fields, NAME%%WIDTH ($SLURM_TRIAGE_FORMAT)")
    parser.add_argument("-e", "--helpformat", action="store_true", help="names of all fields")
    parser.add_argument("--exit-code", action="store_true", help="status 1 if a job is failed, hanging or unknown")
    parser.add_argument("-p", "--parsable", action="store_true", help="as -P, with a bar at the end")
    for letter, name in (("-X", "--allocations"), ("-a", "--allusers"), ("-D", "--duplicates")):
        parser.add_argument(letter, name, action="store_true", help="as in sacct; here it is always so")
    add_style(parser)
    add_ledger(parser)


def run(args: argparse.Namespace) -> int:
    if args.helpformat:
        print("\n".join(column.name for column, _ in _FIELDS))
        return 0
    chosen = args.format or os.environ.get("SLURM_TRIAGE_FORMAT")
    columns = parse_fields(chosen or DEFAULT_FORMAT, FIELDS)
    counts = ReadCounts()
    found = list(_found(args, counts))
    if not (chosen or args.parsable2 or args.parsable) and len({record.cluster for record in found}) > 1:
        # Ids of two clusters may be the same; scripts count on the columns that they know.
        columns = [FIELDS["cluster"], *columns]
    found.sort(key=_order)
    # Of jobs that were picked by owner, node or class nobody can tell what others have in common.
    seen: Sequence[tuple[str | None, Outbreak]] = ()
    if not any((args.jobs, args.user, args.accounts, args.name, args.state, args.nodelist, args.classes)):
        seen = _outbreaks(found)
    if args.json:
        told = [{"cluster": cluster, **asdict(outbreak)} for cluster, outbreak in seen]
        document = {"jobs": [to_dict(record) for record in found], "outbreaks": told, "damaged": counts.damaged}
        sys.stdout.buffer.write(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    else:
        _print(args, columns, found)
        several = len({record.cluster for record in found}) > 1
        for cluster, outbreak in seen:
            where = f" on {cluster}" if several else ""
            print(printable(f"outbreak{where}: {outbreak.sentence}"), file=sys.stderr)
    status = warn_of_damage(counts)
    if args.exit_code and any(record.status in ("failed", "hanging", "unknown") for record in found):
        return 1
    return status


def _print(args: argparse.Namespace, columns: Sequence[Column], found: Sequence[LedgerRecord]) -> None:
    rows = [[_VALUES[c.name](record) for c in columns] for record in found]
    how = style(args)
    if args.parsable:
        columns, rows, how = [*columns, Column("")], [[*cells, ""] for cells in rows], how._replace(parsable=True)
    print_table(columns, rows, how)


def _order(record: LedgerRecord) -> tuple[float, str, int, str]:
    """As things happened; what ended in the same second by id."""
    ended = record.ended if record.ended is not None else float("inf")
    group = record.array_job_id or record.het_job_id or record.job_id
    task = record.array_task_id if record.array_task_id is not None else record.job_id
    return int(ended) if ended < float("inf") else ended, group.zfill(12), int(task) if task.isdecimal() else 0, task


def _outbreaks(found: Sequence[LedgerRecord]) -> list[tuple[str | None, Outbreak]]:
    """By cluster. Slurm here knows the switches of one cluster only."""
    from slurm_triage.ledger.recurrence import bursts, outbreaks  # look-ups need none of it

    known = {record.cluster for record in found}
    if not bursts(found):
        return []
    from slurm_triage.slurm.topology import leaf_switches

    switch_of = leaf_switches() if len(known) == 1 else _no_switch
    seen = [
        (cluster, outbreak)
        for cluster in known
        for outbreak in outbreaks([r for r in found if r.cluster == cluster], switch_of)
    ]
    return sorted(seen, key=lambda item: item[1].last, reverse=True)


def _no_switch(_: str) -> None:
    return None


def _found(args: argparse.Namespace, counts: ReadCounts) -> Iterator[LedgerRecord]:
    now = time.time()
    since = until = None
    if not args.jobs or args.starttime or args.endtime:
        from slurm_triage.ledger.when import parse_when

        until = parse_when(args.endtime, now) if args.endtime else None
        # Without -S the days before the end that was asked for.
        since = parse_when(args.starttime or _SINCE, now if args.starttime or until is None else until)
    if args.jobs and not args.starttime:
        since = None
    wanted = Filter(
        users=words(args.user),
        accounts=words(args.accounts),
        partitions=words(args.partition),
        names=words(args.name),
        since=since,
        until=until,
        states=parse_states(args.state or ""),
        nodes=parse_nodes(args.nodelist or ""),
        classes=words(args.classes),
        node_counts=parse_node_counts(args.nnodes or ""),
    )
    where = roots(args)
    if not args.jobs:
        yield from select(where, wanted, clusters(args), counts)
        return
    for job in words(args.jobs):
        yield from (r for r in by_job(where, job, clusters(args), counts) if matches(r, wanted))
