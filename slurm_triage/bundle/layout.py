"""Where a job's files lie in its bundle: as in a job directory, so that they are found again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from slurm_triage.locate.names import uncompressed
from slurm_triage.model.files import JobFiles, LogFile

#: Names of step directories that are kept; the newest tell where to resume.
_MAX_CHECKPOINTS = 200
_KERNEL_LOG = "kernel-dmesg.txt"


def member_names(files: JobFiles, host: Callable[[str], str]) -> list[str]:
    """The names of ``files.logs``, in order. ``host`` gives a host's name as it may be shown."""
    names: list[str] = []
    for log in files.logs:
        name = _member(log, files, host)
        # Two sessions of one host may hold the same name.
        while name in names:
            name += ".again"
        names.append(name)
    return names


def _member(log: LogFile, files: JobFiles, host: Callable[[str], str]) -> str:
    name = uncompressed(Path(log.path).name)
    if log.role == "primary":
        return "log"
    if log.role == "stderr":
        return "log.err"
    if log.role == "rank":
        return f"rank-{log.ranks[0]}.log" if log.ranks else name
    if log.role == "node":
        return f"triage/node-{host(log.host)}.txt" if log.host else _KERNEL_LOG
    below = Path(log.path).relative_to(files.ray_logs_dir) if files.ray_logs_dir else Path(name)
    return str(Path("ray_logs", host(log.host) if log.host else "host", *below.parts[1:-1], name))


def other_members(files: JobFiles) -> dict[str, str]:
    """Small files that say something by being there, and the submit command."""
    members = {f".coord/ready-{rank}": "" for rank in files.coord_ranks}
    for checkpoint in files.checkpoints[-_MAX_CHECKPOINTS:]:
        members[f"run/checkpoints/{Path(checkpoint.path).name}/.kept-name-only"] = ""
    if files.submit_cmd:
        members["artifact/submit_cmd.txt"] = files.submit_cmd + "\n"
    return members
