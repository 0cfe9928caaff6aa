"""A place to install into: a slurm.conf, commands that answer like Slurm's, and everything else below one directory."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]

#: Commands that install.sh calls to change something, or to decide what to change.
COMMANDS = (
    "mkdir",
    "chmod",
    "chown",
    "cp",
    "mv",
    "rm",
    "rmdir",
    "cat",
    "cmp",
    "sed",
    "stat",
    "grep",
    "awk",
    "readlink",
    "mktemp",
    "env",
    "setpriv",
    "id",
    "sort",
    "tail",
    "head",
    "wc",
)

#: Counts its calls and fails, or kills install.sh, at the call that $FAIL_AT names.
_SHIM = """#!/bin/sh
if [ -n "${FAIL_AT-}" ]; then
    echo x >>"$CALLS"
    if [ "$(/usr/bin/wc -l <"$CALLS")" = "$FAIL_AT" ]; then
        case ${FAIL_HOW-fail} in
            fail) exit 1 ;;
            kill) kill -9 "$INSTALLER" ;;
            term) kill -TERM "$INSTALLER"; sleep 1 ;;
        esac
    fi
fi
exec REAL "$@"
"""


class Place:
    def __init__(self, directory: Path, version: str = "22.05.8") -> None:
        self.directory = directory
        self.python: str | None = sys.executable
        self.fake = directory / "fake"
        self.slurm = directory / "site/slurm"
        self.epilog_d = self.slurm / "epilog.d"
        self.conf = self.slurm / "slurm.conf"
        self.fake.mkdir()
        self.epilog_d.mkdir(parents=True)
        self.command("sacct", f'echo "slurm {version}"')
        self.command("scontrol", "exit 1")
        self.command("sinfo", "exit 0")
        self.conf.write_text(f"ClusterName=test\nSlurmUser=nobody\nEpilog={self.epilog_d}/*\n")
        self.script(self.epilog_d / "10-site", "#!/bin/sh\nexit 0\n")

    @staticmethod
    def script(path: Path, text: str) -> Path:
        path.write_text(text)
        path.chmod(0o755)
        return path

    def command(self, name: str, text: str) -> Path:
        """A command that is found before the real one."""
        return self.script(self.fake / name, f"#!/bin/sh\n{text}\n")

    def shims(self) -> None:
        for name in COMMANDS:
            real = next(p for d in ("/usr/bin", "/bin", "/usr/sbin") if (p := Path(d, name)).exists())
            self.script(self.fake / name, _SHIM.replace("REAL", str(real)))

    def path(self, name: str) -> Path:
        """``etc``, ``libexec`` ...: where that is installed."""
        return self.directory / "site" / name

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": f"{self.fake}:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "PYTHONPATH": os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH")))),
            "PYTHONDONTWRITEBYTECODE": "1",
            "CALLS": str(self.directory / "calls"),
        }

    def argv(self, *options: str) -> list[str]:
        argv = ["sh", str(CHECKOUT / "install.sh"), "--no-systemd", "--slurm-conf", str(self.conf)]
        for option, name in (
            ("--prefix", "opt"),
            ("--etc", "etc"),
            ("--libexec", "libexec"),
            ("--bin", "bin"),
            ("--spool", "spool"),
            ("--var", "var"),
        ):
            argv += [option, str(self.path(name))]
        return [*argv, *(("--python", self.python) if self.python else ()), *options]

    def run(self, *options: str, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        (self.directory / "calls").unlink(missing_ok=True)
        command = 'export INSTALLER=$$; exec "$@"'
        result = subprocess.run(
            ["sh", "-c", command, "sh", *self.argv(*options)],
            env={**self.env, **env},
            text=True,
            capture_output=True,
            timeout=120.0,
            check=False,
        )
        assert not check or result.returncode == 0, f"{result.stdout}{result.stderr}"
        return result

    def calls(self) -> int:
        return len((self.directory / "calls").read_text().split())

    def snapshot(self) -> Mapping[str, tuple[object, ...]]:
        """Everything below the site's directory: type, mode, owner, content."""
        found: dict[str, tuple[object, ...]] = {}
        base = self.directory / "site"
        for path in sorted(base.rglob("*")):
            status = path.lstat()
            content = ""
            if path.is_symlink():
                content = str(path.readlink())
            elif path.is_file():
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path.relative_to(base))] = (
                stat.filemode(status.st_mode),
                status.st_uid,
                status.st_gid,
                content,
            )
        return found
