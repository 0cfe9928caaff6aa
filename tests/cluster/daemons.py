"""A real one-machine Slurm cluster: munge, MariaDB, slurmdbd, slurmctld and six nodes, without systemd.

Needs root. Everything listens on the loopback interface only. ``up`` and ``down`` may be called at any time and twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from tests.cluster import cgroups, config, users
from tests.cluster.cgroups import MemoryCgroup
from tests.cluster.layout import ACCOUNT, CHECKOUT, CLUSTER_NAME, USERS, Layout
from tests.cluster.processes import ClusterError, Processes

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Daemons:
    """The daemons and nodes of one cluster, and commands that run in it.

    ``prefix`` is put before every command that must run in the cluster's file system.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.dir = layout.outside
        self.processes = Processes(self.dir / "pids")
        self.prefix: tuple[str, ...] = ()
        self.env = {
            "PATH": PATH,
            "LANG": "C.UTF-8",
            "HOME": "/root",
            "SLURM_CONF": str(layout.slurm_conf),
        }

    # ---- commands -------------------------------------------------------------------------------------------------

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        cwd: str | Path = "/",
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout_s: float = 60.0,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside the cluster's file system as ``user``, with a clean environment.

        ``cwd`` is a path as the cluster sees it. Raises ClusterError with the command's own words if it fails.
        """
        command = [*self.prefix, "env", f"--chdir={cwd}"]
        variables = {**self.env, **(env or {})}
        if user != "root":
            uid = str(self.uid(user))
            command += ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
            variables.update(HOME=str(self.home(user)), USER=user, LOGNAME=user)
            variables.update(env or {})
        result = subprocess.run(
            [*command, *argv],
            input=stdin,
            env=variables,
            text=True,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        if check and result.returncode:
            raise ClusterError(f"{' '.join(argv)} ended with {result.returncode}: {result.stderr or result.stdout}")
        return result

    def output(self, *argv: str, timeout_s: float = 60.0) -> str:
        return self.run(argv, timeout_s=timeout_s).stdout

    def succeeds(self, *argv: str) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.run(argv, check=False, timeout_s=10.0).returncode == 0
        return False

    def scontrol(self, *args: str) -> str:
        return self.output("scontrol", *args)

    def sacct(self, *args: str) -> str:
        return self.output("sacct", *args)

    @property
    def version(self) -> str:
        """``22.05.8``"""
        return self.output("sacct", "--version").split()[-1]

    @property
    def release(self) -> tuple[int, int]:
        """``(22, 5)``"""
        major, minor, *_ = self.version.split(".")
        return int(major), int(minor)

    # ---- users and files ------------------------------------------------------------------------------------------

    def home(self, user: str) -> Path:
        """The user's home directory as the cluster sees it."""
        return self.layout.inside / "home" / user

    def path(self, inside: str | Path) -> Path:
        """A file of the cluster as this process sees it."""
        return self.layout.seen_from_host(inside)

    def uid(self, user: str) -> int:
        for line in self.path("/etc/passwd").read_text().splitlines():
            fields = line.split(":")
            if fields[0] == user:
                return int(fields[2])
        raise ClusterError(f"the cluster has no user {user}")

    def workdir(self, user: str, name: str) -> Path:
        """A new directory of the user, as the cluster sees it. The name gets a suffix that makes it unique."""
        directory = self.home(user) / f"{name}-{time.time_ns()}"
        outside = self.path(directory)
        outside.mkdir(parents=True)
        os.chown(outside, self.uid(user), self.uid(user))
        return directory

    # ---- up and down ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def lock(self, *, wait: bool = True) -> Iterator[None]:
        """Held while the cluster is changed or used, so that two test runs on one machine take turns. Raises
        BlockingIOError if it is held by another one and ``wait`` is not wanted."""
        self.dir.parent.mkdir(parents=True, exist_ok=True)
        with open(self.dir.with_suffix(".lock"), "w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            yield

    def up(self) -> None:
        """Start what is not running; return when every node is idle."""
        self._prepare()
        self._configure()
        self._munge_up()
        self._database_up()
        self.dbd_up()
        self.ctld_up()
        for node in self.layout.nodes:
            self.restore(node)
        self.wait_for("all nodes idle", self.all_idle, 30.0)

    @property
    def running(self) -> bool:
        daemons = ("munged", "mariadb", "slurmdbd", "slurmctld", *(f"node-{node}" for node in self.layout.nodes))
        return all(self.processes.pid(name) for name in daemons)

    def down(self) -> None:
        for node in self.layout.nodes:
            self.crash(node)
        self.processes.stop(["slurmctld"])
        self.processes.stop(["slurmdbd"])
        self.processes.stop(["mariadb", "munged"])

    def wipe(self) -> None:
        """Stop, and remove the cluster's state and the users that ``up`` made."""
        self.down()
        users.remove(self)
        shutil.rmtree(self.dir, ignore_errors=True)

    def _prepare(self) -> None:
        """Lane "root" enters its file system here."""
        if os.geteuid() != 0:
            raise ClusterError("the test cluster needs root")

    def _configure(self, extra: Sequence[str] = ()) -> None:
        inside, outside = self.layout.inside, self.dir
        for name in ("etc", "log", "run", "pids", "state", "db", "spool", "hooks/epilog.d", "munge", "cgroup", "home"):
            (outside / name).mkdir(parents=True, exist_ok=True)
            (outside / name).chmod(0o755)
        users.make(self)
        self.run(["chown", "slurm:", f"{inside}/state", f"{inside}/log", f"{inside}/run"])
        self.run(["chown", "munge:", f"{inside}/munge"])
        self.run(["chown", "mysql:", f"{inside}/db"])
        hostname = socket.gethostname().partition(".")[0]
        memory = self.memory_cgroup
        cgroup_version = memory.version if memory else None
        etc = outside / "etc"
        config.write_file(
            etc / "slurm.conf",
            config.slurm_conf(self.layout, hostname, memory_cgroup=memory is not None, extra=extra),
        )
        config.write_file(etc / "cgroup.conf", config.cgroup_conf(self.layout, cgroup_version))
        config.write_file(etc / "hosts", config.hosts(self.layout, hostname))
        config.write_file(etc / "gres.conf", config.gres_conf(self.layout))
        for name in ("plugstack.conf", *(f"gpu{n}" for n in range(config.GPUS_PER_NODE))):
            (etc / name).touch()
        if config.write_file(etc / "slurmdbd.conf", config.slurmdbd_conf(self.layout, hostname), 0o600):
            self.run(["chown", "slurm:", f"{inside}/etc/slurmdbd.conf"])
        for name in config.HOOKS:
            if not (outside / "hooks" / name).exists():
                config.write_file(outside / "hooks" / name, config.NO_OP, 0o755)
        config.write_file(outside / "hooks/epilog.d/00-site", config.NO_OP, 0o755)

    @cached_property
    def memory_cgroup(self) -> MemoryCgroup | None:
        return cgroups.find()

    def _munge_up(self) -> None:
        if self.processes.pid("munged"):
            return
        inside, key = self.layout.inside, self.dir / "munge/munge.key"
        if not key.exists():
            key.write_bytes(os.urandom(1024))
            key.chmod(0o400)
            self.run(["chown", "munge:", f"{inside}/munge/munge.key"])
        munged = ["munged", "--foreground", "--num-threads=4", f"--key-file={inside}/munge/munge.key"]
        munged += [f"--socket={self.layout.munge_socket}", f"--pid-file={inside}/munge/munged.munge"]
        munged += [f"--log-file={inside}/munge/munged.log", f"--seed-file={inside}/munge/munged.seed", "--force"]
        self._spawn("munged", ["setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", *munged])
        self.wait_for("munged", lambda: self.succeeds("munge", "-n", "-S", str(self.layout.munge_socket)), 10.0)

    def _database_up(self) -> None:
        if self.processes.pid("mariadb"):
            return
        database = self.layout.inside / "db"
        client = ["--no-defaults", f"--socket={database}/mysqld.sock"]
        common = ["--no-defaults", f"--datadir={database}", f"--tmpdir={database}", "--user=mysql"]
        # "loose": versions that do not know the option ignore it. Not every kernel has 8 TiB of addresses to reserve.
        common += ["--innodb-buffer-pool-size=64M", "--loose-innodb-buffer-pool-size-max=64M"]
        if not (self.dir / "db/mysql").is_dir():
            self.run(
                ["mariadb-install-db", *common, "--skip-test-db", "--auth-root-authentication-method=socket"],
                timeout_s=120.0,
            )
        daemon = ["mariadbd", *common, "--bind-address=127.0.0.1", f"--port={self.layout.database_port}"]
        daemon += [f"--socket={database}/mysqld.sock", f"--pid-file={database}/mariadb.mysql", "--skip-log-bin"]
        daemon += ["--innodb-lock-wait-timeout=900", "--performance-schema=OFF", "--innodb-flush-log-at-trx-commit=0"]
        # Slurm's transactions are not written for snapshot isolation, which newer servers switch on.
        daemon.append("--loose-innodb-snapshot-isolation=OFF")
        self._spawn("mariadb", daemon)
        self.wait_for("MariaDB", lambda: self.succeeds("mariadb-admin", *client, "ping"), 30.0)
        statements = "create database if not exists slurm_acct_db;"
        for host in ("127.0.0.1", "localhost"):
            statements += f"create user if not exists slurm@'{host}' identified by '{config.DATABASE_PASSWORD}';"
            statements += f"grant all on slurm_acct_db.* to slurm@'{host}';"
        self.run(["mariadb", *client, "-e", statements])

    def dbd_up(self) -> None:
        if self.processes.pid("slurmdbd"):
            return
        self._spawn("slurmdbd", ["slurmdbd", "-D"])
        self.wait_for("slurmdbd", lambda: self.succeeds("sacctmgr", "-n", "show", "cluster"), 60.0)
        if CLUSTER_NAME not in self.output("sacctmgr", "-nP", "show", "cluster", "format=cluster").split():
            self.output("sacctmgr", "-iQ", "add", "cluster", CLUSTER_NAME)
            self.output("sacctmgr", "-iQ", "add", "account", ACCOUNT, "Description=test", "Organization=test")
            self.output("sacctmgr", "-iQ", "add", "user", ",".join([*USERS, "root"]), f"account={ACCOUNT}")

    def dbd_down(self) -> None:
        self.processes.stop(["slurmdbd"])

    def ctld_up(self) -> None:
        if not self.processes.pid("slurmctld"):
            self._spawn("slurmctld", ["slurmctld", "-D"])
        self.wait_for("slurmctld", lambda: self.succeeds("scontrol", "ping"), 30.0)

    def ctld_down(self) -> None:
        self.processes.stop(["slurmctld"])

    def ctld_restart(self) -> None:
        self.ctld_down()
        self.ctld_up()

    def reconfigure(self, *extra: str) -> None:
        """New settings in slurm.conf (``Key=value``; an empty value removes). Restarts slurmctld, because some settings
        are read only at its start, and tells the nodes."""
        self._configure(extra)
        self.ctld_restart()
        self.scontrol("reconfigure")

    def _spawn(self, name: str, argv: Sequence[str]) -> None:
        self.processes.spawn(name, [*self.prefix, *argv], self.env, self.dir / f"log/{name}.log")

    def wait_for(self, what: str, condition: Callable[[], bool], timeout_s: float, every_s: float = 0.1) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise ClusterError(f"waited {timeout_s:.0f} s in vain for: {what}; logs are in {self.dir / 'log'}")
            time.sleep(every_s)

    # ---- nodes ----------------------------------------------------------------------------------------------------

    def node_states(self) -> dict[str, str]:
        """``{"node01": "idle"}``; a suffix such as ``*`` (not responding) is kept."""
        rows = self.output("sinfo", "-h", "-N", "-p", "debug", "-o", "%N %T").splitlines()
        return dict(row.split() for row in rows)

    def all_idle(self) -> bool:
        return set(self.node_states().values()) == {"idle"}

    def drained(self) -> dict[str, str]:
        """Nodes that Slurm has drained, with the reason."""
        rows = self.output("sinfo", "-h", "-N", "-p", "debug", "-o", "%N|%T|%E").splitlines()
        fields = (row.split("|", 2) for row in rows)
        return {node: reason for node, state, reason in fields if "drain" in state}

    def crash(self, node: str) -> None:
        """The node is gone at once, with slurmd, slurmstepd and every process of its jobs."""
        self.processes.stop([f"node-{node}"], signal.SIGKILL)
        cgroup = self._node_cgroup(node)
        if cgroup is not None and cgroup.exists():
            for directory, _, _ in os.walk(cgroup, topdown=False):
                with contextlib.suppress(OSError):  # a process of the node is still being torn down; reused at restore
                    Path(directory).rmdir()

    def restore(self, node: str) -> None:
        """Start the node (again). Returns at once; slurmctld needs a moment to see it."""
        if self.processes.pid(f"node-{node}"):
            return
        (self.dir / "spool" / node).mkdir(exist_ok=True)
        cgroup = self._node_cgroup(node)
        init = self.checkout / "tests/cluster/node-init"
        argv = [str(init), node, str(self.layout.inside), str(self.layout.slurm_conf)]
        if cgroup is not None and self.memory_cgroup is not None:
            argv += [str(cgroup), str(self.memory_cgroup.version)]
        self._spawn(f"node-{node}", argv)

    def slurmd_down(self, node: str) -> None:
        """slurmd is killed, alone: the node's jobs go on."""
        self.on_node(node, "pkill", "-KILL", "-x", "slurmd")

    def slurmd_up(self, node: str) -> None:
        """slurmd again, on a node where it was killed."""
        self.on_node(node, "slurmd", "-N", node, "-L", f"{self.layout.inside}/log/slurmd-{node}.log")

    def on_node(self, node: str, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command as root within the node: its hostname, processes and mounts."""
        init = self.processes.pid(f"node-{node}")
        children = Path(f"/proc/{init}/task/{init}/children").read_text().split() if init else []
        if not children:
            raise ClusterError(f"{node} does not run")
        space = f"/proc/{children[0]}"
        enter = ["nsenter", f"--mount={space}/ns/mnt", f"--uts={space}/ns/uts", f"--pid={space}/ns/pid"]
        result = subprocess.run(
            [*enter, f"--root={space}/root", "--wdns=/", "--", *argv],
            env=self.env,
            text=True,
            capture_output=True,
            timeout=60.0,
            check=False,
        )
        if check and result.returncode:
            raise ClusterError(f"{' '.join(argv)} on {node} ended with {result.returncode}: {result.stderr}")
        return result

    def resume(self, node: str) -> None:
        """Take the node back into service after it was drained or set down."""
        self.run(["scontrol", "update", f"nodename={node}", "state=resume"], check=False)

    @property
    def checkout(self) -> Path:
        """The checkout as the cluster sees it."""
        return CHECKOUT

    def _node_cgroup(self, node: str) -> Path | None:
        memory = self.memory_cgroup
        return memory.base / f"slurm-triage-{self.layout.lane}-{node}" if memory else None
