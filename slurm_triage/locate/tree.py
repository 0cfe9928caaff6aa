"""All jobs of an outputs directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from slurm_triage.errors import NotFoundError
from slurm_triage.locate.assemble import choose, job_files
from slurm_triage.locate.candidates import Candidates, all_jobs, open_listed
from slurm_triage.locate.jobdir import JobDir, is_job_dir
from slurm_triage.locate.names import LOG_SUFFIXES, launcher_id, log_stem, with_compression
from slurm_triage.locate.trust import MAX_ENTRIES, Listing, follow_named, is_link, is_regular, list_directory
from slurm_triage.logs.source import shown
from slurm_triage.model.files import JobFiles


def locate_all(outputs: Path) -> Iterator[JobFiles]:
    """Every job of an outputs directory once, in a fixed order: by id, then the logs without one by name.

    Shared checkpoint directories and ``.artifacts`` are no jobs. Raises NotFoundError if the directory cannot be read.
    """
    listing = _list(outputs.absolute())
    seen: set[str] = set()
    incomplete = () if listing.complete else (f"only {MAX_ENTRIES} entries of {shown(outputs)} were looked at",)
    for candidates in _merged(listing):
        found = choose(candidates, None)
        if found is None or (found.log is not None and str(found.log) in seen):
            continue
        if found.log is not None:
            seen.add(str(found.log))
        files = job_files(found, None)
        yield replace(files, notes=(*incomplete, *files.notes)) if incomplete else files


def is_outputs_tree(path: Path) -> bool:
    """Whether a directory holds jobs, as opposed to being one job's directory.

    Raises NotFoundError if it cannot be read.
    """
    path = path.resolve() if path.name in {"", ".."} else path.absolute()
    listing = _list(path)
    directory = JobDir(listing.path, listing)
    siblings = (path.parent / n for suffix in LOG_SUFFIXES for n in with_compression(path.name + suffix))
    if is_job_dir(directory, path.name) or any(is_regular(s) for s in siblings):
        return False
    if listing.kinds.get(".artifacts") == "dir":
        return True
    jobs = [c for c in all_jobs(listing) if _holds_job(c)]
    return len(jobs) > 1 or any(_is_launchers(c) for c in jobs)


def _is_launchers(candidates: Candidates) -> bool:
    """Whether the launcher gave the names, which it does in outputs directories only."""
    names = (*candidates.dirs, *(log_stem(name) or "" for name in candidates.logs))
    return any(launcher_id(name) for name in names)


def _holds_job(candidates: Candidates) -> bool:
    if candidates.logs:
        return True
    opened = ((name, open_listed(candidates.outputs / name, [])) for name in candidates.dirs)
    return any(directory is not None and is_job_dir(directory, name) for name, directory in opened)


def _merged(listing: Listing) -> list[Candidates]:
    """All jobs; a directory without an id whose ``log`` link names the log of another job belongs to that one."""
    jobs = all_jobs(listing)
    by_log = {name: candidates for candidates in jobs for name in candidates.logs}
    for candidates in jobs:
        if candidates.job_id is not None or candidates.logs:
            continue
        for name in candidates.dirs:
            directory = open_listed(listing.path / name, [])
            linked = directory.linked_log() if directory is not None else None
            owner = by_log.get(linked.name) if linked is not None and linked.parent == listing.path else None
            if owner is not None and owner is not candidates:
                owner.dirs.append(name)
                candidates.dirs = [n for n in candidates.dirs if n != name]
    return [c for c in jobs if c.logs or c.dirs]


def _list(path: Path) -> Listing:
    try:
        return list_directory(follow_named(path) if is_link(path) else path)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise NotFoundError(f"cannot list the directory {shown(path)} ({reason}): check the path") from error
