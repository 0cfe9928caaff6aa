"""The child's work on one job: everything that touches the owner's files, done as the owner."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from slurm_triage.diagnosis.stall import Stall
from slurm_triage.errors import NotFoundError, TriageError
from slurm_triage.ledger.memory import Memory
from slurm_triage.ledger.record import record_from_report, to_dict
from slurm_triage.model.files import JobFiles
from slurm_triage.pipeline import Engine, in_history, triage
from slurm_triage.report.build_document import report_document
from slurm_triage.report.plain_text import cut, plain
from slurm_triage.report.wording import action_clause, cause_clause
from slurm_triage.report.write import write_files, write_report
from slurm_triage.service import outcome
from slurm_triage.service.job_files import files_of
from slurm_triage.service.own_messages import own_messages
from slurm_triage.service.report_place import Place, find_place, umask_for
from slurm_triage.service.tallies import Scan
from slurm_triage.service.task import Task
from slurm_triage.slurm.accounting import display_id

#: A report killed while it was written leaves this behind; see report/write.py.
_TEMPORARY = (".slurm-triage-", ".tmp")
_STALE_S = 3600.0
_MAX_SWEPT = 10_000
#: Of the about 170 that AdminComment has beside the class; what to do must still fit.
_CAUSE_CHARACTERS = 100

#: Over in a while, perhaps: a full disk, a quota, a file system that is away or read-only.
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE, errno.EHOSTDOWN})


@dataclass(frozen=True, slots=True)
class Problem:
    """Why the report, or a part of it, is not on disk. ``passing``: worth trying again later."""

    text: str
    passing: bool = False

    @classmethod
    def of(cls, error: OSError | TriageError, what: str | None = None) -> Problem:
        cause = error if isinstance(error, OSError) else error.__cause__
        code = cause.errno if isinstance(cause, OSError) else None
        return cls(f"{what} ({os.strerror(code or 0)})" if what else str(error), code in _PASSING)


def report_on(task: Task, engine: Engine, memory: Memory | None = None, *, stall: Stall | None = None) -> bytes:
    """Triage the job and leave its report; returns the encoded outcome. Whatever stops the writing of the report does
    not stop the verdict: it is named in the outcome. ``memory``: of other jobs. ``stall``: of a running job, as its
    watcher measured it."""
    files, place, problem = find(task)
    began = time.perf_counter()
    report = triage(task.job, files, engine, stall=stall)
    scan = Scan.of(report.facts, time.perf_counter() - began)
    # Before other jobs are looked at: advice about a node is no evidence against it.
    record = record_from_report(report, kernel=_kernel(task))
    if memory is not None:
        report = in_history(report, memory.history(record), engine)
    document = report_document(report)
    written: tuple[str, ...] = ()
    if place is not None:
        try:
            written = write_report(place.directory, document, stem=place.stem).paths
        except TriageError as error:
            problem = Problem.of(error)
    report_path = next((path for path in written if path.endswith(".json")), None)
    values = to_dict(replace(record, report_path=report_path))
    if place is not None and place.stem is None:
        # It may have been made only now.
        values["job_dir"] = place.directory
    text, passing = (problem.text, problem.passing) if problem is not None else (None, False)
    # In sacct the job's id and name stand beside it.
    headline = f"{cut(plain(cause_clause(document)), _CAUSE_CHARACTERS)} · {action_clause(document)}"
    return outcome.encode(_own_part(values), headline, text, passing, scan.encode())


def _own_part(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record without what the worker takes from accounting anyway and what could be long."""
    return {key: value for key, value in record.items() if key not in ("nodes", "user", "account", "partition")}


def find(task: Task) -> tuple[JobFiles, Place | None, Problem | None]:
    """Files, place for the report, and what is wrong with it. What the kernels said is put in place for reading."""
    job = task.job
    if not task.log_is_its_own:
        later = f"a later run of job {display_id(job)} has the log now, so this run is told from accounting alone"
        return JobFiles(job_id=job.job_id, problem=later), None, None
    files = files_of(job)
    os.umask(umask_for(files))
    try:
        place = find_place(job, files, task.report_dir)
    except OSError as error:
        return files, None, Problem.of(error, "no place for the report can be made")
    except NotFoundError as error:
        return files, None, Problem.of(error)
    if place is None:
        return files, None, None
    _sweep(place.directory)
    try:
        snapshots = _write_snapshots(task, place)
    except OSError as error:
        return files, place, Problem.of(error, "the kernel's messages could not be stored")
    before = sorted(map(str, place.snapshots.glob("node-*.txt")))[:_MAX_SWEPT]
    known = dict.fromkeys((*files.node_snapshots, *before, *snapshots))
    return replace(files, node_snapshots=tuple(known)), place, None


def _kernel(task: Task) -> dict[str, list[str]]:
    """By node, what its kernel said about this job."""
    now = time.time()
    return {host.partition(".")[0]: own_messages(said, task.job, now) for host, said in task.kernel.items()}


def _write_snapshots(task: Task, place: Place) -> tuple[str, ...]:
    contents = {
        f"node-{host}.txt": ("\n".join(kept) + "\n").encode("utf-8", "replace")
        for host, kept in _kernel(task).items()
        if kept
    }
    if not contents:
        return ()
    place.snapshots.mkdir(exist_ok=True)
    folder = os.open(place.snapshots, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        write_files(folder, contents)
    finally:
        os.close(folder)
    return tuple(str(place.snapshots / name) for name in contents)


@lru_cache(maxsize=64)
def _sweep(directory: str) -> None:
    """Temporary files of a report whose writer was killed. Once per child: a batch may lie in one place."""
    limit = time.time() - _STALE_S
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for number, entry in enumerate(entries):
            if number >= _MAX_SWEPT:
                break
            if entry.name.startswith(_TEMPORARY[0]) and entry.name.endswith(_TEMPORARY[1]):
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_mtime < limit:
                    Path(entry.path).unlink()
