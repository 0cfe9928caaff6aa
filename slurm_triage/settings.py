"""Site settings: ``/etc/slurm-triage/config.toml``, then the environment. Every value knows where it came from."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from slurm_triage.errors import UsageError

CONFIG = Path("/etc/slurm-triage/config.toml")
PREFIX = "SLURM_TRIAGE_"

CommentWish = Literal["off", "failures", "all"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the worker and the commands around it need to know. docs/operations.md explains each."""

    cluster: str | None = None
    """Name of the cluster; None: ask slurmctld."""
    spool: Path = Path("/var/spool/slurm-triage")
    ledger: Path = Path("/var/lib/slurm-triage/ledger")
    state: Path = Path("/var/lib/slurm-triage/state")
    accounting: str = "auto"
    pyslurm_python: tuple[str, ...] = ()
    children: int = 4
    child_wall_s: float = 600.0
    child_memory_mib: int = 4096
    settle_s: float = 2.0
    """Time between a job's first event and its triage, so that events of other nodes can arrive."""
    final_wait_s: float = 300.0
    """After this long a report is made although accounting's record is not complete, and made again when it is."""
    give_up_s: float = 172800.0
    """An event that accounting cannot explain for this long is dropped."""
    reconcile_s: float = 600.0
    """How often accounting is asked for ended jobs that no hook reported; 0: never."""
    reconcile_lag_s: float = 120.0
    """Jobs that ended this recently are still left to their hooks, and slurmdbd may not have them yet."""
    completion_log: str = ""
    """File into which slurmctld writes a line about each ended job (``JobCompType=jobcomp/filetxt``); empty: none."""
    stall_after_s: float = 600.0
    """Silence after a step that may be a hang; longer where steps or saves take longer."""
    admin_comment: CommentWish = "failures"
    report_dir: str = ""
    """Directory for the reports of jobs without a directory of their own, with ``%`` forms; empty: beside the log."""
    off_partitions: tuple[str, ...] = ()
    off_accounts: tuple[str, ...] = ()
    off_users: tuple[str, ...] = ()
    reports_per_minute: int = 6000
    """Per user; what is above waits."""
    trusted_users: tuple[str, ...] = ("root", "slurm")
    """Owners of spool files whose words (exit codes, kernel messages) are used."""
    watch_jobs: int = 32
    """Jobs submitted with ``--triage=watch`` that are watched at the same time; 0: none."""
    watch_interval_s: float = 30.0
    watch_limit_s: float = 0.0
    """A watched job hangs after this long without a step; 0: after what is normal for its phase."""
    watch_notify: str = ""
    """Command that is run, as the job's owner, when a watched job begins to hang or goes on again."""
    mirror: str = ""
    """URL of a SQL database that `slurm-triage ledger mirror` copies the ledger into, without a password."""
    mirror_password_file: str = ""
    origin: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Where each value that is not the default came from."""


NAMES = tuple(f.name for f in fields(Settings) if f.name != "origin")
_DEFAULT = Settings()
#: In a URL. What is in the settings is shown to everybody who asks for them.
_PASSWORD = re.compile(r"//[^/@]*:[^/@]*@|[?&]password=")


def load_settings(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of this process. ``path``: another configuration file ($SLURM_TRIAGE_CONFIG names one, too).

    Raises UsageError, naming file and key, for what cannot be meant.
    """
    env = os.environ if environ is None else environ
    chosen = path or (Path(env[PREFIX + "CONFIG"]) if env.get(PREFIX + "CONFIG") else None)
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    file = chosen or CONFIG
    for name, value in _read(file, required=chosen is not None).items():
        if name not in NAMES:
            raise UsageError(f"{file}: {name} is no setting; `slurm-triage config show` lists them")
        values[name], origin[name] = _convert(name, value, str(file)), str(file)
    for name in NAMES:
        variable = PREFIX + name.upper()
        if variable in env:
            values[name], origin[name] = _convert(name, env[variable], f"${variable}"), f"${variable}"
    return Settings(**values, origin=origin)


def _read(path: Path, *, required: bool) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        if required:
            raise UsageError(f"there is no configuration file {path}; create it or unset {PREFIX}CONFIG") from None
        return {}
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(data.decode())
    except (ValueError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error


def _convert(name: str, value: Any, where: str) -> Any:
    """The value in the type of the setting; texts (from the environment) are parsed."""
    default = getattr(_DEFAULT, name)
    if name == "mirror" and _PASSWORD.search(str(value)):
        raise UsageError(f"{where}: mirror must hold no password; put it into mirror_password_file")
    wrong = UsageError(f"{where}: {name} = {value!r} cannot be used; {_WANTED.get(name, 'see docs/operations.md')}")
    if isinstance(default, tuple):
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise wrong
        return tuple(item.strip() for item in items if item.strip())
    if isinstance(default, (int, float)):
        return _number(name, value, type(default), wrong)
    if not isinstance(value, str):
        raise wrong
    if (isinstance(default, Path) or (name == "completion_log" and value)) and not value.startswith("/"):
        raise wrong
    if isinstance(default, Path):
        return Path(value)
    if name in _CHOICES and value not in _CHOICES[name]:
        raise wrong
    return value or None if default is None else value


def _number(name: str, value: Any, kind: type, wrong: UsageError) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise wrong
    try:
        number: int | float = kind(value)
    except ValueError:
        raise wrong from None
    if not _SMALLEST.get(name, 0) <= number < 1e9:
        raise wrong
    return number


_CHOICES = {
    "admin_comment": ("off", "failures", "all"),
    "accounting": ("auto", "pyslurm", "sacct", "hook"),
}
_SMALLEST = {
    "watch_interval_s": 0.1,
    "children": 1,
    "child_wall_s": 1,
    "child_memory_mib": 256,
    "reports_per_minute": 1,
}
_WANTED = {
    "admin_comment": "choose off, failures or all",
    "accounting": "choose auto, pyslurm, sacct or hook",
    "spool": "give an absolute path",
    "ledger": "give an absolute path",
    "state": "give an absolute path",
    "completion_log": "give an absolute path",
    "children": "give a number of 1 or more",
    "child_memory_mib": "give a number of 256 or more",
}
