"""From a job id to the files of the job."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from slurm_triage.errors import NotFoundError
from slurm_triage.locate.absence import why_no_log
from slurm_triage.locate.assemble import Found, choose, job_files
from slurm_triage.locate.candidates import of_ids
from slurm_triage.locate.names import expand_pattern, ids_of, order
from slurm_triage.locate.trust import MAX_ENTRIES, follow_named, is_link, list_directory, status
from slurm_triage.logs.source import shown
from slurm_triage.model.files import JobFiles
from slurm_triage.model.job import Job


def search_roots(outputs: Path | None, job: Job | None = None) -> tuple[Path, ...]:
    """The directories in which an id is looked for, in order."""
    if outputs is not None:
        return (outputs.absolute(),)
    named = [p for p in os.environ.get("SLURM_TRIAGE_OUTPUTS", "").split(os.pathsep) if p]
    workspace = os.environ.get("JOB_WORKSPACE")
    roots = [Path(p) for p in (*named, *([workspace] if workspace else []), "outputs", ".")]
    if job is not None and job.work_dir:
        roots += [Path(job.work_dir) / "outputs", Path(job.work_dir)]
    return tuple(dict.fromkeys(root.absolute() for root in roots))


def locate_by_id(target: str, outputs: Path | None, job: Job | None) -> JobFiles | Path:
    """The files of the job, or a path that is to be taken for the target: the log that accounting names, or a file
    that happens to be called like an id. See ``locate`` for the arguments and errors."""
    roots = search_roots(outputs, job)
    search = _Search(target, job)
    for root in roots:
        found = search.look_in(root, required=outputs is not None)
        if found is not None and found.log is not None:
            return job_files(found, job)
    reported = _reported_log(job)
    if reported is not None:
        return reported
    if search.without_log is not None:
        return job_files(search.without_log, job)
    if status(Path(target)) is not None:
        return Path(target).absolute()
    if job is not None and job.state is not None:
        problem = why_no_log(target, roots[0], job=job)
        return JobFiles(job_id=target, outputs_dir=str(roots[0]), problem=problem, notes=tuple(search.notes))
    raise NotFoundError(search.failure(roots))


class _Search:
    """Looks through one directory after the other and remembers what is worth telling if nothing is found."""

    def __init__(self, target: str, job: Job | None) -> None:
        self.target = target
        self.job = job
        self.ids = ids_of(target, job)
        self.without_log: Found | None = None
        self.tasks: set[str] = set()
        self.notes: list[str] = []

    def look_in(self, root: Path, *, required: bool) -> Found | None:
        try:
            listing = list_directory(follow_named(root) if is_link(root) else root, self.ids)
        except OSError as error:
            missing = error.errno in {errno.ENOENT, errno.ENOTDIR}
            if required:
                raise NotFoundError(
                    f"cannot list the outputs directory {shown(root)} ({os.strerror(error.errno or 0)}): check the path"
                ) from error
            if not missing:
                self.notes.append(f"{shown(root)} could not be read: {os.strerror(error.errno or 0)}")
            return None
        if not listing.complete:
            self.notes.append(f"only {MAX_ENTRIES} entries of {shown(root)} were looked at")
        candidates = of_ids(listing, self.ids)
        self.tasks.update(candidates.tasks)
        found = choose(candidates, self.job)
        if found is not None:
            found.notes += self.notes
            if found.log is None:
                self.without_log = self.without_log or found
        return found

    def failure(self, roots: tuple[Path, ...]) -> str:
        if self.tasks:
            example = min(self.tasks, key=order)
            return f"job {self.target} is an array: name one of its tasks, such as {example}"
        places = ", ".join(shown(root) for root in roots)
        limits = f" ({'; '.join(self.notes)})" if self.notes else ""
        return (
            f"no log or directory of job {self.target} in {places}{limits}: name the log file, or set "
            "SLURM_TRIAGE_OUTPUTS to the outputs directory"
        )


def _reported_log(job: Job | None) -> Path | None:
    """The log where accounting says it is, if it is a file that belongs to the job's owner or to the caller."""
    if job is None or not (job.stdout or job.work_dir):
        return None
    for pattern in [job.stdout] if job.stdout else [f"slurm-{i}.out" for i in ids_of(None, job)]:
        path = Path(job.work_dir or ".", expand_pattern(pattern, job)).absolute()
        found = status(path)
        # The pattern is the user's own text: it must not name a file of somebody else.
        owners = {job.uid, os.geteuid()}
        if found is not None and stat.S_ISREG(found.st_mode) and (job.uid is None or found.st_uid in owners):
            return path
    return None
