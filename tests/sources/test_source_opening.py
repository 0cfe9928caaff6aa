"""Sources that are refused with one sentence, and standard input."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_triage.errors import NotFoundError, UsageError
from slurm_triage.logs import source
from slurm_triage.logs.source import open_source
from tests.sources.streams import COMPRESS, TEXT, drain, open_descriptors, zstd


class TestRefused:
    @pytest.mark.parametrize(
        "kind, sentence",
        [
            ("missing", "there is no file .*: check the path"),
            ("directory", "is a directory, not a log: name a log file in it"),
            ("pipe", "is a named pipe, not a log file"),
            ("socket", "is a socket, not a log file"),
            ("link", "is a symbolic link: name the file that it leads to"),
            ("loop", "is a symbolic link: name the file that it leads to"),
        ],
    )
    def test_sentence(self, tmp_path: Path, kind: str, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        path = tmp_path / "x.log"
        if kind == "directory":
            path.mkdir()
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "socket":
            with socket.socket(socket.AF_UNIX) as server:
                server.bind("x.log")
        elif kind == "link":
            (tmp_path / "real").write_bytes(b"x")
            path.symlink_to("real")
        elif kind == "loop":
            path.symlink_to("x.log")
        with pytest.raises(NotFoundError, match=sentence) as error:
            open_source(str(path))
        assert error.value.exit_status == 3

    @pytest.mark.parametrize("path", ["/dev/null", "/dev/zero"])
    def test_devices(self, path: str) -> None:
        with pytest.raises(NotFoundError, match=f"{path} is a device"):
            open_source(path)

    @pytest.mark.parametrize("path", ["", "a\0b", "x" * 5000, "/dev/null/x"])
    def test_impossible_names(self, path: str) -> None:
        with pytest.raises(NotFoundError):
            open_source(path)

    def test_unreadable(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "x.log"
        path.write_bytes(b"x")

        def refuse(*_: object, **__: object) -> int:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(os, "open", refuse)
        with pytest.raises(NotFoundError, match=r"you may not read .*x\.log: ask its owner, or run as the job's user"):
            open_source(str(path))

    def test_swapped_for_a_pipe_after_the_look(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The check that counts is the one on the open descriptor."""
        path = tmp_path / "x.log"
        os.mkfifo(path)
        refuse, calls = source._refuse_special, []

        def late(name: str, mode: int) -> None:
            calls.append(mode)
            if len(calls) > 1:
                refuse(name, mode)

        monkeypatch.setattr(source, "_refuse_special", late)
        before = open_descriptors()
        with pytest.raises(NotFoundError, match="is a named pipe"):
            open_source(str(path))
        assert open_descriptors() == before

    def test_descriptors_are_closed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "x.zst"
        path.write_bytes(zstd(TEXT))
        before = open_descriptors()
        with open_source(str(path)) as opened:
            drain(opened)
        opened.close()
        monkeypatch.setitem(sys.modules, "zstandard", None)
        monkeypatch.setitem(sys.modules, "compression", None)
        with pytest.raises(UsageError):
            open_source(str(path))
        assert open_descriptors() == before


class TestStandardInput:
    @pytest.fixture
    def feed(self) -> Iterator[Callable[[bytes], None]]:
        """Puts a pipe in the place of standard input and writes to it from a thread."""
        saved = os.dup(0)
        threads: list[threading.Thread] = []

        def start(data: bytes) -> None:
            reading, writing = os.pipe()
            os.dup2(reading, 0)
            os.close(reading)

            def write() -> None:
                with os.fdopen(writing, "wb") as pipe:
                    pipe.write(data)

            threads.append(threading.Thread(target=write))
            threads[0].start()

        yield start
        for thread in threads:
            thread.join()
        os.dup2(saved, 0)
        os.close(saved)

    @pytest.mark.parametrize("kind", ["plain", *COMPRESS])
    def test_pipe(self, feed: Callable[[bytes], None], kind: str) -> None:
        feed(COMPRESS.get(kind, bytes)(TEXT))
        with open_source("-") as opened:
            assert (opened.size_bytes, opened.inode, opened.mtime) == (None, None, None)
            assert opened.compressed == (kind != "plain")
            assert drain(opened) == TEXT
        assert opened.damaged is None
        os.fstat(0)

    def test_pipe_in_non_blocking_mode(self, feed: Callable[[bytes], None]) -> None:
        feed(TEXT)
        os.set_blocking(0, False)
        with open_source("-") as opened:
            assert drain(opened) == TEXT

    @pytest.mark.parametrize("skip", [0, 1000])
    def test_file(self, tmp_path: Path, skip: int) -> None:
        path = tmp_path / "x"
        path.write_bytes(TEXT)
        saved = os.dup(0)
        descriptor = os.open(path, os.O_RDONLY)
        os.lseek(descriptor, skip, os.SEEK_SET)
        os.dup2(descriptor, 0)
        os.close(descriptor)
        try:
            with open_source("-") as opened:
                assert opened.size_bytes == len(TEXT)
                assert drain(opened) == TEXT[skip:]
                assert opened.damaged is None
        finally:
            os.dup2(saved, 0)
            os.close(saved)
