"""One job directory: whether it is one, which logs lie in it, and what other evidence."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from slurm_triage.locate.names import core_id, is_launcher_job, launcher_id, log_stem, order, rank_of_log, uncompressed
from slurm_triage.locate.trust import (
    MAX_ENTRIES,
    Listing,
    list_directory,
    list_or_empty,
    log_link_target,
    usable_directory,
)
from slurm_triage.model.files import FileRole, LogFile

#: Directories and files that only a job's directory has (a shared checkpoint directory has none of them).
_EVIDENCE_DIRS = frozenset({".coord", "ray_logs", "prometheus", "metrics_exporter", "xla_dump", "tracelens", "triage"})
_EVIDENCE_FILES = frozenset({"analysis.json", "triage.json", "TRIAGE.md", "kernel-dmesg.txt"})

#: Names of a log that lies in the job's own directory.
OWN_LOGS = ("log", "log.txt", "job.log")

_COORD = ".coord"
_READY = "ready-"
KERNEL_LOG = "kernel-dmesg.txt"


def holds_several_logs(path: Path) -> bool:
    """Whether logs of different names lie where this one does, so that the directory is no job's own. Looks no further
    than the second: where the tasks of a large array write there are tens of thousands."""
    stems = {log_stem(path.name)} - {None} if rank_of_log(path.name) is None else set()
    with contextlib.suppress(OSError), os.scandir(path.parent) as entries:
        for entry in islice(entries, MAX_ENTRIES):
            stem = log_stem(entry.name)
            if stem is None or stem in stems or rank_of_log(entry.name) is not None:
                continue
            if entry.is_file(follow_symlinks=False):
                stems.add(stem)
                if len(stems) > 1:
                    return True
    return False


@dataclass(frozen=True, slots=True)
class JobDir:
    """A directory that may belong to a job, listed once."""

    path: Path
    listing: Listing
    notes: list[str] = field(default_factory=list)

    @property
    def has_log_link(self) -> bool:
        """Every launcher but a failed one makes the ``log`` link; it may dangle."""
        return self.listing.kinds.get("log") == "link"

    @property
    def has_evidence(self) -> bool:
        """Whether something in it was made by a job of its own."""
        kinds = self.listing.kinds
        return (
            any(kind == "dir" and name in _EVIDENCE_DIRS for name, kind in kinds.items())
            or any(kind == "file" and self._job_file(name) for name, kind in kinds.items())
            or "artifact" in kinds
        )

    def _job_file(self, name: str) -> bool:
        return name in _EVIDENCE_FILES or rank_of_log(name) is not None or core_id(name) is not None

    @property
    def is_empty(self) -> bool:
        return not self.listing.kinds

    def linked_log(self) -> Path | None:
        """The path that the ``log`` link names; the file may be missing."""
        return log_link_target(self.path) if self.has_log_link else None

    def named_log(self) -> Path | None:
        """A log of its own that is called so: a copy in place of the link, or a run that logs there."""
        by_plain_name: dict[str, str] = {}
        for name in self.listing.names("file"):
            by_plain_name.setdefault(uncompressed(name), name)
        return next((self.path / by_plain_name[name] for name in OWN_LOGS if name in by_plain_name), None)

    def own_log(self) -> Path | None:
        """A log that lies in the directory itself: one that is called so, or the only one there."""
        named = self.named_log()
        if named is not None or not self.holds_one_log:
            return named
        return self.path / self.plain_logs()[0]

    @property
    def holds_one_log(self) -> bool:
        """Whether the logs in it (compressed copies aside) are one, so that what lies beside it belongs to it."""
        return len({log_stem(n) for n in self.plain_logs()}) == 1

    def plain_logs(self) -> list[str]:
        """Names of ``*.log`` and ``*.out`` files that are not the log of one rank."""
        return [n for n in self.listing.names("file") if log_stem(n) is not None and rank_of_log(n) is None]

    def rank_logs(self) -> tuple[LogFile, ...]:
        """k8s: ``rank-N.log``, by rank."""
        by_rank: dict[int, Path] = {}
        for name in self.listing.names("file"):
            rank = rank_of_log(name)
            if rank is not None:
                by_rank.setdefault(rank, self.path / name)
        return tuple(log_file(path, "rank", (rank,)) for rank, path in sorted(by_rank.items()))

    def coord_ranks(self) -> tuple[int, ...]:
        """k8s: ranks that reached the start barrier."""
        if self.listing.kinds.get(_COORD) != "dir":
            return ()
        names = list_or_empty(self.path / _COORD, self.notes).kinds
        numbers = [n[len(_READY) :] for n in names if n.startswith(_READY)]
        return tuple(sorted(int(n) for n in numbers if n.isascii() and n.isdigit() and len(n) < 8))

    def prometheus(self) -> Path | None:
        """The persisted time series (``wal/``, blocks), if there are any; only logs are there if it never started."""
        path = self.path / "prometheus"
        if self.listing.kinds.get("prometheus") != "dir" or not list_or_empty(path, self.notes).names("dir"):
            return None
        return path

    def ray_logs(self) -> Path | None:
        return self.path / "ray_logs" if self.listing.kinds.get("ray_logs") == "dir" else None

    def core_dumps(self, job_id: str | None) -> tuple[Path, ...]:
        names = self.listing.names("file") if job_id else []
        return tuple(self.path / name for name in names if core_id(name) == job_id)

    def node_snapshots(self) -> tuple[Path, ...]:
        """What the nodes said about themselves when the job ended: ``triage/node-*.txt``, ``kernel-dmesg.txt``."""
        folder = self.path / "triage"
        nodes: list[str] = []
        if self.listing.kinds.get("triage") == "dir":
            names = list_or_empty(folder, self.notes).names("file")
            nodes = sorted((n for n in names if n.startswith("node-") and n.endswith(".txt")), key=order)
        kernel = (self.path / KERNEL_LOG,) if self.listing.kinds.get(KERNEL_LOG) == "file" else ()
        return (*(folder / name for name in nodes), *kernel)


def open_job_dir(path: Path) -> JobDir | None:
    """The directory, or what a link of our own leads to; None if there is none that may be used.

    Raises OSError if it is a directory that cannot be listed.
    """
    real = usable_directory(path)
    return JobDir(real, list_directory(real)) if real is not None else None


def is_job_dir(directory: JobDir, name: str) -> bool:
    """Whether a directory of an outputs tree belongs to one job, judged without its log.

    A ``log`` link alone does not decide: a k8s job whose start failed has only ``.coord/``, and a prolog kill can leave
    an empty directory, while a shared checkpoint directory may have a name that begins with a number.
    """
    if directory.has_log_link or directory.named_log() is not None:
        return True
    job_id = launcher_id(name)
    if job_id is None:
        return False
    killed_in_prolog = directory.is_empty and name != job_id
    return is_launcher_job(name) or directory.has_evidence or killed_in_prolog or directory.own_log() is not None


def log_file(path: Path, role: FileRole, ranks: tuple[int, ...] = ()) -> LogFile:
    """The model's record of a log that is there."""
    found = path.lstat()
    return LogFile(str(path), role, ranks, None, found.st_size, found.st_ino, found.st_mtime)
