"""The owner changes what lies at a path between our look and our use, thousands of times, as fast as the machine can.

What he would like: root's hands. Root's worker reads a secret into a report that he may read, or writes into a
directory of somebody else.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pwd
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.service.conftest import ended_job
from tests.service.fake_site import FAILED_LOG, FakeSite

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to lose")

JOBS, SWAPS = 60, 2000
SECRET = "ValueError: the-secret-of-somebody-else"


@dataclass(frozen=True)
class Victim:
    """Another user: a directory that he and root may write, and files that he and root may read."""

    directory: Path
    secret: Path

    def content(self) -> dict[str, tuple[bytes, int, int]]:
        found = {path: path.lstat() for path in (self.directory, *self.directory.iterdir())}
        return {
            str(path): (path.read_bytes() if path.is_file() else b"", status.st_mode, status.st_mtime_ns)
            for path, status in found.items()
        }


@pytest.fixture(params=["daemon", "root"])
def victim(request: pytest.FixtureRequest, place: Path) -> Victim:
    directory = place / "victim"
    directory.mkdir(mode=0o755)
    secret = directory / "secret"
    for path in (secret, directory / "triage.json", directory / "TRIAGE.md"):
        path.write_text(f"Traceback (most recent call last):\n{SECRET}\n")
        path.chmod(0o600)
    uid = pwd.getpwnam(request.param).pw_uid
    for path in (*directory.iterdir(), directory):
        os.chown(path, uid, uid)
    return Victim(directory, secret)


@pytest.fixture
def logs(site: FakeSite) -> list[Path]:
    """Logs of jobs in the launcher's layout; beside each, its directory."""
    outputs = site.home / "outputs"
    outputs.mkdir()
    made = [outputs / f"{2000 + number}-JAX-llama2-70b.log" for number in range(JOBS)]
    for log in made:
        log.write_bytes(FAILED_LOG)
        log.with_suffix("").mkdir()
        for path in (log, log.with_suffix("")):
            os.chown(path, site.uid, site.uid)
        site.add(ended_job(site, log.name[:4], name="JAX-llama2-70b", stdout=str(log)), None, event=False)
    os.chown(outputs, site.uid, site.uid)
    return made


def swap_directory(log: Path, victim: Victim) -> None:
    """Now the job's directory, now a link to the victim's; the worker may make one when there is none."""
    directory = log.with_suffix("")
    aside = directory.with_name("aside")
    with contextlib.suppress(OSError):
        directory.rename(aside)
        directory.symlink_to(victim.directory)
        directory.unlink()
    with contextlib.suppress(OSError):
        aside.rename(directory)
    shutil.rmtree(aside, ignore_errors=True)


def swap_log(log: Path, victim: Victim) -> None:
    """Now the job's log, now a link to the victim's secret."""
    aside = log.with_name("aside.log")
    log.rename(aside)
    log.symlink_to(victim.secret)
    log.unlink()
    aside.rename(log)


def swap_report(log: Path, victim: Victim) -> None:
    """Now nothing, now links to the victim's files, now directories where the report goes."""
    for name in ("triage.json", "TRIAGE.md"):
        path = log.with_suffix("") / name
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
            path.symlink_to(victim.directory / name)
            path.unlink()
            path.mkdir()
            path.rmdir()


def swap_snapshots(log: Path, victim: Victim) -> None:
    """Now a directory for what the kernels said, now a link to the victim's."""
    path = log.with_suffix("") / "triage"
    with contextlib.suppress(OSError):
        path.symlink_to(victim.directory)
        path.unlink()
        path.mkdir()
        path.rmdir()


@pytest.mark.parametrize("swap", [swap_directory, swap_log, swap_report, swap_snapshots])
def test_swapped_between_look_and_use(
    site: FakeSite, victim: Victim, logs: list[Path], swap: Callable[[Path, Victim], None]
) -> None:
    before = victim.content()
    turn = itertools.cycle(logs)
    with site.while_owner_does(lambda: swap(next(turn), victim)) as swaps:
        while swaps() < SWAPS:
            # News from a node: each job is reported again.
            for log in logs:
                path = site.event(log.name[:4], "node")
                stamp = (site.table[log.name[:4]].end or 0.0) - 5.0
                message = f"uptime=100\nkernel=[{100 - path.stat().st_mtime + stamp:.1f}] Memory cgroup out of memory"
                path.write_text(path.read_text().replace("end=1\n", f"{message}\nend=1\n"))
            site.work(timeout_s=120.0)
    assert victim.content() == before
    assert sorted(record.job_id for record in site.all_records()) == sorted(site.table)
    assert site.waiting() == []
    for path in (site.home / "outputs").rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert SECRET.encode() not in path.read_bytes()
            assert path.stat().st_uid == site.uid
            if path.name == "triage.json" and path.parent.name != "aside":
                assert json.loads(path.read_bytes())["job"]["id"] == path.parent.name[:4]
    for path in site.settings.ledger.rglob("*.jsonl"):
        assert SECRET.encode() not in path.read_bytes()
