"""What may be read in directories that other people write: bounded listings, no foreign links, regular files only.

The caller may be root, or an engineer who looks at someone else's job. A link is followed only if it belongs to the
caller or to root, or if it has the one shape that the launcher documents and stays inside the outputs directory.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from slurm_triage.errors import NotFoundError
from slurm_triage.locate.names import error_stem, log_stem, uncompressed
from slurm_triage.logs.source import shown

#: A directory with more entries than this is looked at only in part: an outputs directory of 50 jobs a day
#: reaches it after years.
MAX_ENTRIES = 100_000

#: Longest ``../name.log`` link: one more directory level for job names with a slash.
_MAX_LINK_PARTS = 4

#: The kernel's own limit on links in one path.
_MAX_LINKS = 40

Kind = Literal["file", "dir", "link", "other"]


@dataclass(frozen=True, slots=True)
class Listing:
    """The entries of one directory by name. ``complete`` is False if there were more than the limit."""

    path: Path
    kinds: dict[str, Kind]
    complete: bool = True

    def names(self, kind: Kind) -> list[str]:
        return [name for name, k in self.kinds.items() if k == kind]


def list_directory(path: Path, containing: tuple[str, ...] = ()) -> Listing:
    """What is in a directory, sorted by name; only names that contain one of the texts, if there are any.

    Raises OSError if it cannot be listed.
    """
    wanted = re.compile("|".join(map(re.escape, containing))).search
    with os.scandir(path) as entries:
        kinds = {entry.name: _kind(entry) for entry in islice(entries, MAX_ENTRIES) if wanted(entry.name)}
        complete = next(entries, None) is None
    return Listing(path, dict(sorted(kinds.items())), complete)


def list_or_empty(path: Path, notes: list[str], containing: tuple[str, ...] = ()) -> Listing:
    """``list_directory``; a directory that cannot be read is empty and noted, one that is missing is just empty."""
    try:
        return list_directory(path, containing)
    except (FileNotFoundError, NotADirectoryError):
        return Listing(path, {})
    except OSError as error:
        notes.append(f"{path.name} could not be read: {os.strerror(error.errno or 0)}")
        return Listing(path, {})


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "dir"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def status(path: Path) -> os.stat_result | None:
    """``lstat``, None if there is nothing (or nothing that may be seen)."""
    try:
        return path.lstat()
    except (OSError, ValueError):
        return None


def is_regular(path: Path) -> bool:
    found = status(path)
    return found is not None and stat.S_ISREG(found.st_mode)


def is_directory(path: Path) -> bool:
    """Whether it is a directory itself (not a link to one)."""
    found = status(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def is_link(path: Path) -> bool:
    found = status(path)
    return found is not None and stat.S_ISLNK(found.st_mode)


def own_link(path: Path) -> Path | None:
    """Where a link leads in the end, if it and every further link on the way belong to the caller or to root; None
    for other people's links and for dead ones. The directory in which the link lies is trusted."""
    if not is_link(path):
        return None
    place, todo, links = path.parent.resolve(), [path.name], 0
    while todo:
        step = place / todo.pop()
        if step.name == "..":
            place = place.parent
            continue
        found = status(step)
        if found is None:
            return None
        if not stat.S_ISLNK(found.st_mode):
            place = step
            continue
        links += 1
        if links > _MAX_LINKS or found.st_uid not in {os.geteuid(), 0}:
            return None
        target = step.readlink()
        if target.is_absolute():
            place = Path(target.anchor)
        todo += reversed([part for part in target.parts if part != target.anchor])
    return place


def follow_named(link: Path) -> Path:
    """Where a link leads that somebody typed. Raises NotFoundError if it is not followed."""
    target = own_link(link)
    if target is not None:
        return target
    found = status(link)
    if found is not None and found.st_uid not in {os.geteuid(), 0}:
        raise NotFoundError(f"{shown(link)} is a link of another user and is not followed: name what it leads to")
    raise NotFoundError(f"{shown(link)} is a link that leads nowhere: name the log or the job directory")


def log_link_target(directory: Path) -> Path | None:
    """The path that the ``log`` link of a job directory names, if it may be followed; the file may be missing.

    The documented shape is ``../<name>.log``, relative, with one more level for job names that contain a slash. Any
    other link must belong to the caller and lead to something named like a log.
    """
    link = directory / "log"
    try:
        parts = link.readlink().parts
    except OSError:
        return None
    if 2 <= len(parts) <= _MAX_LINK_PARTS and parts[0] == ".." and ".." not in parts[1:] and looks_like_log(parts[-1]):
        target = directory.parent.joinpath(*parts[1:])
        if not any(is_link(parent) for parent in _between(directory.parent, target)) and not is_link(target):
            return target
    target_or_none = own_link(link)
    if target_or_none is not None and looks_like_log(target_or_none.name):
        return target_or_none
    return None


def _between(top: Path, target: Path) -> list[Path]:
    """The directories strictly between ``top`` and ``target``."""
    return [p for p in target.parents if p != top and top in p.parents]


def looks_like_log(name: str) -> bool:
    return log_stem(name) is not None or error_stem(name) is not None or uncompressed(name).endswith(".txt")


def usable_log(path: Path) -> Path | None:
    """The regular file to read for an entry of an outputs directory: itself, or what a link of our own leads to."""
    if is_regular(path):
        return path
    target = own_link(path)
    return target if target is not None and looks_like_log(target.name) and is_regular(target) else None


def usable_directory(path: Path) -> Path | None:
    """A directory: itself, or what a link of our own leads to."""
    if is_directory(path):
        return path
    target = own_link(path)
    return target if target is not None and is_directory(target) else None


def read_beneath(top: Path, parts: tuple[str, ...], limit_bytes: int, offset: int = 0) -> bytes | None:
    """At most ``limit_bytes`` of a regular file below ``top``, walking the names without following any link; None if
    it is not there or is not a regular file."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for index, name in enumerate(parts):
            parent = descriptor
            try:
                descriptor = os.open(name, flags | (os.O_DIRECTORY if index < len(parts) - 1 else 0), dir_fd=parent)
            finally:
                os.close(parent)
    except (OSError, ValueError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        file.seek(offset)
        return file.read(limit_bytes)
