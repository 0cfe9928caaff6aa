"""Reports on disk: whole or not at all, never through a link, never over a newer one."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from slurm_triage.errors import NotFoundError, PartialResultError, UsageError
from slurm_triage.model.duration import parse_time
from slurm_triage.model.files import JobFiles
from slurm_triage.model.report import SCHEMA, Report
from slurm_triage.report.as_document import as_document
from slurm_triage.report.document import Document
from slurm_triage.report.to_json import to_json

JSON_NAME = "triage.json"
MARKDOWN_NAME = "TRIAGE.md"
HTML_NAME = "triage.html"

_MODE = 0o644
#: ext4, XFS, Lustre, GPFS and NFS allow 255 bytes in a name.
_MAX_NAME_BYTES = 255
#: A report of 4096 ranks with 20 000 findings has 25 MB. More than this is not a report of ours.
_MAX_REPORT_BYTES = 256 * 1024 * 1024
#: A stored time further ahead than this comes from a wrong clock or a forger; it must not block reports for good.
_MAX_AHEAD_S = 86400.0
_LOG_SUFFIXES = (".gz", ".zst", ".xz", ".log", ".out", ".err", ".txt")
_TEMPORARY = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Written:
    """``paths`` of the files that were written; empty when ``newer_kept``: a newer report of the job was there."""

    paths: tuple[str, ...]
    newer_kept: bool = False


def place_for(files: JobFiles) -> tuple[str, str | None]:
    """Where a job's report belongs: (directory, stem of the file names).

    The job directory, with no stem; without one, the log's directory, with the log's name. Raises UsageError when the
    log is standard input, NotFoundError when there is neither.
    """
    if files.job_dir and Path(files.job_dir).is_dir():
        return files.job_dir, None
    log = files.primary or next(iter(files.logs), None)
    if log is None:
        raise NotFoundError("The job has neither a directory nor a log to write the report next to; print it instead.")
    if log.path == "-":
        raise UsageError("Standard input has no directory to write the report to; give the log as a file.")
    directory, name = os.path.split(log.path)
    for suffix in _LOG_SUFFIXES:
        name = name.removesuffix(suffix) or name
    return directory or ".", name


def write_report(
    directory: str | os.PathLike[str],
    source: Report | Document,
    *,
    stem: str | None = None,
    html: bool = False,
    share: bool = False,
) -> Written:
    """Writes ``triage.json`` and ``TRIAGE.md`` (with ``stem``: ``<stem>.triage.json`` ...) and, if asked, a page.

    All files are complete on disk before the first one takes its name; ``triage.json`` comes last, so whoever sees it
    sees the others too. A newer report (later attempt, or same attempt and made later) is kept. Raises NotFoundError
    when there is no such directory and PartialResultError when the report cannot be written.
    """
    from slurm_triage.report.markdown import to_markdown  # jinja2, only for those who write

    document = as_document(source, share=share)
    contents = {file_name(MARKDOWN_NAME, stem): to_markdown(document).encode()}
    if html:
        from slurm_triage.report.to_html import to_html

        contents[file_name(HTML_NAME, stem)] = to_html(document).encode()
    contents[file_name(JSON_NAME, stem)] = to_json(document)
    shown = os.fspath(directory)
    with _open_directory(shown) as folder, _explained(shown):
        for name in contents:
            _refuse_odd_target(folder, name, shown)
        if _is_newer(_stored(folder, file_name(JSON_NAME, stem)), document):
            return Written((), newer_kept=True)
        write_files(folder, contents)
    return Written(tuple(str(Path(shown, name)) for name in contents))


def write_beside(report: Report, *, share: bool = False) -> tuple[str, ...]:
    """Writes the report where it belongs and returns the paths. Raises PartialResultError when a newer one is there."""
    directory, stem = place_for(report.files)
    written = write_report(directory, report, stem=stem, share=share)
    if written.newer_kept:
        raise PartialResultError(f"{directory!r} holds a newer report of this job; remove that one first to go back.")
    return written.paths


def write_files(folder: int, contents: Mapping[str, bytes]) -> None:
    """Replaces the named files in the directory open as ``folder``, in order, each by rename. Raises OSError."""
    waiting: dict[str, str] = {}
    try:
        for name, content in contents.items():
            temporary = f".slurm-triage-{secrets.token_hex(8)}.tmp"
            waiting[temporary] = name
            _write_through(folder, temporary, content)
        for temporary, name in list(waiting.items()):
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            del waiting[temporary]
        _sync_directory(folder)
    finally:
        for temporary in waiting:
            _remove(folder, temporary)


def file_name(name: str, stem: str | None) -> str:
    """``triage.json``, or ``<stem>.triage.json`` with a stem too long for the file system cut and told by a hash."""
    if stem is None:
        return name
    room = _MAX_NAME_BYTES - len(name) - 1
    raw = os.fsencode(stem)
    if len(raw) > room:
        digest = hashlib.sha256(raw).hexdigest()[:12]
        stem = raw[: room - 13].decode("utf-8", "ignore") + "~" + digest
    return f"{stem}.{name}"


@contextmanager
def _open_directory(path: str) -> Iterator[int]:
    try:
        folder = os.open(path, _DIRECTORY)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(f"{path!r} is no directory; create it, or write the report elsewhere.") from error
    except OSError as error:
        raise PartialResultError(_explain(error, path)) from error
    try:
        yield folder
    finally:
        os.close(folder)


@contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PartialResultError(_explain(error, path)) from error


def _explain(error: OSError, path: str) -> str:
    if error.errno == errno.ENOSPC:
        return f"No space is left in {path!r}; free some, then write the report again."
    if error.errno == errno.EDQUOT:
        return f"The disk quota in {path!r} is used up; free some space, then write the report again."
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return f"You may not write to {path!r}; write the report elsewhere, or print it."
    return f"The report could not be written to {path!r} ({os.strerror(error.errno or 0)}); write it elsewhere."


def _refuse_odd_target(folder: int, name: str, shown: str) -> None:
    """A rename would replace a link, pipe or socket without a word; whoever put it there should know."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe"}
        kind = kinds.get(stat.S_IFMT(mode), "no regular file")
        raise PartialResultError(f"{str(Path(shown, name))!r} is {kind}; remove it, then write the report again.")


