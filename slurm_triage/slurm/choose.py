"""Which source of accounting to use: pyslurm, else sacct, else the hooks' own words. Says why."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slurm_triage.errors import AccountingError, UsageError
from slurm_triage.slurm.accounting import Accounting
from slurm_triage.slurm.controller import Controller
from slurm_triage.slurm.hook_env import HookAccounting
from slurm_triage.slurm.pyslurm_source import PyslurmAccounting
from slurm_triage.slurm.sacct import SacctAccounting

WISHES = ("auto", "pyslurm", "sacct", "hook")


@dataclass(frozen=True, slots=True)
class Choice:
    """``why``: one sentence per source that was looked at, in order; the last is the one that was taken."""

    accounting: Accounting
    why: tuple[str, ...]


def choose(wish: str = "auto", *, pyslurm_python: Sequence[str] = (), cluster: str | None = None) -> Choice:
    """The best source that answers. Starts pyslurm's process or runs ``sacct --version``; asks for no job.

    ``wish``: take this one or fail. ``pyslurm_python``: command line of a Python that has pyslurm, when ours has not.
    ``cluster``: another one of the same slurmdbd is asked about; only the own one has its slurmctld here.
    Raises UsageError for an unknown wish, AccountingError when the wished source does not work.
    """
    if wish not in WISHES:
        raise UsageError(f"accounting = {wish!r} is not known; choose one of {', '.join(WISHES)}")
    controller = Controller() if shutil.which("scontrol") and cluster is None else None
    command = ("sacct",) if cluster is None else ("sacct", "-M", cluster)
    sacct = SacctAccounting(command, controller=controller)
    history = SacctAccounting(command) if shutil.which("sacct") else None
    sources: dict[str, Callable[[], tuple[Accounting, str]]] = {
        "pyslurm": lambda: _pyslurm(pyslurm_python, history, controller, cluster),
        "sacct": lambda: (sacct, f"sacct {sacct.version()} works"),
        "hook": lambda: (HookAccounting(), "the hooks' own words are used: reports stay provisional"),
    }
    why: list[str] = []
    for name, attempt in sources.items():
        if wish not in ("auto", name):
            continue
        try:
            accounting, reason = attempt()
        except AccountingError as error:
            if wish != "auto":
                raise
            why.append(f"{name} cannot be used: {error}")
            continue
        return Choice(accounting, (*why, reason))
    raise AccountingError("; ".join(why))


def choose_askable(wish: str = "auto", *, pyslurm_python: Sequence[str] = (), cluster: str | None = None) -> Accounting:
    """A source that can be asked for any job; a hook's words, unless nothing else is wished, are for the worker only.

    Raises AccountingError, which says why neither pyslurm nor sacct works, and what ``choose`` raises."""
    choice = choose(wish, pyslurm_python=pyslurm_python, cluster=cluster)
    if choice.accounting.name != "hook" or wish == "hook":
        return choice.accounting
    choice.accounting.close()
    raise AccountingError("; ".join(choice.why[:-1]))


def _pyslurm(
    python: Sequence[str], history: SacctAccounting | None, controller: Controller | None, cluster: str | None
) -> tuple[Accounting, str]:
    # find_spec does not import it: importing can end this process.
    if not python and importlib.util.find_spec("pyslurm") is None:
        raise AccountingError("pyslurm is not installed for this Python; install the release of Slurm's own version")
    source = PyslurmAccounting(python or (sys.executable,), sacct=history, controller=controller, cluster=cluster)
    return source, f"pyslurm {source.pyslurm_version()} works, with Slurm {source.version()}"
