"""File systems that are really full, over quota, or read-only. Root alone may mount them; others skip these tests."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Disk:
    """``break_it`` and ``repair``: the trouble that it can have."""

    path: Path
    break_it: Callable[[], None]
    repair: Callable[[], None]


@contextmanager
def mounted(path: Path, *options: str) -> Iterator[None]:
    result = subprocess.run(["mount", *options, path], capture_output=True, text=True, check=False)
    if result.returncode:
        pytest.skip(f"cannot be mounted here: {result.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


@contextmanager
def full_disk(path: Path, size: str = "1m") -> Iterator[Disk]:
    """A small tmpfs over ``path``, filled to the last byte."""
    filler = path / "filler"

    def fill() -> None:
        try:
            with open(filler, "wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise

    with mounted(path, "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs"):
        yield Disk(path, fill, filler.unlink)


@contextmanager
def read_only(path: Path) -> Iterator[Disk]:
    """``path`` bound upon itself, read-only on demand."""

    def remount(mode: str) -> None:
        subprocess.run(["mount", "-o", f"remount,bind,{mode}", path], check=True)

    with mounted(path, "--bind", str(path)):
        yield Disk(path, lambda: remount("ro"), lambda: remount("rw"))


@contextmanager
def over_quota(path: Path, uid: int) -> Iterator[Disk]:
    """btrfs, whose quota needs neither tools of its own nor an option of the kernel; the file lies beside ``path``."""
    image = path.with_suffix(".btrfs")
    with open(image, "wb") as file:
        file.truncate(128 << 20)
    try:
        subprocess.run(["mkfs.btrfs", "-q", image], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("mkfs.btrfs is missing (package btrfs-progs)")

    def limit(size: str) -> None:
        os.sync()
        subprocess.run(["btrfs", "qgroup", "limit", size, path], check=True, capture_output=True)

    def use_up() -> None:
        limit("128k")
        pid = os.fork()
        if pid == 0:
            os.setresuid(uid, uid, uid)
            with open(path / "filler", "wb", buffering=0) as file:
                try:
                    for _ in range(100):
                        file.write(bytes(4096))
                        os.fsync(file.fileno())
                except OSError as error:
                    os._exit(0 if error.strerror == "Disk quota exceeded" else 1)
            os._exit(2)
        assert os.waitpid(pid, 0)[1] == 0

    with mounted(path, "-o", "loop", str(image)):
        subprocess.run(["btrfs", "quota", "enable", path], check=True, capture_output=True)
        yield Disk(path, use_up, lambda: limit("none"))
