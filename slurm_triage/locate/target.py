"""From what a person types (a log, a job directory, an id, ``-``) to the files of one job."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from slurm_triage.errors import NotFoundError
from slurm_triage.locate.assemble import Found, choose, job_files, take_own_log
from slurm_triage.locate.by_id import locate_by_id
from slurm_triage.locate.candidates import NEST_DEPTH, of_ids
from slurm_triage.locate.jobdir import KERNEL_LOG, OWN_LOGS, JobDir, holds_several_logs, is_job_dir, open_job_dir
from slurm_triage.locate.names import (
    LOG_SUFFIXES,
    error_stem,
    is_job_id,
    is_launcher_job,
    job_id_of,
    launcher_id,
    log_stem,
    rank_of_log,
    uncompressed,
    with_compression,
)
from slurm_triage.locate.trust import follow_named, is_directory, is_regular, list_or_empty, usable_log
from slurm_triage.logs.source import STDIN, shown, special_kind
from slurm_triage.model.files import JobFiles, LogFile
from slurm_triage.model.job import Job

_RAY_LOGS = "ray_logs"


def locate(target: str, *, outputs: Path | None = None, job: Job | None = None) -> JobFiles:
    """The files of one job.

    ``target`` is a log file, a job directory, a job id (``7877``, ``7877_3``, ``local_...``, ``k8s-...``) or ``-`` for
    standard input. Ids are looked for in ``outputs``, or else in $SLURM_TRIAGE_OUTPUTS, $JOB_WORKSPACE, ``./outputs``
    and ``.``, and where the accounting record ``job`` says that the output went. A job without a log is returned with
    ``problem`` set.

    Raises NotFoundError if nothing is known under that name, or if it may not be read.
    """
    if target == STDIN:
        return JobFiles(job_id=job.job_id if job else None, logs=(LogFile(STDIN, "primary"),))
    if not target:
        raise NotFoundError("nothing is named: name a log, a job directory or a job id")
    if is_job_id(target):
        found = locate_by_id(target, outputs, job)
        if isinstance(found, JobFiles):
            return found
        path = found
    else:
        path = Path(target).absolute()
    return _by_path(path, job)


def _by_path(path: Path, job: Job | None) -> JobFiles:
    name = shown(path)
    content = path
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            if path.name == "log" and is_directory(path.parent):
                return _from_directory(path.parent, job)
            content = follow_named(path)
            mode = content.lstat().st_mode
    except ValueError as error:
        raise NotFoundError(f"{name} cannot be the name of a file: check the path") from error
    except OSError as error:
        raise NotFoundError(_lookup_problem(name, error)) from error
    if stat.S_ISDIR(mode):
        return _from_directory(path, job)
    if stat.S_ISREG(mode):
        return _from_log(path, content, job)
    raise NotFoundError(f"{name} is {special_kind(mode)}, not a log file: name a log, a job directory or a job id")


def _lookup_problem(name: str, error: OSError) -> str:
    if error.errno in {errno.EACCES, errno.EPERM}:
        return f"you may not look at {name}: ask its owner, or run as the job's user"
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return f"there is no file or directory {name}: name a log, a job directory or a job id"
    return f"cannot look at {name}: {os.strerror(error.errno or 0)}"


def _from_log(path: Path, content: Path, job: Job | None) -> JobFiles:
    """``content`` is the file itself, ``path`` the name under which it lies beside its job's other files."""
    owner = _directory_of_part(path)
    if owner is not None:
        return _from_directory(owner, job)
    error = error_stem(path.name)
    names = [n for suffix in LOG_SUFFIXES[::-1] for n in with_compression(error + suffix)] if error else []
    stdout = next((path.with_name(n) for n in names if is_regular(path.with_name(n))), None)
    if stdout is not None:
        return _from_log(stdout, stdout, job)
    stem = log_stem(path.name)
    job_id, outputs = _filed_under(path, stem or path.name)
    found = Found(outputs, job_id)
    if stem is not None:
        found.directory = _open(path.parent / stem, found.notes)
    if job_id is not None and outputs == path.parent:
        listing = list_or_empty(outputs, found.notes, (job_id,))
        candidates = of_ids(listing, [job_id])
        candidates.logs = [path.name]
        found = choose(candidates, job, found.directory) or found
    found.log, found.unusable = content, None
    _look_beside(path, found)
    return job_files(found, job)


