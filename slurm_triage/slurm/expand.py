"""The file name patterns of ``sbatch --output``: from what accounting stores to the file on disk.

Every rule here was read off the files that real batch jobs created on Slurm 22.05 and 26.05
(tests/slurm/test_expand_cluster.py does it again).
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from slurm_triage.model.job import Job

DEFAULT = "slurm-%j.out"
DEFAULT_ARRAY = "slurm-%A_%a.out"

#: What a job that is no array task has as its task id (NO_VAL).
NO_TASK = "4294967294"
MAX_PADDING = 10

_FORM = re.compile(r"%(\d*)([%A-Za-z])")


def default_pattern(job: Job) -> str:
    """The pattern of a job that was submitted without ``--output``."""
    return DEFAULT if job.array_task_id is None else DEFAULT_ARRAY


def path(pattern: str | None, job: Job) -> str | None:
    """Absolute path of the batch script's output file. None if there is no pattern, the path is relative and the
    working directory is not known, or a form needs something that is not known about the job.

    ``%s %t %n`` have the values of the batch step. A pattern with a backslash is taken literally, without the
    backslashes, as Slurm does.
    """
    if not pattern:
        return None
    if "\\" in pattern:
        name: str | None = pattern.replace("\\", "")
    else:
        name = _expand(pattern, _values(job))
    return absolute(name, job)


def absolute(name: str | None, job: Job) -> str | None:
    """A file name as the job's own working directory makes it."""
    if not name or name.startswith("/"):
        return name or None
    return str(PurePosixPath(job.work_dir) / name) if job.work_dir else None


def _values(job: Job) -> dict[str, str | None]:
    task = job.array_task_id if job.array_task_id is not None else NO_TASK
    return {
        "%": "%",
        "A": job.array_job_id or job.job_id,
        "a": task,
        "b": str(int(task) % 10) if task.isdigit() else None,
        "J": job.job_id,
        "j": job.job_id,
        "N": job.nodes[0].partition(".")[0] if job.nodes else None,
        "n": "0",
        "s": "batch",
        "t": "0",
        "u": job.user,
        "x": job.name,
    }


def _expand(pattern: str, values: dict[str, str | None]) -> str | None:
    unknown = False

    def form(match: re.Match[str]) -> str:
        nonlocal unknown
        width, letter = match.groups()
        if letter not in values or (letter == "%" and width):
            return match[0]
        value = values[letter]
        if value is None:
            unknown = True
            return ""
        # Only numbers are padded; the width is capped.
        return value.zfill(min(int(width), MAX_PADDING)) if width and value.isdigit() else value

    name = _FORM.sub(form, pattern)
    return None if unknown else name
