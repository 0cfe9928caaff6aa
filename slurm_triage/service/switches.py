"""Who does not want a report: the site (partition, account, user) or the job (comment, sbatch option, environment)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurm_triage.model.job import Job
from slurm_triage.settings import Settings

#: ``sbatch --comment="triage=off ..."``
_IN_COMMENT = re.compile(r"(?:^|[\s,;])triage=off(?=$|[\s,;])")
#: ``sbatch --export=ALL,SLURM_TRIAGE=off``: the environment as far as accounting records it.
_IN_SUBMIT_LINE = re.compile(r"(?:^|[\s,=])SLURM_TRIAGE=off(?=$|[\s,])")


def off_reason(job: Job, wishes: Iterable[str | None], settings: Settings, own_uid: int | None) -> str | None:
    """Why the job gets no report, or None if it gets one. ``wishes``: of its events (``sbatch --triage=``).
    ``own_uid``: set for a worker that is not root's."""
    if own_uid is not None and job.uid != own_uid:
        return "it belongs to somebody else, and this worker is not root's"
    if own_uid is None and job.uid == 0:
        return "it is root's own"
    if job.partition in settings.off_partitions:
        return f"partition {job.partition} is switched off"
    if job.account in settings.off_accounts:
        return f"account {job.account} is switched off"
    if job.user in settings.off_users:
        return f"user {job.user} is switched off"
    if _IN_COMMENT.search(job.comment or ""):
        return "its comment says triage=off"
    if _IN_SUBMIT_LINE.search(job.submit_line or ""):
        return "it was submitted with SLURM_TRIAGE=off"
    if "off" in set(wishes):
        return "it was submitted with --triage=off"
    return None
