"""Puts together what was found for one job: logs in reading order, evidence, and the reason if there is no log."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from slurm_triage.locate.absence import why_no_log
from slurm_triage.locate.artifact import find_artifact
from slurm_triage.locate.candidates import Candidates, choose_dir, choose_log, find_nested, open_listed
from slurm_triage.locate.checkpoints import own_checkpoints
from slurm_triage.locate.jobdir import JobDir, log_file
from slurm_triage.locate.names import error_stem, expand_pattern, log_stem, with_compression
from slurm_triage.locate.ray import worker_logs
from slurm_triage.locate.trust import is_directory, is_regular, usable_log
from slurm_triage.model.files import JobFiles, LogFile
from slurm_triage.model.job import Job

#: A damaged file system can make thousands of files unreadable; a report needs to name a few.
_MAX_NOTES = 20


@dataclass(slots=True)
class Found:
    """One job's main pieces. ``outputs`` is the directory that the container calls ``/outputs``."""

    outputs: Path
    job_id: str | None = None
    log: Path | None = None
    directory: JobDir | None = None
    unusable: str | None = None
    core_dumps: tuple[Path, ...] = ()
    snapshots: tuple[Path, ...] = ()
    notes: list[str] = field(default_factory=list)


def choose(candidates: Candidates, job: Job | None, directory: JobDir | None = None) -> Found | None:
    """The job among the candidates, None if none of them is one. A given ``directory`` is not questioned."""
    found = Found(candidates.outputs, candidates.job_id)
    found.directory = directory or choose_dir(candidates, found.notes)
    found.core_dumps = tuple(candidates.outputs / name for name in candidates.core_dumps)
    linked = found.directory.linked_log() if found.directory else None
    found.log = usable_log(linked) if linked is not None else None
    if found.log is None:
        found.log, found.unusable = choose_log(candidates, found.directory, job)
    if found.log is None and found.job_id and (found.directory is None or not _certain(found.directory)):
        _look_below(candidates, found)
    if found.log is None and found.directory is not None:
        take_own_log(found, found.directory)
    if found.log is None and found.directory is None and found.unusable is None:
        return None
    return found


def take_own_log(found: Found, directory: JobDir) -> None:
    """Use the log that lies in the directory itself. If a job directory lies there beside it, that is the job's."""
    found.log = directory.own_log()
    stem = log_stem(found.log.name) if found.log else None
    inner = open_listed(directory.path / stem, found.notes) if stem else None
    if inner is not None:
        found.outputs, found.directory = directory.path, inner


def _certain(directory: JobDir) -> bool:
    return directory.has_log_link or directory.has_evidence


def _look_below(candidates: Candidates, found: Found) -> None:
    names = [found.directory.path] if found.directory else [candidates.outputs / n for n in candidates.dirs]
    for path in names:
        top = open_listed(path, found.notes) if is_directory(path) else None
        if top is None or _certain(top):
            continue
        log, directory = find_nested(top, found.notes)
        if log is not None or directory is not None:
            found.log, found.directory = log, directory
            return


def job_files(found: Found, job: Job | None) -> JobFiles:
    """The model's record of everything that was found."""
    directory = found.directory
    notes = [*found.notes]
    ray = directory.ray_logs() if directory else None
    logs = (
        *_main_logs(found, notes),
        *(worker_logs(ray, notes) if ray else ()),
        *_stderr(found.log, job),
    )
    coord = directory.coord_ranks() if directory else ()
    artifact, submit_cmd = find_artifact(directory.path, found.outputs) if directory else (None, None)
    prometheus = directory.prometheus() if directory else None
    snapshots = (*found.snapshots, *(directory.node_snapshots() if directory else ()))
    cores = (*(directory.core_dumps(found.job_id) if directory else ()), *found.core_dumps)
    checkpoints = own_checkpoints(directory.path, directory.listing.names("dir")) if directory else ()
    problem = None
    if not logs:
        problem = why_no_log(
            found.job_id,
            directory.path if directory else found.outputs,
            job=job,
            dangling=directory.linked_log() if directory else None,
            unusable=found.unusable,
            coord_ranks=coord,
        )
    if directory is not None:
        notes += directory.notes
    return JobFiles(
        job_id=found.job_id or (job.job_id if job else None),
        job_dir=_text(directory.path if directory else None),
        outputs_dir=str(found.outputs),
        logs=logs,
        prometheus_dir=_text(prometheus),
        ray_logs_dir=_text(ray),
        artifact_dir=_text(artifact),
        submit_cmd=submit_cmd,
        core_dumps=tuple(dict.fromkeys(map(str, cores))),
        checkpoints=checkpoints,
        coord_ranks=coord,
        node_snapshots=tuple(dict.fromkeys(map(str, snapshots))),
        problem=problem,
        notes=tuple(dict.fromkeys(notes))[:_MAX_NOTES],
    )


def _main_logs(found: Found, notes: list[str]) -> tuple[LogFile, ...]:
    """The job's log, then those of single ranks. On k8s every rank has its own, and rank 0's is the job's."""
    ranks = found.directory.rank_logs() if found.directory else ()
    if found.log is not None:
        k8s = bool(ranks) or (found.job_id or "").startswith("k8s")
        return log_file(found.log, "primary", (0,) if k8s else ()), *(r for r in ranks if r.path != str(found.log))
    if ranks:
        notes.append(f"the log of rank 0 is missing: rank {ranks[0].ranks[0]} stands in for it")
        return replace(ranks[0], role="primary"), *ranks[1:]
    return ()


def _stderr(log: Path | None, job: Job | None) -> tuple[LogFile, ...]:
    """A separate stderr file: ``x.err`` beside ``x.out``, or the one that accounting names."""
    if log is None or error_stem(log.name) is not None:
        return ()
    paths = [log.with_name(name) for name in with_compression(f"{log_stem(log.name) or log.name}.err")]
    if job is not None and job.stderr:
        paths.append(Path(job.work_dir or ".") / expand_pattern(job.stderr, job))
    found = next((path for path in paths if path != log and is_regular(path)), None)
    return (log_file(found, "stderr"),) if found is not None else ()


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
