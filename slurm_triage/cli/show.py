"""The report of jobs by id: as the worker left it, or made now through accounting and the job's files."""

from __future__ import annotations

import argparse
import contextlib
import os
import stat
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slurm_triage.cli.view import print_view
from slurm_triage.errors import LedgerError, NotFoundError, TriageError, UsageError
from slurm_triage.ledger.place import ledgers_to_read
from slurm_triage.report.document import Document

if TYPE_CHECKING:
    from slurm_triage.ledger.history import SwitchOf
    from slurm_triage.ledger.record import LedgerRecord

#: Statuses that make ``--exit-code`` return 1.
FAILURES = frozenset({"failed", "hanging", "cancelled", "unknown"})
EXIT_FAILURE_FOUND = 1
#: As report/write.py: more than this is no report of ours.
_MAX_REPORT_BYTES = 256 << 20
#: An array with more tasks is summed up on a terminal; so many ids of a group are named.
_MAX_REPORTS = 8
_MAX_IDS = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("jobs", nargs="*", metavar="JOB", help="7877, array 7878 or 7878_3, het part 29+1")
    parser.add_argument("-j", "--jobs", dest="more", metavar="IDS", default="", help="the same, separated by commas")
    parser.add_argument("--attempt", type=int, metavar="N", help="the N-th run of a requeued job (default: the last)")
    parser.add_argument("-M", "--clusters", metavar="NAMES", default="", help="only these clusters")
    parser.add_argument("--fresh", action="store_true", help="triage now, whatever is stored")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print triage.json")
    output.add_argument("--markdown", action="store_true", help="print TRIAGE.md")
    output.add_argument("--html", action="store_true", help="print a self-contained page")
    parser.add_argument("--share", action="store_true", help="replace user, host names, addresses and paths")
    parser.add_argument(
        "--exit-code",
        action="store_true",
        help="status 1 if the job is failed, hanging, cancelled or unknown",
    )


def run(args: argparse.Namespace) -> int:
    wanted = [job for ids in (*args.jobs, args.more) for job in ids.split(",") if job]
    if not wanted:
        raise UsageError("name a job: slurm-triage 7877")
    if args.attempt is not None and args.attempt < 1:
        raise UsageError("--attempt counts from 1")
    clusters = tuple(name for name in args.clusters.split(",") if name and name != "all")
    problems: list[TriageError] = []
    shown = 0
    failed = False
    for job_id in wanted:
        try:
            documents = _documents(job_id, args, clusters)
            if len(documents) > _MAX_REPORTS and not (args.json or args.markdown or args.html):
                _print_groups(job_id, documents)
                shown += 1
                failed = failed or any(document["status"] in FAILURES for document in documents)
                continue
            for document in documents:
                if shown:
                    sys.stdout.write("\n")
                print_view(document, args)
                shown += 1
                failed = failed or document["status"] in FAILURES
        except TriageError as error:
            problems.append(error)
    for problem in problems[:-1]:
        print(f"slurm-triage: {problem}", file=sys.stderr)
    if problems:
        raise problems[-1]
    return EXIT_FAILURE_FOUND if failed and args.exit_code else 0


def _documents(job_id: str, args: argparse.Namespace, clusters: Sequence[str]) -> list[Document]:
    """Of one job, or of every part of an array or het job."""
    records = [] if args.fresh else _records(job_id, clusters, args.attempt)
    stored = [_stored(record) for record in records]
    documents = [document for document in stored if document is not None]
    if documents and len(documents) == len(stored):
        if len(documents) <= _MAX_REPORTS:
            for record, document in zip(records, documents, strict=True):
                _look_again(record, document)
        return documents
    try:
        from slurm_triage.cli.triage_now import triage_now
        from slurm_triage.report.build_document import report_document

        return [report_document(report) for report in triage_now(job_id, args.attempt, clusters)]
    except TriageError as error:
        if documents:
            return documents
        if records:
            raise _unreadable(records[-1], error) from error
        raise


