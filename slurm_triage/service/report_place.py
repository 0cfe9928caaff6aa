"""Where the report of a job goes, and making that place: always as the job's owner.

1. The job's own directory (launcher layout), made if the log is there without it (or neither is).
2. Other jobs: beside the log, or the directory that the site's ``report_dir`` pattern names.
3. No log and no directory: ``triage-<id>`` in the working directory, for jobs that ran.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from slurm_triage.errors import NotFoundError
from slurm_triage.locate.names import is_launcher_job, log_stem
from slurm_triage.model.files import JobFiles
from slurm_triage.model.job import Job
from slurm_triage.report.write import place_for
from slurm_triage.slurm import expand
from slurm_triage.slurm.accounting import display_id

FALLBACK = "triage-%J"
#: What ext4, XFS, Lustre, GPFS and NFS allow in a name. The launcher's limit leaves room for less, but people use -J.
MAX_NAME_BYTES = 255


@dataclass(frozen=True, slots=True)
class Place:
    """``stem``: begin the file names with it (several jobs share the directory); None in a directory of its own."""

    directory: str
    stem: str | None = None

    @property
    def snapshots(self) -> Path:
        """Directory for what the nodes' kernels said."""
        return Path(self.directory) / (f"{self.stem}.triage" if self.stem else "triage")


def find_place(job: Job, files: JobFiles, pattern: str) -> Place | None:
    """The place, created if it is missing; None for a job that never started and has no directory.

    Raises OSError if it cannot be made, NotFoundError if there is no path to make it from.
    """
    if files.job_dir is not None:
        return Place(files.job_dir)
    log = files.primary.path if files.primary is not None else job.stdout
    own = _launcher_directory(log)
    if own is not None and own.parent.is_dir() and len(os.fsencode(own.name)) <= MAX_NAME_BYTES:
        return Place(_make(own))
    if job.never_started and files.primary is None:
        return None
    if pattern:
        return Place(_make(expand_directory(pattern, job, log)))
    if files.primary is not None:
        directory, stem = place_for(files)
        return Place(directory, stem)
    return Place(_make(expand_directory(FALLBACK, job, log)))


def expand_directory(pattern: str, job: Job, log: str | None) -> Path:
    """A directory pattern: ``%WORKDIR``, ``%LOGDIR``, ``%J`` (the id people use: 7878_3), and sbatch's own forms.

    Raises NotFoundError if it needs something that is not known about the job, or is not absolute in the end.
    """
    words = {"%WORKDIR": job.work_dir, "%LOGDIR": str(Path(log).parent) if log else job.work_dir}
    text = pattern
    for word, value in words.items():
        if word in text:
            if value is None:
                raise NotFoundError(f"{word[1:]} of job {job.job_id} is not known; choose another report_dir")
            text = text.replace(word, value.replace("%", "%%"))
    text = text.replace("%J", (display_id(job) or "unknown").replace("%", "%%"))
    path = expand.path(text, job)
    if path is None:
        raise NotFoundError(f"report_dir {pattern!r} cannot be filled in for job {job.job_id}; choose another one")
    return Path(path)


def umask_for(files: JobFiles) -> int:
    """A report quotes the log, so nobody may read it who may not read the log."""
    if files.primary is None:
        return 0o022
    try:
        mode = Path(files.primary.path).lstat().st_mode
    except OSError:
        return 0o077
    return 0o022 | (0 if mode & stat.S_IRGRP else 0o070) | (0 if mode & stat.S_IROTH else 0o007)


def _launcher_directory(log: str | None) -> Path | None:
    """``outputs/7877-JAX-name`` of ``outputs/7877-JAX-name.log``; None for other logs."""
    if log is None:
        return None
    stem = log_stem(Path(log).name)
    return Path(log).with_name(stem) if stem is not None and is_launcher_job(stem) else None


def _make(directory: Path) -> str:
    try:
        directory.mkdir()
    except FileExistsError:
        # Whether it is a directory shows when it is opened for writing.
        pass
    except FileNotFoundError:
        directory.mkdir(parents=True, exist_ok=True)
    return str(directory)
