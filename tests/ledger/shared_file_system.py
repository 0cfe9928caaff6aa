"""A network file system (MooseFS) with two hosts that mount it: each with its own network, process ids, host name and
client, so that nothing but the file system is common to them.

Needs root, /dev/fuse, and Debian's moosefs-master, moosefs-chunkserver and moosefs-client.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

CHECKOUT = Path(__file__).resolve().parents[2]
PROGRAMS = ("mfsmaster", "mfschunkserver", "mfsmount", "ip", "unshare", "nsenter")
_EMPTY = Path("/var/lib/mfs/metadata.mfs.empty")
_SERVER = "10.231.77.1"
HOSTS = ("host-a", "host-b")


def missing() -> str | None:
    """Why there can be none here."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if os.geteuid() != 0:
        return "needs root"
    if absent or not _EMPTY.exists():
        return f"needs Debian's moosefs-master, moosefs-chunkserver, moosefs-client ({', '.join(absent) or _EMPTY})"
    return None if Path("/dev/fuse").exists() else "needs /dev/fuse"


class Host:
    """``mount`` is where the file system lies for programs that run here."""

    def __init__(self, init: int, mount: Path) -> None:
        self._enter = ["nsenter", f"--target={init}", "--mount", "--uts", "--net", "--pid"]
        self.mount = mount

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """A module of the tests, with pipes."""
        env = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
        return subprocess.Popen(
            [*self._enter, sys.executable, "-m", *argv],
            env=env, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, *argv: str, timeout_s: float = 120.0) -> subprocess.CompletedProcess[str]:
        with self.start(*argv) as process:
            out, err = process.communicate(timeout=timeout_s)
        return subprocess.CompletedProcess(argv, process.returncode, out, err)


@contextlib.contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    with tempfile.TemporaryDirectory(prefix="ledger-mfs-") as directory, contextlib.ExitStack() as stack:
        base = Path(directory)
        server = _namespace(stack, base, "server")
        _run(server, "ip", "link", "add", "br0", "type", "bridge")
        _run(server, "ip", "addr", "add", f"{_SERVER}/24", "dev", "br0")
        _run(server, "ip", "link", "set", "br0", "up")
        _serve(stack, base, server)
        hosts = []
        for number, host in enumerate(HOSTS, 2):
            init = _namespace(stack, base, host)
            _run(server, "ip", "link", "add", f"to-{host}", "type", "veth", "peer", "name", "eth0", "netns", str(init))
            _run(server, "ip", "link", "set", f"to-{host}", "master", "br0", "up")
            _run(init, "ip", "addr", "add", f"{_SERVER[:-1]}{number}/24", "dev", "eth0")
            _run(init, "ip", "link", "set", "eth0", "up")
            mount = base / f"mnt-{host}"
            mount.mkdir()
            client = _daemon(stack, base, init, "mfsmount", str(mount), "-H", _SERVER, "-P", "9421", "-f")
            _until(lambda init=init, mount=mount: _mounted(init, mount), client, "the client mounts")  # type: ignore[misc]
            hosts.append(Host(init, mount))
        for each in hosts:
            ready = each.run("tests.ledger.on_host", "writable", str(each.mount))
            assert ready.returncode == 0, ready.stderr
        yield hosts[0], hosts[1]


def _namespace(stack: contextlib.ExitStack, base: Path, name: str) -> int:
    """The first process of a host of that name; its end is the host's end."""
    ready = base / f"{name}.ready"
    script = f'mount --make-rprivate / && hostname "{name}" && ip link set lo up && : >"{ready}" && exec sleep 100000'
    # unshare stays in front; its child is process 1 in there.
    front = subprocess.Popen(
        ["unshare", "--mount", "--uts", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script],
        stdin=subprocess.DEVNULL,
    )
    stack.callback(front.wait)
    stack.callback(front.kill)
    _until(ready.exists, front, f"host {name}")
    return int(Path(f"/proc/{front.pid}/task/{front.pid}/children").read_text().split()[0])


def _serve(stack: contextlib.ExitStack, base: Path, server: int) -> None:
    for part in ("master", "chunks", "disk"):
        (base / part).mkdir()
    shutil.copy(_EMPTY, base / "master" / "metadata.mfs")
    own = "WORKING_USER = root\nWORKING_GROUP = root\n"
    (base / "exports").write_text("* / rw,alldirs,maproot=0\n")
    (base / "master.cfg").write_text(f"{own}DATA_PATH = {base}/master\nEXPORTS_FILENAME = {base}/exports\n")
    (base / "hdd").write_text(f"{base}/disk\n")
    (base / "chunks.cfg").write_text(
        f"{own}DATA_PATH = {base}/chunks\nHDD_CONF_FILENAME = {base}/hdd\nMASTER_HOST = {_SERVER}\n"
        "HDD_LEAVE_SPACE_DEFAULT = 64MiB\n"
    )
    for program, config, ready in (
        ("mfsmaster", "master.cfg", b"main master server module: listen"),
        ("mfschunkserver", "chunks.cfg", b"daemon initialized properly"),
    ):
        process = _daemon(stack, base, server, program, "-f", "-c", str(base / config), "start")
        log = base / f"{program}-{server}.log"
        _until(lambda log=log, ready=ready: ready in log.read_bytes(), process, program)  # type: ignore[misc]


def _daemon(stack: contextlib.ExitStack, base: Path, init: int, *argv: str) -> subprocess.Popen[bytes]:
    log: IO[bytes] = stack.enter_context((base / f"{argv[0]}-{init}.log").open("wb"))
    enter = ["nsenter", f"--target={init}", "--mount", "--uts", "--net", "--pid"]
    process = subprocess.Popen([*enter, *argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


def _run(init: int, *argv: str) -> None:
    subprocess.run(["nsenter", f"--target={init}", "--net", *argv], check=True, timeout=30)


def _mounted(init: int, mount: Path) -> bool:
    return any(line.split()[1] == str(mount) for line in Path(f"/proc/{init}/mounts").read_text().splitlines())


def _until(condition: object, process: subprocess.Popen[bytes] | None, what: str, patience_s: float = 60.0) -> None:
    until = time.monotonic() + patience_s
    while not condition():  # type: ignore[operator]
        if time.monotonic() > until or (process is not None and process.poll() is not None):
            raise AssertionError(f"waited in vain for: {what}")
        time.sleep(0.2)


def together(processes: Sequence[subprocess.Popen[str]], timeout_s: float) -> list[str]:
    """What each printed, once all have ended well."""
    outputs = []
    for process in processes:
        out, err = process.communicate(timeout=timeout_s)
        assert process.returncode == 0, err
        outputs.append(out)
    return outputs
