"""Decompression of logs in bounded steps: gzip, xz, zstd, told apart by their first bytes.

Every decompressor is a generator of small pieces over a function that reads compressed bytes. Small pieces bound the
memory that a decompression bomb can take, and what is lost when an engine drops its output at the first bad byte.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Protocol, cast

from slurm_triage.errors import UsageError

#: Bytes an engine may give per call, and so what is lost before a corrupt place.
_PIECE_BYTES = 16 << 10

#: zstandard's incremental decompressor has no limit on output per call. A block of 4 bytes can stand for 128 KiB,
#: so this many bytes of input give at most 32 MiB.
_ZSTD_INPUT_BYTES = 1 << 10

#: ``xz -9`` needs 65 MiB to decompress.
_XZ_MEMORY_BYTES = 128 << 20

Read = Callable[[], bytes]
Inflate = Callable[[Read], Iterator[bytes]]


class DamagedStreamError(Exception):
    """The compressed data is corrupt or breaks off; the text is a sentence for the report."""


class _Engine(Protocol):
    """What lzma and compression.zstd have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


def inflater(head: bytes, path: str) -> Inflate | None:
    """The decompressor for data that begins with ``head`` (6 bytes are enough); None if it is not compressed.

    Raises UsageError if the format is known but its module is not installed.
    """
    if head.startswith(b"\x1f\x8b"):
        return _gunzip
    if head.startswith(b"\xfd7zXZ\x00"):
        return _xz(path)
    if head.startswith(b"\x28\xb5\x2f\xfd") or (head[1:4] == b"\x2a\x4d\x18" and 0x50 <= head[0] <= 0x5F):
        return _zstd(path)
    return None


def _gunzip(read: Read) -> Iterator[bytes]:
    data = read()
    while data:
        engine = zlib.decompressobj(zlib.MAX_WBITS | 16)
        while not engine.eof:
            try:
                piece = engine.decompress(data, _PIECE_BYTES)
            except zlib.error as error:
                raise DamagedStreamError(f"the gzip data is corrupt ({error}): the rest of the log is lost") from error
            if piece:
                yield piece
            data = engine.unconsumed_tail
            if not data and not engine.eof and len(piece) < _PIECE_BYTES:
                data = read()
                if not data:
                    raise DamagedStreamError("the gzip data breaks off: the end of the log is missing")
        # Tapes and block devices pad with zeros; another member may follow (logs appended day by day).
        data = _skip_padding(engine.unused_data, read)


def _xz(path: str) -> Inflate:
    try:
        import lzma
    except ImportError as error:
        raise UsageError(
            f"{path!r} is compressed with xz and this Python was built without lzma: run xz -d first"
        ) from error

    def inflate(read: Read) -> Iterator[bytes]:
        return _pieces(
            read,
            lambda: lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES),
            (lzma.LZMAError, EOFError),
            "xz",
        )

    return inflate


def _zstd(path: str) -> Inflate:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return _zstd_package(path)

    def inflate(read: Read) -> Iterator[bytes]:
        return _pieces(read, zstd.ZstdDecompressor, (zstd.ZstdError, EOFError), "zstd")

    return inflate


def _zstd_package(path: str) -> Inflate:
    try:
        import zstandard
    except ImportError as error:
        raise UsageError(
            f"{path!r} is compressed with zstd: install support with pip install 'slurm-triage[zstd]', "
            "or run zstd -d first"
        ) from error

    def inflate(read: Read) -> Iterator[bytes]:
        data = read()
        while data:
            engine = zstandard.ZstdDecompressor().decompressobj(write_size=_PIECE_BYTES)
            while not engine.eof:
                try:
                    piece = engine.decompress(data[:_ZSTD_INPUT_BYTES])
                except zstandard.ZstdError as error:
                    raise DamagedStreamError(
                        f"the zstd data is corrupt ({error}): the rest of the log is lost"
                    ) from error
                if piece:
                    yield piece
                data = data[_ZSTD_INPUT_BYTES:]
                if not data and not engine.eof:
                    data = read()
                    if not data:
                        raise DamagedStreamError("the zstd data breaks off: the end of the log is missing")
            data = _skip_padding(engine.unused_data + data, read)

    return inflate


def _pieces(
    read: Read, new_engine: Callable[[], object], errors: tuple[type[Exception], ...], format_name: str
) -> Iterator[bytes]:
    data = read()
    while data:
        engine = cast(_Engine, new_engine())
        while not engine.eof:
            try:
                piece = engine.decompress(data, _PIECE_BYTES)
            except errors as error:
                raise DamagedStreamError(
                    f"the {format_name} data is corrupt ({error}): the rest of the log is lost"
                ) from error
            if piece:
                yield piece
            data = b""
            if not engine.eof and engine.needs_input:
                data = read()
                if not data:
                    raise DamagedStreamError(f"the {format_name} data breaks off: the end of the log is missing")
        data = _skip_padding(engine.unused_data, read)


def _skip_padding(data: bytes, read: Read) -> bytes:
    """What follows one compressed stream, without zero padding; b"" at the end of the input."""
    data = data.lstrip(b"\0")
    while not data:
        data = read()
        if not data:
            return b""
        data = data.lstrip(b"\0")
    return data
