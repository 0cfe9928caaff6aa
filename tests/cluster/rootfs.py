"""Lane "root": a Debian root file system with a newer Slurm, and pyslurm built from the package index.

The root file system is made once, below the cache directory, and reused as long as its recipe is unchanged. The
cluster runs in it inside a mount namespace of its own, so that no mount shows on the host and none is left behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.cluster import apt
from tests.cluster.cluster import Cluster
from tests.cluster.daemons import PATH
from tests.cluster.layout import CACHE, CHECKOUT, root_layout
from tests.cluster.processes import ClusterError

#: Debian suites to try, newest first; build-pyslurm says which versions of Slurm pyslurm can be built against.
SUITES = ("forky",)
PACKAGES = (
    "slurmctld,slurmd,slurmdbd,slurm-client,slurm-wlm-basic-plugins,slurm-wlm-mysql-plugin,munge,mariadb-server,"
    "libslurm-dev,python3,python3-venv,python3-dev,gcc,libc6-dev,procps,iproute2,util-linux,mount,hostname,passwd"
)
INSIDE_CHECKOUT = Path("/srv/checkout")
INSIDE_PYTHON = Path("/srv/venv/bin/python")
HERE = Path(__file__).resolve().parent

#: Runs in a new mount namespace: makes ``$1`` the root, with what daemons need, and stays as the namespace's holder.
ENTER = """\
set -e
root=$1 checkout=$2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount --rbind /sys "$root/sys"
mkdir -p "$root/srv/checkout" "$root/srv/host"
mount --bind "$checkout" "$root/srv/checkout"
mount -o remount,bind,ro "$root/srv/checkout"
cp /etc/resolv.conf "$root/etc/resolv.conf"
printf '127.0.0.1 localhost %s\n' "$(uname -n)" > "$root/etc/hosts"
cd "$root"
pivot_root . srv/host
umount -l /srv/host
: > /run/entered
exec sleep infinity
"""


def cached(suite: str) -> Path:
    """Where the root file system of this recipe lies, whether made or not."""
    recipe = PACKAGES + suite + (HERE / "build-pyslurm").read_text()
    return CACHE / f"{suite}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def find() -> Path | None:
    """The newest root file system that is complete."""
    return next((cached(suite) for suite in SUITES if (cached(suite) / "srv/venv/pyslurm-works").exists()), None)


class RootCluster(Cluster):
    def __init__(self, root: Path | None = None) -> None:
        found = root or find()
        if found is None:
            raise ClusterError(f"no root file system in {CACHE} (python -m tests.cluster --lane root install)")
        super().__init__(root_layout(found))
        self._enter_again()

    @property
    def checkout(self) -> Path:
        return INSIDE_CHECKOUT

    @property
    def python(self) -> list[str]:
        """Command line of the Python that has pyslurm, for a process on the host."""
        return [*self.prefix, str(INSIDE_PYTHON)]

    def _prepare(self) -> None:
        super()._prepare()
        if self.processes.pid("holder") is None:
            argv = ["unshare", "--mount", "--propagation=private", "sh", "-c", ENTER, "sh", str(self.layout.root)]
            (self.dir / "log").mkdir(parents=True, exist_ok=True)
            self.processes.spawn("holder", [*argv, str(CHECKOUT)], {"PATH": PATH}, self.dir / "log/holder.log")
            holder = self.processes.pid("holder")
            self.wait_for("the root file system", Path(f"/proc/{holder}/root/run/entered").exists, 10.0, 0.02)
        self._enter_again()

    def _enter_again(self) -> None:
        holder = self.processes.pid("holder")
        if holder is not None:
            space = f"/proc/{holder}"
            self.prefix = ("nsenter", f"--mount={space}/ns/mnt", f"--root={space}/root", "--wdns=/", "--")

    def down(self) -> None:
        if self.processes.pid("holder"):
            super().down()
            self.processes.stop(["holder"])
            self.prefix = ()

    def wipe(self) -> None:
        self.down()
        shutil.rmtree(self.dir, ignore_errors=True)

    @staticmethod
    def install() -> None:
        """Make the root file system unless it is there. Raises CalledProcessError or ClusterError."""
        if find() is not None:
            return
        if shutil.which("mmdebstrap") is None:
            apt.install("mmdebstrap")
        problems = []
        with _install_lock():
            for suite in SUITES:
                if find() is not None:
                    return
                try:
                    _make(suite)
                    return
                except (ClusterError, subprocess.SubprocessError) as error:
                    problems.append(f"{suite}: {error}")
        raise ClusterError("; ".join(problems))


@contextlib.contextmanager
def _install_lock() -> Iterator[None]:
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "install.lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _make(suite: str) -> None:
    final = cached(suite)
    partial = final.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    command = ["mmdebstrap", "--mode=root", "--variant=apt", "--quiet", f"--include={PACKAGES}"]
    command.append("--keyring=/usr/share/keyrings/debian-archive-keyring.gpg")
    for option in (
        'Acquire::Check-Valid-Until "false"',
        'APT::Install-Recommends "false"',
        'Acquire::Languages "none"',
    ):
        command.append(f"--aptopt={option}")
    for option in ("force-unsafe-io", "path-exclude=/usr/share/doc/*", "path-exclude=/usr/share/locale/*"):
        command.append(f"--dpkgopt={option}")
    subprocess.run([*command, suite, str(partial), _mirror()], check=True, stdin=subprocess.DEVNULL, timeout=900)
    certificates = partial / "etc/ssl/certs/ca-certificates.crt"
    certificates.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy("/etc/ssl/certs/ca-certificates.crt", certificates)
    builder = RootCluster(partial)
    builder._prepare()
    try:
        environment = {
            k: v for k, v in os.environ.items() if k in {"PIP_INDEX_URL", "PIP_PROXY"} or k.endswith("_proxy")
        }
        environment["PIP_CERT"] = "/etc/ssl/certs/ca-certificates.crt"
        builder.run(["sh", f"{INSIDE_CHECKOUT}/tests/cluster/build-pyslurm"], env=environment, timeout_s=900)
    finally:
        builder.wipe()
    partial.rename(final)
    for other in CACHE.iterdir():
        if other.is_dir() and other.name.startswith(suite) and other != final:
            shutil.rmtree(other, ignore_errors=True)


def _mirror() -> str:
    """The Debian mirror that this machine uses."""
    sources = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    for path in sources:
        found = re.search(
            r"^(?:deb|URIs:)\s.*?(https?://\S+/debian)/?(?:\s|$)", path.read_text() if path.is_file() else "", re.M
        )
        if found:
            return found[1]
    raise ClusterError("no Debian mirror in /etc/apt/sources.list or /etc/apt/sources.list.d")
