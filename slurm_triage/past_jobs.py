"""From a ledger record back to what a triage needs: accounting's record and the job's files, if they still exist."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurm_triage.errors import NotFoundError
from slurm_triage.locate import locate
from slurm_triage.model.files import JobFiles
from slurm_triage.model.job import NO_JOB, Job
from slurm_triage.report.stored import StoredReportError, load_document
from slurm_triage.slurm.record_file import job_from_record

if TYPE_CHECKING:
    from slurm_triage.ledger.record import LedgerRecord
    from slurm_triage.report.document import Document

#: As report/write.py: more than this is no report of ours.
_MAX_REPORT_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class PastJob:
    """``title`` is that of the cause in the report of the time; None if there was none or the report is gone."""

    job: Job
    files: JobFiles
    title: str | None


def past_job(record: LedgerRecord) -> PastJob:
    """Raises NotFoundError if the log is gone or nobody knows where it was, UsageError if its report names nonsense."""
    document = _report(record)
    job = _accounting(record, document)
    path = (document["log"]["path"] if document is not None else None) or record.job_dir
    if not path:
        raise NotFoundError("neither its report nor the ledger says where its log is")
    primary = document["primary"] if document is not None else None
    return PastJob(job, locate(path, job=job), primary["title"] if primary is not None else None)


def _report(record: LedgerRecord) -> Document | None:
    """The report of the job, if it is still there and about this run."""
    if record.report_path is None:
        return None
    try:
        handle = os.open(record.report_path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_REPORT_BYTES:
                return None
            document = load_document(file.read(_MAX_REPORT_BYTES), record.report_path)
    except (OSError, StoredReportError):
        return None
    same = str(document["job"]["id"]) == record.job_id and document["status"] == record.status
    return document if same else None


def _accounting(record: LedgerRecord, document: Document | None) -> Job:
    """Accounting's record as the report has it; else the little that the ledger keeps of it."""
    if document is not None:
        return job_from_record(document["job"]) if document["accounting"]["source"] != "none" else NO_JOB
    if record.state is None:
        return NO_JOB
    return Job(
        job_id=record.job_id,
        array_job_id=record.array_job_id,
        array_task_id=record.array_task_id,
        restarts=record.restarts,
        name=record.name,
        state=record.state,
        submit=record.submit,
        start=record.start,
        end=record.end,
        elapsed_s=record.elapsed_s,
        nodes=record.node_names,
        node_count=record.node_count,
        gpus=record.gpus,
        source="file",
        final=not record.provisional,
    )
