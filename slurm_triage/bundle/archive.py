"""A directory as one archive that is the same, byte for byte, whenever and by whomever it is made."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import tarfile
from pathlib import Path
from typing import BinaryIO, cast

from slurm_triage.errors import TriageError, UsageError

SUFFIXES = (".tar.gz", ".tgz", ".tar.zst")


def check_name(path: Path) -> None:
    """Raises UsageError for a name that asks for another format."""
    if not path.name.endswith(SUFFIXES):
        raise UsageError(f"{path} is no archive that can be written: choose a name ending in {', '.join(SUFFIXES)}")


def write_archive(tree: Path, output: Path) -> None:
    """Packs ``tree`` under its own name, in order of names, owned by nobody in particular. The times of the files are
    kept, in whole seconds. ``output`` is replaced in one step. Raises TriageError, UsageError."""
    check_name(output)
    temporary = output.with_name(f".{output.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as raw:
            if output.name.endswith(".zst"):
                raw.write(_zstd(_tar_bytes(tree)))
            else:
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
                    _write_tar(tree, cast(BinaryIO, packed))
        temporary.replace(output)
    except OSError as error:
        raise TriageError(f"cannot write {output} ({error.strerror}); choose another file with -o") from error
    finally:
        # In a directory that may not be read there is nothing to remove, and the error above says so.
        with contextlib.suppress(OSError):
            temporary.unlink()


def _zstd(data: bytes) -> bytes:
    try:
        import zstandard
    except ImportError as error:
        raise UsageError("this installation cannot write .zst (pip install zstandard); choose .tar.gz") from error
    packed: bytes = zstandard.ZstdCompressor(level=10).compress(data)
    return packed


def _tar_bytes(tree: Path) -> bytes:
    buffer = io.BytesIO()
    _write_tar(tree, buffer)
    return buffer.getvalue()


def _write_tar(tree: Path, out: BinaryIO) -> None:
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in (tree, *sorted(tree.rglob("*"))):
            entry = archive.gettarinfo(str(path), arcname=str(Path(tree.name) / path.relative_to(tree)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mode = 0o755 if path.is_dir() else 0o644
            entry.mtime = int(entry.mtime)
            if path.is_dir():
                archive.addfile(entry)
            else:
                with path.open("rb") as file:
                    archive.addfile(entry, file)
