"""The files of a job that accounting knows, found as whoever runs this."""

from __future__ import annotations

import contextlib
import os
import stat

from slurm_triage.errors import NotFoundError, TriageError
from slurm_triage.locate import locate
from slurm_triage.model.files import JobFiles
from slurm_triage.model.job import Job
from slurm_triage.slurm.accounting import display_id


def files_of(job: Job) -> JobFiles:
    """By the output file that accounting names, if it is a file of the job's owner; else by id around the working
    directory. Never raises for a job without a log: that is what the report is about then."""
    if job.stdout is not None:
        with contextlib.suppress(OSError, TriageError):
            found = os.lstat(job.stdout)
            owner = job.uid if job.uid is not None else os.geteuid()
            if stat.S_ISREG(found.st_mode) and found.st_uid == owner:
                return locate(job.stdout, job=job)
    try:
        return locate(display_id(job) or "", job=job)
    except NotFoundError as error:
        return JobFiles(job_id=job.job_id, problem=str(error))