def _records(job_id: str, clusters: Sequence[str], attempt: int | None) -> list[LedgerRecord]:
    """The ledger's: for each job its last run, or the one that was asked for."""
    from slurm_triage.ledger.query import by_job

    roots = ledgers_to_read()
    if not roots:
        return []
    by_id: dict[tuple[str | None, str], list[LedgerRecord]] = {}
    try:
        for record in by_job(roots, job_id, clusters):
            by_id.setdefault((record.cluster, record.job_id), []).append(record)
    except LedgerError as error:
        # The job can be triaged without what was recorded about it.
        print(f"slurm-triage: {error}", file=sys.stderr)
    chosen = []
    for runs in by_id.values():
        if attempt is None:
            chosen.append(runs[-1])
        else:
            counted = [r for r in runs if r.restarts == attempt - 1] or runs[attempt - 1 : attempt]
            chosen.extend(counted[-1:])
    return chosen


def _stored(record: LedgerRecord) -> Document | None:
    """The report that the worker wrote, None if it is not there, incomplete, or about something else."""
    if record.report_path is None or record.provisional:
        return None
    from slurm_triage.model.duration import parse_time
    from slurm_triage.report.stored import StoredReportError, load_document

    try:
        document = load_document(_read(record.report_path), record.report_path)
    except (OSError, StoredReportError):
        return None
    job = document["job"]
    start = parse_time(job["start"]) if job["start"] else None
    same_run = record.start is None or start is None or abs(start - record.start) < 2.0
    return document if str(job["id"]) == record.job_id and same_run else None


def _look_again(record: LedgerRecord, document: Document) -> None:
    """More may be known of other jobs than when the report was made. Node statistics take longer than a look-up may:
    advice of the time stays until it expires."""
    from slurm_triage.ledger.history import look_back
    from slurm_triage.report.history_document import advice_in_force, history_document

    def switches() -> SwitchOf:
        from slurm_triage.slurm.topology import leaf_switches  # only where there is an outbreak to explain

        return leaf_switches()

    on_nodes = advice_in_force(document["history"], time.time())
    with contextlib.suppress(LedgerError):
        document["history"] = history_document(look_back(record, ledgers_to_read(), on_nodes, switches))


def _print_groups(job_id: str, documents: Sequence[Document]) -> None:
    """Tasks that ended alike on one line each, failures first."""
    from slurm_triage.cli.text_table import printable
    from slurm_triage.report.wording import job_label

    groups: dict[tuple[str, str], list[str]] = {}
    for document in documents:
        cause = f"{document['primary']['class']}: {document['primary']['title']}" if document["primary"] else ""
        groups.setdefault((document["status"], cause), []).append(job_label(document))
    print(f"{printable(job_id)}: {len(documents)} jobs")
    for (status, cause), ids in sorted(groups.items(), key=lambda group: (group[0][0] == "completed", -len(group[1]))):
        shown = ", ".join(ids[:_MAX_IDS]) + (f" and {len(ids) - _MAX_IDS} more" if len(ids) > _MAX_IDS else "")
        print(printable(f"{len(ids):7} {status:10} {cause + '; ' if cause else ''}{shown}"))
    print(f"One of them: slurm-triage {printable(next(iter(groups.values()))[0])}")


def _read(path: str) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_REPORT_BYTES:
            raise OSError(0, "no report")
        return file.read(_MAX_REPORT_BYTES)


def _unreadable(record: LedgerRecord, error: TriageError) -> TriageError:
    cls = f", {record.cls}" if record.cls else ""
    place = f"; its report {record.report_path} cannot be read by you" if record.report_path else ""
    return NotFoundError(
        f"job {record.display_id} ({record.user}) was triaged as {record.status}{cls}{place}, and triaging it again "
        f"did not work: {error}"
    )
