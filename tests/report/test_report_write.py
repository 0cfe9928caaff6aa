"""Reports on disk: whole or not at all, never through a link, never over a newer one."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_triage.errors import NotFoundError, PartialResultError, UsageError
from slurm_triage.model.files import JobFiles, LogFile
from slurm_triage.model.report import Report
from slurm_triage.report.write import file_name, place_for, write_beside, write_files, write_report

from .sample_reports import failed, healthy

NAMES = {"triage.json", "TRIAGE.md"}


def made_at(report: Report, seconds: float, attempt: int = 1) -> Report:
    return replace(report, generated_at=report.generated_at + seconds, attempt=attempt)


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_both_files_are_written_and_nothing_else_is_left(tmp_path: Path) -> None:
    written = write_report(tmp_path, failed())
    assert names(tmp_path) == NAMES
    assert written.paths == (str(tmp_path / "TRIAGE.md"), str(tmp_path / "triage.json"))
    assert json.loads((tmp_path / "triage.json").read_bytes())["status"] == "failed"
    assert (tmp_path / "TRIAGE.md").read_text("utf-8").startswith("7877 ")
    write_report(tmp_path, failed(), html=True)
    assert names(tmp_path) == NAMES | {"triage.html"}


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o644), (0o027, 0o640)])
def test_the_mode_follows_the_umask(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        write_report(tmp_path, failed())
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {mode}


def test_a_later_report_replaces_an_earlier_one(tmp_path: Path) -> None:
    write_report(tmp_path, failed())
    inode = (tmp_path / "triage.json").stat().st_ino
    assert not write_report(tmp_path, made_at(healthy(), 60)).newer_kept
    assert json.loads((tmp_path / "triage.json").read_bytes())["status"] == "completed"
    assert (tmp_path / "triage.json").stat().st_ino != inode


@pytest.mark.parametrize(("seconds", "attempt"), [(60, 1), (-60, 2), (60, 2)])
def test_a_newer_report_is_kept(tmp_path: Path, seconds: float, attempt: int) -> None:
    write_report(tmp_path, made_at(failed(), seconds, attempt))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    written = write_report(tmp_path, healthy())
    assert written.newer_kept
    assert written.paths == ()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_report_of_a_later_attempt_replaces_one_made_later(tmp_path: Path) -> None:
    write_report(tmp_path, made_at(failed(), 60, attempt=1))
    assert not write_report(tmp_path, made_at(healthy(), 0, attempt=2)).newer_kept


def test_attempts_of_another_job_do_not_count(tmp_path: Path) -> None:
    other = failed()
    write_report(tmp_path, made_at(replace(other, job=replace(other.job, job_id="1")), -60, attempt=9))
    assert not write_report(tmp_path, healthy()).newer_kept


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"[1]",
        b'{"schema": "other/1", "generated_at": "2099-01-01T00:00:00+00:00"}',
        b'{"schema": "slurm-triage/1", "generated_at": 7}',
        b'{"schema": "slurm-triage/1", "generated_at": "2099-01-01T00:00:00+00:00", "job": {"id": "7877"}}',
        b'{"schema": "slurm-triage/1", "generated_at": "soon", "job": {"attempt": 99}}',
    ],
)
def test_what_is_no_report_or_comes_from_the_future_is_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "triage.json").write_bytes(content)
    assert write_report(tmp_path, failed()).paths
    assert json.loads((tmp_path / "triage.json").read_bytes())["job"]["id"] == "7877"


def make_link(path: Path) -> None:
    path.symlink_to(path.parent / "victim")


def make_dangling_link(path: Path) -> None:
    path.symlink_to("/nowhere/at/all")


def make_socket(path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))


@pytest.mark.parametrize("target", sorted(NAMES))
@pytest.mark.parametrize("make", [make_link, make_dangling_link, Path.mkdir, os.mkfifo, make_socket])
def test_an_odd_target_is_refused_and_nothing_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], Any], target: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "victim").write_text("precious")
    make(tmp_path / target)
    with pytest.raises(PartialResultError, match=rf"{target}' is .*; remove it, then write the report again\.$"):
        write_report(tmp_path, failed())
    assert names(tmp_path) == {target, "victim"}
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_link_put_there_at_the_last_moment_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    make_link(tmp_path / "TRIAGE.md")
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        write_files(folder, {"TRIAGE.md": b"new"})
    finally:
        os.close(folder)
    assert (tmp_path / "victim").read_text() == "precious"
    assert not (tmp_path / "TRIAGE.md").is_symlink()
    assert (tmp_path / "TRIAGE.md").read_bytes() == b"new"
    assert names(tmp_path) == {"TRIAGE.md", "victim"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mount.returncode:
        pytest.skip(f"cannot mount a tmpfs: {mount.stderr.decode().strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_leaves_the_old_report_whole(small_disk: Path) -> None:
    write_report(small_disk, failed())
    before = {path.name: path.read_bytes() for path in small_disk.iterdir()}
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "filler").write_bytes(b"x" * 65536)
    with pytest.raises(PartialResultError, match=r"No space is left in .*; free some, then write the report again\."):
        write_report(small_disk, made_at(healthy(), 60))
    assert names(small_disk) == NAMES | {"filler"}
    assert {name: (small_disk / name).read_bytes() for name in NAMES} == before


@pytest.mark.parametrize("call", ["write", "fsync", "rename", "open"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
def test_any_failing_call_leaves_the_old_report_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    write_report(tmp_path, failed())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    original = getattr(os, call)

    def failing(*args: Any, **options: Any) -> Any:
        if call == "open" and not (args[1] & os.O_CREAT):
            return original(*args, **options)
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing)
        with pytest.raises(PartialResultError):
            write_report(tmp_path, made_at(healthy(), 60))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: original(handle, bytes(data)[:100]))
    write_report(tmp_path, failed())
    assert json.loads((tmp_path / "triage.json").read_bytes())["schema"] == "slurm-triage/1"


def test_readers_never_see_half_a_report(tmp_path: Path) -> None:
    write_report(tmp_path, failed())
    stop = threading.Event()
    broken: list[str] = []

    def read() -> None:
        while not stop.is_set():
            try:
                json.loads((tmp_path / "triage.json").read_bytes())
            except (ValueError, FileNotFoundError) as error:
                broken.append(repr(error))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for index in range(1, 60):
            write_report(tmp_path, made_at(failed() if index % 2 else healthy(), index))
    finally:
        stop.set()
        reader.join()
    assert not broken


def test_a_directory_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for directory in (tmp_path / "none", tmp_path / "file"):
        with pytest.raises(NotFoundError, match="is no directory; create it"):
            write_report(directory, failed())


def test_a_directory_of_somebody_else_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any, **_options: Any) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PartialResultError, match="You may not write to"):
        write_report(tmp_path, failed())


def test_file_systems_that_cannot_sync_a_directory_are_good_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = os.fsync

    def fsync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        original(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    write_report(tmp_path, failed())
    assert names(tmp_path) == NAMES


def test_the_report_belongs_into_the_job_directory_else_beside_the_log(tmp_path: Path) -> None:
    log = LogFile(str(tmp_path / "7877-JAX.log"), "primary")
    job = tmp_path / "7877-JAX"
    assert place_for(JobFiles(job_dir=str(job), logs=(log,))) == (str(tmp_path), "7877-JAX")
    job.mkdir()
    assert place_for(JobFiles(job_dir=str(job), logs=(log,))) == (str(job), None)
    assert place_for(JobFiles(logs=(LogFile("slurm-7.out.gz", "primary"),))) == (".", "slurm-7")
    assert place_for(JobFiles(logs=(LogFile("a/.log", "primary"),))) == ("a", ".log")
    with pytest.raises(UsageError, match="Standard input"):
        place_for(JobFiles(logs=(LogFile("-", "primary"),)))
    with pytest.raises(NotFoundError):
        place_for(JobFiles())


def test_beside_the_log_names_carry_the_log_s_name(tmp_path: Path) -> None:
    base = failed()
    log = LogFile(str(tmp_path / "slurm-7.out"), "primary")
    report = replace(base, files=JobFiles(logs=(log,)), log_path=log.path)
    assert write_beside(report) == (str(tmp_path / "slurm-7.TRIAGE.md"), str(tmp_path / "slurm-7.triage.json"))
    with pytest.raises(PartialResultError, match="holds a newer report"):
        write_beside(made_at(report, -60))


def test_names_that_would_be_too_long_are_cut_and_stay_apart(tmp_path: Path) -> None:
    first, second = "é" * 122 + "1", "é" * 122 + "2"
    made = {file_name("triage.json", stem) for stem in (first, second)}
    assert len(made) == 2
    for name in made:
        assert len(os.fsencode(name)) <= 255
        (tmp_path / name).touch()
    assert file_name("triage.json", "x" * 243) == "x" * 243 + ".triage.json"
    assert len(file_name("triage.json", "x" * 244)) <= 255
    raw = b"\xff" * 250
    assert len(os.fsencode(file_name("TRIAGE.md", os.fsdecode(raw)))) <= 255
