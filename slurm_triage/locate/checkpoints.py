"""Checkpoint directories: which steps were saved, and which saves were only begun.

Orbax writes ``<step>.orbax-checkpoint-tmp[-<suffix>]`` and renames it to ``<step>`` when every host has finished, so
the final name is the proof of a complete checkpoint; a message in the log is not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from slurm_triage.locate.trust import is_directory, list_or_empty, status, usable_directory
from slurm_triage.model.files import CheckpointDir, JobFiles

#: Inside the container the outputs directory is mounted here.
CONTAINER_OUTPUTS = "/outputs"

_MAX_RUNS = 64

_STEP = re.compile(r"([0-9]{1,15})(\.(?:orbax-checkpoint-tmp|tmp)\b.*)?", re.DOTALL)


def checkpoint_dirs(path: str | os.PathLike[str]) -> tuple[CheckpointDir, ...]:
    """The step directories in a ``checkpoints`` directory, by step; () if it cannot be listed."""
    directory = usable_directory(Path(path))
    if directory is None:
        return ()
    found: list[CheckpointDir] = []
    for name in list_or_empty(directory, []).names("dir"):
        match = _STEP.fullmatch(name)
        if match is not None:
            found.append(CheckpointDir(int(match[1]), match[2] is None, str(directory / name)))
    return tuple(sorted(found, key=lambda c: (c.step, c.committed, c.path)))


def checkpoint_path(files: JobFiles, configured: str) -> str | None:
    """The directory on this machine for the ``checkpoint_dir`` that the log printed; None if there is none to trust.

    ``/outputs/...`` is the outputs directory as the container sees it. The text comes from the log, so any other path
    counts only inside the outputs directory or if the directory belongs to the calling user.
    """
    wanted = PurePosixPath(configured.strip())
    if "\0" in configured or ".." in wanted.parts or not wanted.is_absolute():
        return None
    outputs = Path(files.outputs_dir) if files.outputs_dir else None
    if outputs is not None:
        if wanted.is_relative_to(CONTAINER_OUTPUTS):
            inside = outputs / wanted.relative_to(CONTAINER_OUTPUTS)
            # A renamed job directory still has its old name in the log.
            moved = _below_job_dir(files, wanted.relative_to(CONTAINER_OUTPUTS))
            return next((str(p) for p in (inside, moved) if p is not None and _real_below(outputs, p)), None)
        if Path(wanted).is_relative_to(outputs.absolute()) and _real_below(outputs.absolute(), Path(wanted)):
            return str(wanted)
    found = status(Path(wanted))
    # Whoever wrote the log chose the path: with another user's log, root would look at whatever is root's.
    log = status(Path(files.primary.path)) if files.primary is not None else None
    own = found is not None and found.st_uid == os.geteuid() and (log is None or log.st_uid == found.st_uid)
    if own and is_directory(Path(wanted)):
        return str(wanted)
    return None


def own_checkpoints(job_dir: Path, names: list[str]) -> tuple[CheckpointDir, ...]:
    """Checkpoints inside the job directory itself (``<run_name>/checkpoints/<step>``).

    ``names`` are the directories in it; a job has one run name, so only the first few are looked at.
    """
    runs = [name for name in names if not name.startswith(".")][:_MAX_RUNS]
    return tuple(c for run in runs for c in checkpoint_dirs(job_dir / run / "checkpoints"))


def with_configured_checkpoints(files: JobFiles, config: Mapping[str, str]) -> JobFiles:
    """The files with the checkpoints in the directory that the log names. A run with checkpointing keeps them in a
    directory shared with later runs of the same model, outside its job directory; without it, that directory may be
    another run's."""
    on = config.get("enable_checkpointing", "").strip().lower() in {"true", "1", "yes"}
    place = checkpoint_path(files, config.get("checkpoint_dir", "")) if on else None
    found = checkpoint_dirs(place) if place is not None else ()
    known = {c.path for c in files.checkpoints}
    return replace(files, checkpoints=(*files.checkpoints, *(c for c in found if c.path not in known)))


def _below_job_dir(files: JobFiles, relative: PurePosixPath) -> Path | None:
    if files.job_dir is None or files.job_id is None or not relative.parts:
        return None
    return Path(files.job_dir, *relative.parts[1:]) if relative.parts[0].startswith(f"{files.job_id}-") else None


def _real_below(top: Path, path: Path) -> bool:
    """Whether it is a directory and no link lies between ``top`` and it."""
    return all(is_directory(p) for p in (path, *path.parents) if p != top and p.is_relative_to(top))
