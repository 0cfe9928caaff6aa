"""What file names say: job ids, log suffixes, patterns. Pure functions over names, never over files.

Job names are free text (blanks, quotes, newlines, anything), and logs and directories are renamed after the run, so the
only part of a name that identifies a job is the id at its beginning.
"""

from __future__ import annotations

import re

from slurm_triage.model.job import Job

COMPRESSION_SUFFIXES = (".gz", ".xz", ".zst")
LOG_SUFFIXES = (".log", ".out")

#: ``7877``, ``7877_3`` (array task), ``29+1`` (het component), ``local_20260310_080957_475e``,
#: ``k8s-20260310-080957-475e`` (older documents write k8s_).
_ID = r"[0-9]+(?:_[0-9]+|\+[0-9]+)?|local_[0-9]+_[0-9]+_[0-9a-z]+|k8s[-_][0-9]+[-_][0-9]+[-_][0-9a-z]+"
_WHOLE_ID = re.compile(_ID)
_LEADING_ID = re.compile(rf"({_ID})(?:-|$)")
_SLURM_DEFAULT = re.compile(r"slurm-([0-9]+(?:_[0-9]+)?)(?:[-._]|$)")
_TRAILING_ID = re.compile(r".*[-_.]([0-9]+(?:_[0-9]+)?)", re.DOTALL)
_SUBMITIT = re.compile(r"([0-9]+(?:_[0-9]+)?)_[0-9]+_log")
_LAUNCHER_JOB = re.compile(rf"(?:{_ID})-JAX-")
_RANK_LOG = re.compile(r"rank-([0-9]{1,7})\.log")
_REPRODUCTION = re.compile(r"debug_repro\.")
_CORE_DUMP = re.compile(rf"core\.({_ID})\.")
_PATTERN = re.compile(r"%(?:([0-9]*)([A-Za-z])|(%))")


def is_job_id(text: str) -> bool:
    """Whether the text is an id of a Slurm, local or k8s job."""
    return _WHOLE_ID.fullmatch(text) is not None


def uncompressed(name: str) -> str:
    """The name without a compression suffix."""
    return next((name[: -len(s)] for s in COMPRESSION_SUFFIXES if name.endswith(s)), name)


def log_stem(name: str) -> str | None:
    """The name of a log without its suffixes (``7877-FOO`` for ``7877-FOO.log.gz``); None if it names no log."""
    plain = uncompressed(name)
    stem = next((plain[: -len(s)] for s in LOG_SUFFIXES if plain.endswith(s)), None)
    return stem or None


def error_stem(name: str) -> str | None:
    """The stem of a separate stderr file (``x`` for ``x.err``)."""
    plain = uncompressed(name)
    return plain[: -len(".err")] or None if plain.endswith(".err") else None


def with_compression(name: str) -> tuple[str, ...]:
    """The name, then its compressed spellings."""
    return (name, *(name + suffix for suffix in COMPRESSION_SUFFIXES))


def launcher_id(stem: str) -> str | None:
    """The id that the launcher put in front of a directory name or log stem."""
    match = _LEADING_ID.match(stem)
    return match[1] if match else None


def job_id_of(stem: str) -> str | None:
    """The id in a name that can be relied on: the launcher's, or that of Slurm's default ``slurm-%j.out``."""
    default = _SLURM_DEFAULT.match(stem)
    return launcher_id(stem) or (default[1] if default else None)


def possible_id(stem: str) -> str | None:
    """A number that is an id only if it is the one that is looked for: ``%x-%j``, or submitit's ``%j_%t_log``."""
    if job_id_of(stem):
        return None
    match = _SUBMITIT.fullmatch(stem) or _TRAILING_ID.fullmatch(stem)
    return match[1] if match else None


def is_launcher_job(name: str) -> bool:
    """Whether a directory name can only be a job's: the launcher calls every job ``JAX-<model>...``."""
    return _LAUNCHER_JOB.match(name) is not None


def rank_of_log(name: str) -> int | None:
    """N of ``rank-N.log``, compressed or not."""
    match = _RANK_LOG.fullmatch(uncompressed(name))
    return int(match[1]) if match else None


def core_id(name: str) -> str | None:
    """The job id in ``core.<JOB_ID>.<time>...``: it keeps the core dumps of other jobs in a shared directory apart."""
    match = _CORE_DUMP.match(name)
    return match[1] if match else None


def is_reproduction(name: str) -> bool:
    """Logs of the launcher's ``debug_repro.sh``: not jobs."""
    return _REPRODUCTION.match(name) is not None


def order(text: str) -> tuple[tuple[bool, int, str], ...]:
    """Sort key that counts numbers in names as numbers: node2 before node10."""
    parts = re.findall(r"[0-9]+|[^0-9]+", text)
    return tuple((not p[0].isdecimal(), int(p[:18]) if p[0].isdecimal() else 0, p) for p in parts)


def ids_of(target: str | None, job: Job | None) -> tuple[str, ...]:
    """All ids under which files of the job may be filed, the best first."""
    ids = [target] if target else []
    if job is not None:
        if job.array_job_id and job.array_task_id:
            ids.append(f"{job.array_job_id}_{job.array_task_id}")
        ids += [i for i in (job.job_id, job.het_job_id) if i]
    if target and "+" in target:
        ids.append(target.partition("+")[0])
    return tuple(dict.fromkeys(ids))


def expand_pattern(pattern: str, job: Job) -> str:
    """Slurm's file name pattern (``%x-%j.out``) with everything that the record knows filled in."""
    values = {
        "j": job.job_id,
        "J": job.job_id,
        "A": job.array_job_id or job.job_id,
        "a": job.array_task_id,
        "x": job.name,
        "u": job.user,
        "N": job.nodes[0] if job.nodes else None,
        "n": "0",
        "t": "0",
        "s": "batch",
    }

    def fill(match: re.Match[str]) -> str:
        if match[3]:
            return "%"
        value = values.get(match[2])
        width = int(match[1][:2] or 0)
        return match[0] if value is None else value.zfill(width) if value.isdigit() else value

    return _PATTERN.sub(fill, pattern)