def _stored(folder: int, name: str) -> Any:
    """The document that is there, None if there is none that can be read."""
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except (FileNotFoundError, PermissionError):
        return None
    with open(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_REPORT_BYTES:
            return None
        content = file.read(_MAX_REPORT_BYTES)
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return None


def _is_newer(stored: Any, document: Document) -> bool:
    if not isinstance(stored, dict) or stored.get("schema") != SCHEMA:
        return False
    made, own = _time_of(stored), _time_of(document)
    if made is None or own is None or made > own + _MAX_AHEAD_S:
        return False
    job, own_job = stored.get("job"), document["job"]
    attempt = job.get("attempt") if isinstance(job, dict) and job.get("id") == own_job["id"] else None
    if isinstance(attempt, int) and isinstance(own_job["attempt"], int):
        if attempt == own_job["attempt"] and _is_final(document) and not _is_final(stored):
            # Whatever the clock said then: what rests on the whole record replaces what came before it.
            return False
        return (attempt, made) > (own_job["attempt"], own)
    return made > own


def _is_final(document: Mapping[str, Any]) -> bool:
    accounting = document.get("accounting")
    return isinstance(accounting, dict) and accounting.get("final") is True


def _time_of(document: Mapping[str, Any]) -> float | None:
    value = document.get("generated_at")
    return parse_time(value) if isinstance(value, str) else None


def _write_through(folder: int, name: str, content: bytes) -> None:
    handle = os.open(name, _TEMPORARY, _MODE, dir_fd=folder)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(handle, rest) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_directory(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        # Some network and FUSE file systems cannot sync a directory: the names are durable when they say so.
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise


def _remove(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        # The file was never created: opening it is what failed.
        return
