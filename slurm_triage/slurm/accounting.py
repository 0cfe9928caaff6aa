"""The seam to Slurm's accounting: one question, one typed answer, whichever source gives it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from slurm_triage.model.job import AccountingSource, Job


class Accounting(Protocol):
    """A source of job records. All times are seconds since the epoch.

    Every method raises AccountingError when the source cannot be reached, takes too long or answers nonsense. A job
    that is not over, or whose record is not complete yet, is returned with ``final=False``: ask again (``retry``).
    """

    @property
    def name(self) -> AccountingSource: ...

    def version(self) -> str:
        """Version of Slurm behind the source, ``22.05.8``."""
        ...

    def jobs(self, ids: Sequence[str], *, since: float | None = None, until: float | None = None) -> dict[str, Job]:
        """The jobs with these ids, in one query.

        ``ids``: raw ids (``28``), array tasks (``25_3``), whole arrays (``25``), het components (``29+1``) or whole
        het jobs (``29``). The result is keyed by raw id; ``select`` finds what belongs to an id that was asked for.
        Ids that accounting does not know are missing from the result. Give ``since`` (a time before the oldest of
        them was submitted) whenever more than a few ids are asked for: without it the whole history is searched.
        """
        ...

    def recent(self, since: float, until: float) -> Iterable[Job]:
        """Jobs that ended in this window, every attempt as a Job of its own or in ``earlier``."""
        ...

    def close(self) -> None:
        """Let go of processes and connections. May be called twice."""
        ...


def display_id(job: Job) -> str | None:
    """The id people use, and the only one that means this job alone to every command of Slurm: ``25_3`` for an array
    task, ``29+1`` for a part of a het job, else the raw id."""
    if job.array_job_id is not None and job.array_task_id is not None:
        return f"{job.array_job_id}_{job.array_task_id}"
    if job.het_job_id is not None and job.job_id is not None:
        return f"{job.het_job_id}+{int(job.job_id) - int(job.het_job_id)}"
    return job.job_id


def select(jobs: Mapping[str, Job], asked: str) -> list[Job]:
    """Jobs of a result that an asked id means; a whole array or het job gives all of its parts, in raw id order."""
    return sorted((job for job in jobs.values() if means(asked, job)), key=lambda job: int(job.job_id or 0))


def means(asked: str, job: Job) -> bool:
    """True if an id as people write it (``28``, ``25_3``, ``25``, ``29+1``) means this job."""
    array, underscore, task = asked.partition("_")
    leader, plus, offset = asked.partition("+")
    if underscore:
        return job.array_job_id == array and job.array_task_id == task
    if plus:
        return job.het_job_id == leader and offset.isdigit() and job.job_id == str(int(leader) + int(offset))
    return asked in (job.job_id, job.array_job_id, job.het_job_id)
