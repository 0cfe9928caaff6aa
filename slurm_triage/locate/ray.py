"""Ray worker files: which of the many ``worker-*.{out,err}`` of a node hold the training.

Ray starts one worker per CPU in advance; most stay idle. The trainer's file names its actor in the first lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slurm_triage.errors import TriageError
from slurm_triage.locate.names import order, uncompressed
from slurm_triage.locate.trust import is_directory, list_or_empty, read_beneath, status
from slurm_triage.logs.source import open_source
from slurm_triage.model.files import LogFile

#: The launcher's actor class.
TRAINER_ACTOR = b"MaxTextTrainerActor"

#: The actor line is the second line of the file; the launcher's own lines with the node number follow at once.
_HEAD_BYTES = 64 << 10

#: An idle worker's file holds ``:job_id:01000000`` (17 bytes) or nothing. Not opening those saves thousands of round
#: trips on a network file system.
_IDLE_BYTES = 24

#: More worker processes than this are not looked at: 64 nodes with 128 prestarted workers each.
_MAX_WORKERS = 8192
_MAX_DIRECTORIES = 4096

_WORKER = re.compile(r"(worker-[0-9A-Za-z]+-[0-9A-Za-z]+-[0-9]+)\.(out|err)")
_ACTOR = re.compile(rb"^:actor_name:([^\n]*)", re.MULTILINE)
_NODE = re.compile(rb"^\[Node ([0-9]{1,7}) @ ", re.MULTILINE)

#: Without any trainer actor: what a file that trains prints, in any framework.
_TRAINS = re.compile(rb"(?i)completed step|\bstep\b\W{0,3}[0-9]|\bepoch\b\W{0,3}[0-9]|\bloss\b\W{0,3}[0-9]|Traceback")


@dataclass(frozen=True, slots=True)
class _Worker:
    """The files of one worker process, and what their beginnings say."""

    host: str
    files: tuple[LogFile, ...]
    actors: frozenset[bytes]


def worker_logs(ray_logs: Path, notes: list[str]) -> tuple[LogFile, ...]:
    """The logs of the training workers below ``ray_logs/``, by host, in the order in which they were last written.

    ``ray_logs/<host>/worker-*`` and ``ray_logs/<host>/session_*/logs/worker-*`` are both read. Chosen are the workers
    of the launcher's actor; if there are none, those of any actor called a trainer; if there are none either, those
    whose beginning looks like training.
    """
    workers = list(_workers(ray_logs, notes))
    chosen = (
        [w for w in workers if TRAINER_ACTOR in w.actors]
        or [w for w in workers if any(b"train" in name.lower() for name in w.actors)]
        or [w for w in workers if _trains(w, notes)]
    )
    return tuple(file for worker in sorted(chosen, key=_order) for file in worker.files)


def _order(worker: _Worker) -> tuple[object, ...]:
    return order(worker.host), max(f.mtime or 0.0 for f in worker.files), worker.files[0].path


def _workers(ray_logs: Path, notes: list[str]) -> Iterator[_Worker]:
    processes = ((host, p) for host, place in _log_directories(ray_logs, notes) for p in _by_process(place, notes))
    for number, (host, paths) in enumerate(processes):
        if number >= _MAX_WORKERS:
            notes.append(f"only the first {_MAX_WORKERS} Ray workers were looked at")
            return
        yield _worker(host, paths, notes)


def _log_directories(ray_logs: Path, notes: list[str]) -> Iterator[tuple[str, Path]]:
    """(host, directory with its logs) in both layouts."""
    for host in list_or_empty(ray_logs, notes).names("dir")[:_MAX_DIRECTORIES]:
        yield host, ray_logs / host
        sessions = list_or_empty(ray_logs / host, notes, ("session_",)).names("dir")[:_MAX_DIRECTORIES]
        for session in sessions:
            if is_directory(ray_logs / host / session / "logs"):
                yield host, ray_logs / host / session / "logs"


def _by_process(directory: Path, notes: list[str]) -> list[list[Path]]:
    """The worker files of a directory that may hold something, grouped by process, .out before .err."""
    groups: dict[str, dict[str, Path]] = {}
    for name in list_or_empty(directory, notes, ("worker-",)).names("file"):
        match = _WORKER.fullmatch(uncompressed(name))
        found = status(directory / name) if match else None
        if match and found is not None and found.st_size > _IDLE_BYTES:
            # Sorted by name, x.out comes before x.out.gz: the first one stays.
            groups.setdefault(match[1], {}).setdefault(match[2], directory / name)
    return [[files[kind] for kind in ("out", "err") if kind in files] for files in groups.values()]


def _worker(host: str, paths: list[Path], notes: list[str]) -> _Worker:
    actors: set[bytes] = set()
    nodes: set[int] = set()
    for path in paths:
        head = _head(path, notes)
        actors.update(name.strip() for name in _ACTOR.findall(head))
        nodes.update(int(number) for number in _NODE.findall(head))
    # The launcher's node number is the rank that srun would print in front of this node's lines.
    ranks = tuple(nodes) if len(nodes) == 1 else ()
    return _Worker(host, tuple(_log_file(p, host, ranks) for p in paths), frozenset(actors))


def _log_file(path: Path, host: str, ranks: tuple[int, ...]) -> LogFile:
    found = status(path)
    if found is None:
        return LogFile(str(path), "ray-worker", ranks, host)
    return LogFile(str(path), "ray-worker", ranks, host, found.st_size, found.st_ino, found.st_mtime)


def _trains(worker: _Worker, notes: list[str]) -> bool:
    """Whether the beginning or the end of a file looks like training: a long config dump may stand before the steps."""
    return any(_TRAINS.search(_head(Path(f.path), notes)) or _TRAINS.search(_tail(Path(f.path))) for f in worker.files)


def _tail(path: Path) -> bytes:
    """The last bytes of the file as it lies on disk (nothing useful if it is compressed, which matches nothing)."""
    found = status(path)
    if found is None or found.st_size <= _HEAD_BYTES:
        return b""
    return read_beneath(path.parent, (path.name,), _HEAD_BYTES, found.st_size - _HEAD_BYTES) or b""


def _head(path: Path, notes: list[str]) -> bytes:
    buffer = bytearray(_HEAD_BYTES)
    try:
        with open_source(str(path)) as source:
            filled = 0
            while filled < len(buffer) and (count := source.readinto(memoryview(buffer)[filled:])):
                filled += count
    except TriageError as error:
        notes.append(str(error))
        return b""
    return bytes(buffer[:filled])
