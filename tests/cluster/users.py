"""The users who submit. The clusters of one machine share them: the first makes them, the last one in use removes them."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.layout import USER_COMMENT, USERS

if TYPE_CHECKING:
    from tests.cluster.daemons import Daemons


def make(cluster: Daemons) -> None:
    """Users, and their homes in this cluster."""
    with _turn(cluster.dir.parent):
        for user, uid in USERS.items():
            home = cluster.home(user)
            if cluster.run(["id", user], check=False).returncode:
                argv = ["useradd", "-M", "-d", str(home), "-u", str(uid), "-c", USER_COMMENT, "-s", "/bin/sh", user]
                cluster.run(argv)
    for user in USERS:
        directory = cluster.path(cluster.home(user))
        directory.mkdir(parents=True, exist_ok=True)
        os.chown(directory, cluster.uid(user), cluster.uid(user))


def remove(cluster: Daemons) -> None:
    """Unless another cluster beside this one needs them. The caller holds this cluster's lock, or is alone."""
    with _turn(cluster.dir.parent):
        if any(_is_held(lock) for lock in cluster.dir.parent.glob("*.lock") if lock.stem != cluster.dir.name):
            return
        for user in USERS:
            entry = cluster.run(["getent", "passwd", user], check=False).stdout
            if USER_COMMENT in entry:
                # The kernel may still be tearing down the nodes' last processes.
                cluster.wait_for(f"user {user} gone", lambda user=user: cluster.succeeds("userdel", user), 10.0)


@contextlib.contextmanager
def _turn(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _is_held(lock: Path) -> bool:
    with open(lock, "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