def _look_beside(path: Path, found: Found) -> None:
    """A log that lies in a directory of its own shares it with its job's other files."""
    if found.directory is not None and not is_regular(path.parent / KERNEL_LOG):
        return
    if found.directory is None and launcher_id(log_stem(path.name) or ""):
        # The launcher puts all logs into one directory: what lies beside one belongs to all jobs or none.
        return
    if uncompressed(path.name) not in OWN_LOGS and holds_several_logs(path):
        return
    parent = JobDir(path.parent, list_or_empty(path.parent, found.notes))
    if parent.has_log_link or not (parent.holds_one_log or parent.named_log() == path):
        return
    if found.directory is not None:
        found.snapshots = parent.node_snapshots()
    elif parent.has_evidence:
        found.directory, found.outputs = parent, path.parent.parent


def _directory_of_part(path: Path) -> Path | None:
    """The job directory if the file is only a part of a job's output: a copy of the log in it, the log of one rank, a
    Ray worker's file."""
    for parent in path.parents:
        if parent.name == _RAY_LOGS and uncompressed(path.name).startswith("worker-"):
            return parent.parent if _is_whole_job(parent.parent) else None
    if rank_of_log(path.name) is not None or uncompressed(path.name) == "log":
        return path.parent if _is_whole_job(path.parent) else None
    return None


def _is_whole_job(path: Path) -> bool:
    directory = _open(path, [])
    return directory is not None and (is_job_dir(directory, path.name) or directory.has_evidence)


def _open(path: Path, notes: list[str]) -> JobDir | None:
    try:
        return open_job_dir(path)
    except OSError as error:
        notes.append(f"{shown(path.name)} could not be read: {os.strerror(error.errno or 0)}")
        return None


def _filed_under(path: Path, stem: str) -> tuple[str | None, Path]:
    """(job id, outputs directory) of a log or job directory; if the job's name has slashes, the id is further up."""
    own = job_id_of(stem)
    if own is not None:
        return own, path.parent
    for parent in list(path.parents)[:NEST_DEPTH]:
        if is_launcher_job(parent.name):
            return launcher_id(parent.name), parent.parent
    return None, path.parent


def _from_directory(path: Path, job: Job | None) -> JobFiles:
    if path.name in {"", ".."}:
        path = path.resolve()
    try:
        directory = open_job_dir(path)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise NotFoundError(f"cannot list {shown(path)} ({reason}): ask its owner, or run as the job's user") from error
    if directory is None:
        raise NotFoundError(f"{shown(path)} is not a directory that may be read: name the log file")
    found = _of_directory(directory, path, job)
    unknown = not (is_job_dir(directory, path.name) or directory.has_evidence)
    if found.log is None and found.directory is directory and unknown:
        raise NotFoundError(_not_a_job(directory))
    return job_files(found, job)


def _of_directory(directory: JobDir, path: Path, job: Job | None) -> Found:
    job_id, outputs = _filed_under(path, path.name)
    found = Found(outputs, job_id, directory=directory)
    names = (n for suffix in LOG_SUFFIXES for n in with_compression(path.name + suffix))
    beside = (p for p in (directory.linked_log(), *(path.parent / n for n in names)) if p is not None)
    log = next((log for log in map(usable_log, beside) if log is not None), None)
    if job_id is not None and outputs == path.parent:
        listing = list_or_empty(outputs, found.notes, (job_id,))
        found = choose(of_ids(listing, [job_id]), job, directory) or found
    elif log is None:
        take_own_log(found, directory)
    found.log = log or found.log
    return found


def _not_a_job(directory: JobDir) -> str:
    logs = directory.plain_logs()
    name = shown(directory.path)
    if len(logs) > 1:
        return f"{name} holds {len(logs)} logs: name one of them, such as {shown(logs[0])}"
    return f"there is no log in {name} and it is not a job's directory (shared checkpoints?): name a log or a job id"
