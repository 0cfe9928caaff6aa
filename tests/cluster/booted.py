"""A real systemd, booted beside the test cluster: shows that our units work where they are meant to."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.cluster.processes import ClusterError

SYSTEMD = Path("/lib/systemd/systemd")
BOOT = Path(__file__).with_name("boot-systemd")


def missing() -> str | None:
    """Why no systemd can be booted on this machine; None if it can."""
    if os.geteuid() != 0:
        return "booting a systemd needs root"
    if not SYSTEMD.exists():
        return "systemd is not installed (python -m tests.cluster install)"
    known = Path("/proc/filesystems").read_text().split()
    lacking = [name for name in ("overlay", "cgroup2") if name not in known]
    return f"this kernel has no {' and no '.join(lacking)}" if lacking else None


class Booted:
    """``directory``: empty, nothing is left in it afterwards. ``shared``: directories of the host that are the same
    ones inside; everything else that is written inside is gone afterwards."""

    def __init__(self, directory: Path, shared: Sequence[Path]) -> None:
        directory.mkdir(parents=True)
        argv = ["unshare", "--mount", "--propagation=private", "--uts", "--ipc", str(BOOT), str(directory)]
        self._directory = directory
        with open(directory.with_suffix(".log"), "wb") as log:
            self._process = subprocess.Popen(
                [*argv, *map(str, shared)], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        try:
            self.wait_for("systemd", lambda: self._init is not None and self._state in ("running", "degraded"), 30.0)
        except ClusterError:
            self.stop()
            raise

    @property
    def _init(self) -> int | None:
        """Process 1 of the machine, once it has become systemd."""
        if self._process.poll() is not None:
            log = self._directory.with_suffix(".log").read_text(errors="replace").strip()
            raise ClusterError(f"systemd did not boot: {log or self._process.returncode}")
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if not children or Path(f"/proc/{children[0]}/exe").resolve() != SYSTEMD.resolve():
            return None
        return int(children[0])

    @property
    def _state(self) -> str:
        return self.run("systemctl", "is-system-running", check=False).stdout.strip()

    def run(
        self, *argv: str, check: bool = True, timeout_s: float = 120.0, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as root inside. Raises ClusterError with its own words if it fails."""
        enter = ["nsenter", f"--target={self._init}", "-m", "-u", "-i", "-p", "-C", "--root", "--wdns=/"]
        variables = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", **env}
        result = subprocess.run(
            [*enter, "--", *argv], env=variables, text=True, capture_output=True, timeout=timeout_s, check=False
        )
        if check and result.returncode:
            raise ClusterError(f"{' '.join(argv)} ended with {result.returncode}: {result.stdout}{result.stderr}")
        return result

    def drop_in(self, unit: str, text: str) -> None:
        """Settings on top of a unit's own."""
        place = f"/run/systemd/system/{unit}.d"
        self.run("sh", "-c", 'mkdir -p "$1" && printf %s "$2" >"$1/test.conf"', "sh", place, text)
        self.run("systemctl", "daemon-reload")

    def show(self, unit: str, name: str) -> str:
        """A property of a unit, as ``systemctl show`` prints it."""
        return self.run("systemctl", "show", unit, "--property", name, "--value").stdout.strip()

    def journal(self, unit: str) -> str:
        return self.run("journalctl", "--no-pager", "-o", "cat", "-u", unit).stdout

    def wait_for(self, what: str, condition: Callable[[], bool], timeout_s: float) -> None:
        until = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > until:
                raise ClusterError(f"waited {timeout_s:.0f} s in vain for: {what}")
            time.sleep(0.1)

    def stop(self) -> None:
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()
        # The kernel may still be tearing down the last processes.
        until = time.monotonic() + 5.0
        while (left := [path for path in self._cgroups() if path.exists()]) and time.monotonic() < until:
            for path, _, _ in (entry for top in left for entry in os.walk(top, topdown=False)):
                with contextlib.suppress(OSError):
                    Path(path).rmdir()
            time.sleep(0.05)
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.with_suffix(".log").unlink(missing_ok=True)

    def _cgroups(self) -> list[Path]:
        """What boot-systemd made for us, in every place where the host shows its version 2 groups."""
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
        own = Path("/proc/self/cgroup").read_text().rpartition("0::/")[2].strip()
        name = f"slurm-triage-test-{self._process.pid}"
        return [Path(mount[1]) / own / name for mount in mounts if mount[2] == "cgroup2"]
