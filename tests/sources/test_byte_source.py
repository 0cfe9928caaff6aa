"""Bytes of plain, compressed, growing, broken and hostile files."""

from __future__ import annotations

import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_triage.errors import UsageError
from slurm_triage.logs import inflate
from slurm_triage.logs.source import open_source
from tests.sources.streams import COMPRESS, TEXT, drain, read, zstd


class TestPlain:
    @pytest.mark.parametrize("size", [1, 5, 6, 7, 4096, 1 << 20])
    def test_content_and_facts(self, tmp_path: Path, size: int) -> None:
        path = tmp_path / "a b\n.log"
        path.write_bytes(TEXT[:50_000])
        status = path.stat()
        with open_source(str(path)) as opened:
            assert (opened.size_bytes, opened.inode, opened.mtime) == (50_000, status.st_ino, status.st_mtime)
            assert not opened.compressed
            assert drain(opened, size) == TEXT[:50_000]
            assert opened.readinto(memoryview(bytearray(9))) == 0
        assert opened.damaged is None

    @pytest.mark.parametrize(
        "content", [b"", b"x", b"12345", b"123456", b"\x1f", b"\x00" * 100, b"\xfd7zXZ", b"(\xb5/"]
    )
    def test_short_files(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "x.gz"
        path.write_bytes(content)
        assert read(path) == content

    def test_empty_buffer_is_not_the_end(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        path.write_bytes(b"abc")
        with open_source(str(path)) as opened:
            assert opened.readinto(memoryview(b"")) == 0
            assert drain(opened) == b"abc"
            assert not opened.truncated

    def test_growing(self, tmp_path: Path) -> None:
        """PITFALLS A14: in the epilog the file still grows; the size at the start is kept."""
        path = tmp_path / "x.log"
        path.write_bytes(b"first\n")
        buffer = memoryview(bytearray(6))
        with open_source(str(path)) as opened:
            assert opened.readinto(buffer) == 6
            with path.open("ab") as more:
                more.write(b"second\n")
            assert drain(opened) == b"second\n"
            assert opened.size_bytes == 6
            assert opened.damaged is None

    def test_shrinking(self, tmp_path: Path) -> None:
        """PITFALLS A14: a requeued job truncates its log."""
        path = tmp_path / "x.log"
        path.write_bytes(b"x" * 100)
        buffer = memoryview(bytearray(50))
        with open_source(str(path)) as opened:
            assert opened.readinto(buffer) == 50
            path.write_bytes(b"new\n")
            assert opened.readinto(buffer) == 0
            assert opened.damaged == "the file became shorter while it was read (a requeued job starts its log again)"

    def test_renamed_and_deleted(self, tmp_path: Path) -> None:
        path = tmp_path / "x.log"
        path.write_bytes(b"abcdefgh")
        with open_source(str(path)) as opened:
            path.rename(tmp_path / "y.log")
            (tmp_path / "y.log").unlink()
            assert drain(opened) == b"abcdefgh"

    def test_io_error_in_the_middle(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "x.log"
        path.write_bytes(b"x" * 100)
        with open_source(str(path)) as opened:
            buffer = memoryview(bytearray(50))
            assert opened.readinto(buffer) == 50

            def fail(*_: object) -> int:
                raise OSError(116, "Stale file handle")

            monkeypatch.setattr(os, "readv", fail)
            assert opened.readinto(buffer) == 0
            assert opened.damaged == "reading stopped at an I/O error: Stale file handle"

    def test_sparse_giant(self, tmp_path: Path) -> None:
        path = tmp_path / "x.log"
        with path.open("wb") as file:
            file.truncate(1 << 40)
        with open_source(str(path), max_bytes=1000) as opened:
            assert drain(opened, 64) == b"\0" * 1000
            assert opened.truncated
            assert opened.size_bytes == 1 << 40

    @pytest.mark.parametrize("limit, truncated", [(99, True), (100, False), (101, False), (0, True)])
    def test_limit(self, tmp_path: Path, limit: int, truncated: bool) -> None:
        path = tmp_path / "x.log"
        path.write_bytes(b"x" * 100)
        with open_source(str(path), max_bytes=limit) as opened:
            assert len(drain(opened)) == min(limit, 100)
            assert opened.truncated is truncated
            assert opened.delivered_bytes == min(limit, 100)
            assert opened.damaged is None


@pytest.mark.parametrize("kind", COMPRESS)
class TestCompressed:
    @pytest.mark.parametrize("name", ["x.log", "x.log.wrong"])
    def test_told_by_content_not_by_name(self, tmp_path: Path, kind: str, name: str) -> None:
        path = tmp_path / name
        path.write_bytes(COMPRESS[kind](TEXT))
        with open_source(str(path)) as opened:
            assert opened.compressed
            assert opened.size_bytes == path.stat().st_size
            assert drain(opened) == TEXT
        assert opened.damaged is None

    @pytest.mark.parametrize("size", [1, 777])
    def test_small_buffers(self, tmp_path: Path, kind: str, size: int) -> None:
        path = tmp_path / "x"
        path.write_bytes(COMPRESS[kind](TEXT[:30_000]))
        assert read(path, size) == TEXT[:30_000]

    def test_several_streams_with_padding(self, tmp_path: Path, kind: str) -> None:
        """Logs that are compressed day by day and appended."""
        path = tmp_path / "x"
        parts = [COMPRESS[kind](p) for p in (b"one\n", b"", b"two\n", TEXT)]
        path.write_bytes(b"\0\0\0\0".join(parts) + b"\0" * 512)
        assert read(path) == b"one\ntwo\n" + TEXT

    def test_empty(self, tmp_path: Path, kind: str) -> None:
        path = tmp_path / "x"
        path.write_bytes(COMPRESS[kind](b""))
        assert read(path) == b""

    @pytest.mark.parametrize("keep", [0.3, 0.9, 0.9999])
    def test_broken_off(self, tmp_path: Path, kind: str, keep: float) -> None:
        path = tmp_path / "x"
        data = COMPRESS[kind](TEXT)
        path.write_bytes(data[: int(len(data) * keep)])
        with open_source(str(path)) as opened:
            got = drain(opened)
            assert opened.readinto(memoryview(bytearray(10))) == 0
        assert opened.damaged is not None
        assert opened.damaged.endswith("data breaks off: the end of the log is missing")
        assert TEXT.startswith(got)
        # zstd and xz decode in blocks of up to 128 KiB.
        assert len(got) > len(TEXT) * keep - 300_000

    def test_corrupt(self, tmp_path: Path, kind: str) -> None:
        path = tmp_path / "x"
        data = bytearray(COMPRESS[kind](TEXT))
        middle = len(data) // 2
        data[middle : middle + 50] = b"\xff" * 50
        path.write_bytes(data)
        with open_source(str(path)) as opened:
            got = drain(opened)
        assert opened.damaged is not None
        assert "corrupt" in opened.damaged
        assert len(got) > len(TEXT) // 4
        assert TEXT.startswith(got[: len(TEXT) // 4])

    def test_garbage_behind(self, tmp_path: Path, kind: str) -> None:
        path = tmp_path / "x"
        path.write_bytes(COMPRESS[kind](TEXT) + b"plain text behind it\n")
        with open_source(str(path)) as opened:
            assert drain(opened) == TEXT
        assert opened.damaged is not None
        assert "corrupt" in opened.damaged

    def test_bomb(self, tmp_path: Path, kind: str) -> None:
        """160 MiB of zeros in one stream: bounded in what is delivered and in memory."""
        path = tmp_path / "x"
        path.write_bytes(_bomb(kind, 160 << 20))
        assert path.stat().st_size < 1 << 20
        code = (
            "import resource, sys\n"
            "from slurm_triage.logs.source import open_source\n"
            "buffer = memoryview(bytearray(1 << 20))\n"
            "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
            "with open_source(sys.argv[1], max_bytes=150 << 20) as opened:\n"
            "    while opened.readinto(buffer): pass\n"
            "    assert opened.truncated and opened.delivered_bytes == 150 << 20\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
        )
        root = Path(__file__).parents[2]
        result = subprocess.run(
            [sys.executable, "-c", code, str(path)], cwd=root, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr
        assert int(result.stdout) < 64 << 10, "KiB more than before"

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.binary(max_size=2000), cut=st.integers(0, 2000), size=st.integers(1, 300))
    def test_any_data_cut_anywhere(
        self, tmp_path_factory: pytest.TempPathFactory, kind: str, data: bytes, cut: int, size: int
    ) -> None:
        path = tmp_path_factory.mktemp("any") / "x"
        whole = COMPRESS[kind](data)
        path.write_bytes(whole[:cut])
        with open_source(str(path)) as opened:
            got = drain(opened, size)
        if cut >= len(whole):
            assert (got, opened.damaged) == (data, None)
        elif opened.compressed:
            assert data.startswith(got)
            assert opened.damaged
        else:
            assert got == whole[:cut]


def _bomb(kind: str, size: int) -> bytes:
    block = b"\0" * (1 << 20)
    if kind == "gz":
        import zlib

        engine = zlib.compressobj(1, wbits=31)
        return b"".join([*(engine.compress(block) for _ in range(size >> 20)), engine.flush()])
    if kind == "xz":
        lz = lzma.LZMACompressor(preset=0)
        return b"".join([*(lz.compress(block) for _ in range(size >> 20)), lz.flush()])
    zst = zstandard.ZstdCompressor().compressobj()
    return b"".join([*(zst.compress(block) for _ in range(size >> 20)), zst.flush()])


class TestMissingModules:
    def test_zstd(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "x.zst"
        path.write_bytes(zstd(b"x"))
        monkeypatch.setitem(sys.modules, "zstandard", None)
        monkeypatch.setitem(sys.modules, "compression", None)
        with pytest.raises(UsageError, match=r"pip install 'slurm-triage\[zstd\]', or run zstd -d first"):
            open_source(str(path))

    def test_xz(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "x"
        path.write_bytes(lzma.compress(b"x"))
        monkeypatch.setitem(sys.modules, "lzma", None)
        with pytest.raises(UsageError, match="run xz -d first"):
            open_source(str(path))

    def test_the_standard_librarys_zstd(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Python 3.14 brings its own, with lzma's interface."""
        compression = pytest.importorskip("compression", reason="Python 3.14")
        monkeypatch.setitem(sys.modules, "zstandard", None)
        path = tmp_path / "x"
        path.write_bytes(compression.zstd.compress(TEXT))
        assert read(path) == TEXT

    def test_memory_hungry_xz(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(inflate, "_XZ_MEMORY_BYTES", 1 << 20)
        path = tmp_path / "x"
        path.write_bytes(lzma.compress(TEXT, preset=9))
        with open_source(str(path)) as opened:
            assert drain(opened) == b""
        assert "limit" in (opened.damaged or "")
