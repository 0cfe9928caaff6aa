"""The hooks in files of their own, run by every shell that is some system's /bin/sh."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_triage.service.batch_file import Batch, parse_file
from slurm_triage.service.spool_event import CutOffError, Event
from tests.bench.hooks import JOBCOMP_ENV

#: What /bin/sh is on Debian; on Alpine and in initramfs images; on the Red Hat family and SUSE.
SHELLS = ("dash", "busybox", "bash", *filter(shutil.which, ("ksh", "mksh")))

HOSTILE = "a|b;$(touch pwned)`touch pwned`\n\"c\" 'd' \\e é%s%j\t\x1b[31m *"
CONTROLLER = {
    "SLURM_JOB_ID": "7877",
    "SLURM_JOB_NAME": HOSTILE,
    "SLURM_JOB_USER": "alice",
    "SLURM_JOB_UID": "2001",
    "SLURM_JOB_COMMENT": "x" * 9000,
    "SLURM_JOB_WORK_DIR": "/home/alice/$(touch pwned)/ü",
    "SLURM_JOB_STDOUT": "-n %x\\n-%j.out",
    "SLURM_JOB_NODELIST": "chi[2801-2816]",
    "SLURM_JOB_EXIT_CODE2": "137:0",
}
NODE = {**CONTROLLER, "SLURMD_NODENAME": "chi2801", "SLURM_SCRIPT_CONTEXT": "epilog_slurmd"}
JOBCOMP = {**JOBCOMP_ENV, "JOBNAME": HOSTILE}

EVERY_HOOK = ("prolog-slurmctld", "epilog-slurmctld", "jobcomp", "mail", "task-epilog", "50-slurm-triage")


def events_in(spool: Path) -> list[Event]:
    """Of all files, in the order of their names and places."""
    return [event for path in sorted((spool / "new").iterdir()) for event in _whole(path).events]


def _whole(path: Path) -> Batch:
    """A file is written where it is read; its writer has a second for that."""
    until = time.monotonic() + 1.0
    while True:
        try:
            return parse_file(path.read_bytes(), path.stat().st_mtime)
        except CutOffError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


@dataclass(frozen=True)
class Hooks:
    """Hooks in ``directory``, all of them run by ``shell``."""

    directory: Path
    shell: Path

    def command(self, name: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Slurm runs hooks in a process group of their own, and kills that afterwards."""
        return subprocess.Popen(
            [self.shell, self.directory / name],
            env=env,
            cwd=self.directory / "cwd",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def run(self, name: str, env: Mapping[str, str]) -> None:
        """Whatever is broken: status 0, and not a word."""
        process = self.command(name, env)
        output, _ = process.communicate(timeout=20)
        assert (process.returncode, output) == (0, b"")
        assert list((self.directory / "cwd").iterdir()) == []

    def events(self) -> list[Event]:
        return events_in(self.directory / "spool")

    def carried(self) -> list[Event]:
        """All events. A node's come when the hook is over already."""
        until = time.monotonic() + 30.0
        while any((self.directory / "queue").glob("*/*.*")):
            assert time.monotonic() < until, "events stay in the queue"
            time.sleep(0.02)
        return self.events()

    def event(self, kind: str) -> Event:
        """The only event of its kind."""
        (event,) = [event for event in self.carried() if event.kind == kind]
        return event

    def configure(self, line: str) -> None:
        with open(self.directory / "hook.conf", "a") as conf:
            conf.write(line + "\n")

    def replace(self, name: str, old: str, new: str) -> None:
        path = self.directory / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def kernel_says(self, text: str) -> None:
        (self.directory / "kernel").write_bytes(text.encode("latin-1"))

    def run_with_pipe(self, name: str) -> tuple[float, float]:
        """Seconds until the hook is over, and from then on until nobody holds a descriptor that it inherited."""
        read, write = os.pipe()
        started = time.monotonic()
        process = subprocess.Popen(
            [self.shell, self.directory / name],
            env=NODE,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=write,
            stderr=write,
            close_fds=False,
            preexec_fn=lambda: os.dup2(write, 9) and None,
        )
        os.close(write)
        assert process.wait(20.0) == 0
        over = time.monotonic()
        with os.fdopen(read, "rb") as pipe:
            assert pipe.read() == b""
        return over - started, time.monotonic() - over
