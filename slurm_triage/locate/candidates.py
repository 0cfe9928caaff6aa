"""All entries of an outputs directory that may belong to one job, and the choice among them.

Logs and directories are renamed after the run, compressed, or removed one without the other; the id in front of the
name is what holds them together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from slurm_triage.locate.jobdir import JobDir, is_job_dir, open_job_dir
from slurm_triage.locate.names import (
    core_id,
    error_stem,
    is_reproduction,
    job_id_of,
    launcher_id,
    log_stem,
    order,
    possible_id,
    rank_of_log,
    uncompressed,
)
from slurm_triage.locate.trust import Listing, status, usable_log
from slurm_triage.logs.source import shown, special_kind
from slurm_triage.model.job import Job

#: A job name with slashes makes the log and the directory lie this much deeper than the outputs directory.
NEST_DEPTH = 3
_MAX_NESTED = 10_000


@dataclass(slots=True)
class Candidates:
    """Names of one job's entries in an outputs directory. ``key`` is the id, or the stem of a log without one."""

    outputs: Path
    job_id: str | None
    key: str
    dirs: list[str] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    core_dumps: list[str] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    """Ids of array tasks of the id that was looked for."""


def of_ids(listing: Listing, ids: Iterable[str]) -> Candidates:
    """What belongs to a job that may be filed under any of the ids (the first one names it)."""
    wanted = tuple(ids)
    found = Candidates(listing.path, wanted[0] if wanted else None, wanted[0] if wanted else "")
    loose: list[str] = []
    for name, kind in listing.kinds.items():
        if kind in {"dir", "link"} and launcher_id(name) in wanted:
            found.dirs.append(name)
        if kind == "file" and core_id(name) in wanted:
            found.core_dumps.append(name)
        stem = log_stem(name)
        if kind == "dir" or stem is None or is_reproduction(name):
            continue
        sure = job_id_of(stem)
        if sure in wanted:
            found.logs.append(name)
        elif sure is not None and sure.partition("_")[0] in wanted:
            found.tasks.append(sure)
        elif possible_id(stem) in wanted:
            loose.append(name)
    found.logs = found.logs or loose
    return found


def all_jobs(listing: Listing) -> list[Candidates]:
    """Every job of an outputs directory, each once: numbered jobs first, then local and k8s ones, then the rest."""
    jobs: dict[str, Candidates] = {}
    core_dumps: dict[str, list[str]] = {}
    for name, kind in listing.kinds.items():
        stem = log_stem(name) if kind != "dir" else None
        if name.startswith(".") or is_reproduction(name) or rank_of_log(name) is not None:
            continue
        dumped = core_id(name) if kind == "file" else None
        if dumped is not None:
            core_dumps.setdefault(dumped, []).append(name)
        elif stem is not None:
            _job(jobs, listing.path, job_id_of(stem), stem).logs.append(name)
        elif kind == "dir" or (kind == "link" and error_stem(name) is None):
            _job(jobs, listing.path, launcher_id(name), name).dirs.append(name)
    for job_id, names in core_dumps.items():
        if job_id in jobs:
            jobs[job_id].core_dumps = names
    return sorted(jobs.values(), key=lambda c: (c.job_id is None, order(c.key)))


def _job(jobs: dict[str, Candidates], outputs: Path, job_id: str | None, stem: str) -> Candidates:
    # A launcher id can also be the whole name of something else; "/" keeps the two kinds of keys apart.
    key = job_id or f"/{stem}"
    return jobs.setdefault(key, Candidates(outputs, job_id, job_id or stem))


def choose_dir(candidates: Candidates, notes: list[str]) -> JobDir | None:
    """The job's directory: the one with a ``log`` link, else one named like a log, else one that is a job's."""
    stems = {log_stem(name) for name in candidates.logs}
    ranked: list[tuple[tuple[object, ...], JobDir]] = []
    for name in candidates.dirs:
        directory = open_listed(candidates.outputs / name, notes)
        if directory is None or candidates.outputs.resolve().is_relative_to(directory.path):
            # Unreadable, or a link that leads up into the tree itself.
            continue
        if name in stems or is_job_dir(directory, name):
            rank = (
                not directory.has_log_link,
                name not in stems,
                not directory.has_evidence,
                directory.is_empty,
                order(name),
            )
            ranked.append((rank, directory))
    return min(ranked, key=lambda pair: pair[0])[1] if ranked else None


def open_listed(path: Path, notes: list[str]) -> JobDir | None:
    try:
        return open_job_dir(path)
    except OSError as error:
        notes.append(f"{shown(path.name)} could not be read: {error.strerror}")
        return None


def choose_log(candidates: Candidates, directory: JobDir | None, job: Job | None) -> tuple[Path | None, str | None]:
    """(the job's log, why a file with the right name cannot be it).

    Before names, the owner counts (anyone may drop a file into a shared outputs directory); after them the time of the
    last write, since a job that is requeued after it was renamed starts a new file.
    """
    dir_name = directory.path.name if directory else None
    usable: list[tuple[tuple[object, ...], Path]] = []
    unusable: str | None = None
    for name in candidates.logs:
        path = candidates.outputs / name
        log = usable_log(path)
        found = status(log) if log is not None else None
        if log is None or found is None:
            unusable = unusable or why_unusable(path)
            continue
        foreign = job is not None and job.uid is not None and found.st_uid != job.uid
        rank = (foreign, log_stem(name) != dir_name, -found.st_mtime, uncompressed(name) != name, name)
        usable.append((rank, log))
    if usable:
        return min(usable, key=lambda pair: pair[0])[1], None
    return None, unusable


def why_unusable(path: Path) -> str:
    found = status(path)
    kind = special_kind(found.st_mode) if found is not None else None
    if kind == "a symbolic link":
        return f"{shown(path)} is a symbolic link that leads nowhere or belongs to somebody else, and is not followed"
    return f"{shown(path)} is {kind or 'gone'}, not a log file"


def find_nested(top: JobDir, notes: list[str]) -> tuple[Path | None, JobDir | None]:
    """(log, job directory) of a job whose name contains a slash: they lie below a directory that is only the first
    part of the name."""
    pending: list[tuple[JobDir, int]] = [(top, 1)]
    seen = 0
    bare: JobDir | None = None
    while pending:
        place, depth = pending.pop(0)
        logs = {log_stem(n): n for n in reversed(place.plain_logs())}
        subdirs = place.listing.names("dir")
        if seen > _MAX_NESTED:
            notes.append(f"{shown(top.path.name)} has too many entries to look for a log in all of it")
            break
        for name in subdirs:
            child = open_listed(place.path / name, notes) if seen <= _MAX_NESTED else None
            if child is None:
                continue
            seen += 1 + len(child.listing.kinds)
            if child.has_log_link or name in logs:
                linked = child.linked_log()
                log = linked if linked is not None and usable_log(linked) else None
                return log or (place.path / logs[name] if name in logs else None), child
            if depth < NEST_DEPTH and not child.has_evidence:
                pending.append((child, depth + 1))
            elif child.has_evidence:
                bare = bare or child
        if logs:
            return place.path / min(logs.values()), None
    return None, bare
