"""Real database servers on the loopback interface, run by an unprivileged user, from whatever the host has installed."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

USER, PASSWORD, DATABASE = "triage", "s3cret-pa55", "history"


class Server:
    """``start`` and ``stop`` may be called again and again; the data stays."""

    kind: str
    driver: str

    def __init__(self, directory: Path, programs: dict[str, str]) -> None:
        self.directory = directory
        self.programs = programs
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        # Neither server runs as root.
        self._account = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
        self.data = directory / "data"
        self.data.mkdir(mode=0o700)
        for path in (directory, self.data):
            os.chown(path, self._account.pw_uid, self._account.pw_gid)

    @property
    def url(self) -> str:
        return f"{self.driver}://{USER}@127.0.0.1:{self.port}/{DATABASE}"

    def run(self, argv: Sequence[str], stdin: str = "") -> None:
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=120, **self._identity)
        assert done.returncode == 0, f"{argv[0]}: {done.stdout[-500:]}{done.stderr[-2000:]}"

    @property
    def _identity(self) -> dict[str, Any]:
        # A MariaDB that starts removes what others have as temporary tables in the same directory.
        environment = {"LC_ALL": "C.UTF-8", "HOME": "/nonexistent", "TMPDIR": str(self.directory)}
        place = {"cwd": self.directory, "env": {"PATH": os.environ["PATH"], **environment}}
        if os.geteuid():
            return place
        return {**place, "user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}

    def start(self) -> None:
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._identity,
            )
        until = time.monotonic() + 60
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"{self.kind} did not start: {(self.directory / 'log').read_text()[-2000:]}")
            time.sleep(0.1)

    def stop(self, how: int = signal.SIGKILL) -> None:
        """As an accident by default."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, how)
            self._process.wait(60)
            self._process = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def shell(self) -> list[str]:
        """The server's own client, which stops at the first error."""
        raise NotImplementedError

    def client(self, script: IO[str]) -> None:
        done = subprocess.run(self.shell(), stdin=script, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr

    def answers(self) -> bool:
        """Whether somebody listens, with our data in it."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as sock:
            return bool(sock.recv(1)) if self.kind == "mariadb" else True
        return False


class MariaDB(Server):
    kind, driver = "mariadb", "mysql+pymysql"
    wanted = ("mariadbd", "mariadb-install-db", "mariadb")

    def prepare(self) -> None:
        install = [self.programs["mariadb-install-db"], "--no-defaults", f"--datadir={self.data}", "--skip-test-db"]
        self.run([*install, "--auth-root-authentication-method=normal"])
        self.start()
        client = [self.programs["mariadb"], "--no-defaults", f"--socket={self.directory}/sock", "-uroot"]
        self.run(
            [
                *client,
                "-e",
                f"create database {DATABASE}; grant all on {DATABASE}.* to {USER}@'%' identified by '{PASSWORD}'",
            ]
        )

    def command(self) -> list[str]:
        small = ["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=16M", "--skip-log-bin", "--skip-name-resolve"]
        place = [f"--datadir={self.data}", f"--socket={self.directory}/sock", f"--pid-file={self.directory}/pid"]
        listen = [f"--port={self.port}", "--bind-address=127.0.0.1"]
        return [self.programs["mariadbd"], "--no-defaults", *place, *listen, *small]

    def shell(self) -> list[str]:
        login = [f"--port={self.port}", "--host=127.0.0.1", f"--user={USER}", f"--password={PASSWORD}"]
        return [self.programs["mariadb"], "--no-defaults", "--default-character-set=utf8mb4", *login, DATABASE]


class PostgreSQL(Server):
    kind, driver = "postgresql", "postgresql+psycopg"
    wanted = ("postgres", "initdb", "psql")

    def prepare(self) -> None:
        (self.directory / "password").write_text(PASSWORD)
        init = [self.programs["initdb"], "-D", str(self.data), "-U", USER, "-A", "scram-sha-256", "-E", "UTF8", "-N"]
        self.run([*init, f"--pwfile={self.directory}/password"])
        self.start()
        self.run(
            [self.programs["psql"], f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/postgres", "-c",
             f"create database {DATABASE}"]
        )  # fmt: skip

    def command(self) -> list[str]:
        listen = ["-c", f"port={self.port}", "-c", "listen_addresses=127.0.0.1"]
        return [self.programs["postgres"], "-D", str(self.data), "-k", str(self.directory), *listen]

    def shell(self) -> list[str]:
        place = f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{DATABASE}"
        return [self.programs["psql"], place, "-q", "-v", "ON_ERROR_STOP=1"]

    def answers(self) -> bool:
        probe = [
            self.programs["psql"],
            f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/postgres",
            "-c",
            "select 1",
        ]
        return subprocess.run(probe, capture_output=True, timeout=30).returncode == 0


def programs(names: Sequence[str]) -> dict[str, str] | None:
    """Where the programs are; None if one is missing. Debian keeps PostgreSQL's servers out of the PATH."""
    places = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    path = os.pathsep.join([*places, os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    found = {name: shutil.which(name, path=path) for name in names}
    return {name: place for name, place in found.items() if place} if all(found.values()) else None


@contextlib.contextmanager
def server(kind: type[MariaDB] | type[PostgreSQL], where: dict[str, str]) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix=f"{kind.kind}-test-") as name:
        made = kind(Path(name), where)
        try:
            made.prepare()
            yield made
        finally:
            made.stop()


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
