"""One text in every packing, and how to read a source to its end."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import zstandard

from slurm_triage.logs.source import ByteSource, open_source

TEXT = b"".join(b"0: completed step: %d, seconds: %d.5, loss: 1.%d\n" % (i, i % 7, i * i) for i in range(20_000))


def xz(data: bytes) -> bytes:
    return lzma.compress(data, preset=0)


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


COMPRESS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "xz": xz, "zst": zstd}


def drain(opened: ByteSource, size: int = 1 << 16) -> bytes:
    buffer = memoryview(bytearray(size))
    pieces: list[bytes] = []
    while count := opened.readinto(buffer):
        pieces.append(bytes(buffer[:count]))
    return b"".join(pieces)


def read(path: Path, size: int = 1 << 16) -> bytes:
    with open_source(str(path)) as opened:
        data = drain(opened, size)
    assert opened.damaged is None
    assert not opened.truncated
    return data


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
