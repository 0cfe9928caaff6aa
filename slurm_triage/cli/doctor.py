"""Check this installation: settings, accounting, rules, spool, ledger, worker, hooks. Says what it found and why."""

from __future__ import annotations

import argparse
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from slurm_triage import __version__
from slurm_triage.errors import LedgerError, TriageError
from slurm_triage.service.batch_file import events_by_name
from slurm_triage.settings import Settings, load_settings

OK, INFO, WARNING, FAILED = "ok", "info", "warning", "FAILED"
Finding = tuple[str, str]

#: Events that have waited longer than this mean that no worker takes them.
_OLD_EVENT_S = 900.0
_MIN_FREE_BYTES = 64 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", type=Path, help="instead of /etc/slurm-triage/config.toml")
    parser.add_argument(
        "--ledger", metavar="DIR", type=Path, help="only try out whether this directory can hold a ledger"
    )


def run(args: argparse.Namespace) -> int:
    print(f"slurm-triage {__version__}, Python {sys.version.split()[0]}, user {os.geteuid()}")
    if args.ledger is not None:
        return _report({"ledger": lambda: _ledger(args.ledger)})
    settings = load_settings(args.config)
    return _report(
        {
            "settings": lambda: _settings(settings),
            "accounting": lambda: _accounting(settings),
            "rules": _rules,
            "spool": lambda: _spool(settings),
            "worker": lambda: _worker(settings),
            "ledger": lambda: _ledger(settings.ledger),
            "hooks": lambda: _hooks(settings),
        }
    )


def _report(checks: Mapping[str, Callable[[], Iterator[Finding]]]) -> int:
    worst = OK
    for name, check in checks.items():
        try:
            findings = list(check())
        except TriageError as error:
            findings = [(FAILED, str(error))]
        for result, text in findings:
            print(f"{result:8} {name:11} {text}")
            worst = max(worst, result, key=(OK, INFO, WARNING, FAILED).index)
    return 5 if worst == FAILED else 0


def _settings(settings: Settings) -> Iterator[Finding]:
    sources = sorted(set(settings.origin.values()))
    yield OK, f"from {', '.join(sources)}" if sources else "all at their defaults; there is no configuration file"


def _accounting(settings: Settings) -> Iterator[Finding]:
    from slurm_triage.slurm.choose import choose

    choice = choose(settings.accounting, pyslurm_python=settings.pyslurm_python)
    try:
        for sentence in choice.why[:-1]:
            yield INFO, sentence
        if choice.accounting.name == "hook":
            yield WARNING, f"{choice.why[-1]}; slurm-triage log works without accounting"
            return
        yield OK, f"{choice.accounting.name} is used: {choice.why[-1]}"
        began = time.monotonic()
        choice.accounting.jobs(["1"])
        yield OK, f"a question was answered in {time.monotonic() - began:.2f} s"
    finally:
        choice.accounting.close()


def _rules() -> Iterator[Finding]:
    from slurm_triage.pipeline import Engine

    engine = Engine.load()
    state = engine.matcher.cache_state
    result = WARNING if state.kind == "unusable" else OK
    yield (
        result,
        f"{len(engine.ruleset.rules)} rules, digest {engine.ruleset.digest[:12]}; cache {state.kind}: {state.detail}",
    )


def _spool(settings: Settings) -> Iterator[Finding]:
    directory = settings.spool
    if not settings.origin and not directory.exists():
        yield INFO, f"there is no {directory}, so no hook writes on this host; reading logs and jobs works without"
        return
    for name in ("new", "tmp"):
        path = directory / name
        if not path.is_dir():
            yield FAILED, f"{path} is no directory; run install.sh, or set spool in config.toml"
            return
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            yield WARNING, f"{path} may be written by all without the sticky bit; chmod 1733 {path}"
    if (directory / "new").stat().st_dev != (directory / "tmp").stat().st_dev:
        yield FAILED, f"new and tmp of {directory} lie on different file systems; events must be moved in one step"
    free = shutil.disk_usage(directory).free
    if free < _MIN_FREE_BYTES:
        yield WARNING, f"only {free >> 20} MiB are free in {directory}"
    if not os.access(directory / "new", os.R_OK | os.X_OK):
        yield INFO, f"{directory} may not be listed by you; run doctor as the worker's user for more"
        return
    # The start of a watched job stays as long as the job runs.
    waiting = [path for path in (directory / "new").iterdir() if ".prolog-slurmctld." not in path.name]
    refused = len(list((directory / "bad").iterdir())) if os.access(directory / "bad", os.R_OK | os.X_OK) else 0
    events = sum(events_by_name(path.name) for path in waiting)
    oldest = min((path.lstat().st_mtime for path in waiting), default=time.time())
    age = time.time() - oldest
    result = WARNING if age > _OLD_EVENT_S else OK
    advice = "; is a worker running, and is accounting well?" if result == WARNING else ""
    yield result, f"{directory}: {events} events wait, the oldest for {age:.0f} s{advice}"
    if refused:
        yield WARNING, f"{refused} files in {directory / 'bad'} were no events of ours; look at them and remove them"


def _worker(settings: Settings) -> Iterator[Finding]:
    from slurm_triage.ledger.lock import acquire
    from slurm_triage.ledger.segment import writer_dirs

    if not os.access(settings.ledger, os.W_OK):
        yield INFO, "whether a worker runs can be told by its user only"
        return
    directories = list(writer_dirs(settings.ledger)) if settings.ledger.is_dir() else []
    if not directories:
        yield WARNING, f"no worker has ever run for {settings.ledger}: slurm-triage worker"
    for directory in directories:
        try:
            acquire(directory).release(force=True)
        except LedgerError as error:
            yield OK, f"{directory.name}: one is at work ({error})"
        else:
            yield WARNING, f"{directory.name}: none is at work now: slurm-triage worker"


def _ledger(directory: Path) -> Iterator[Finding]:
    from slurm_triage.ledger.doctor import check_directory

    here = next(place for place in (directory, *directory.absolute().parents) if place.exists())
    if os.statvfs(here).f_flag & os.ST_RDONLY:
        yield FAILED, f"{here} is on a file system that is read-only; choose another ledger directory"
        return
    if not os.access(directory if directory.exists() else directory.parent, os.W_OK):
        yield INFO, f"{directory} may not be written by you, so it was not tried out"
        return
    for check in check_directory(directory):
        yield FAILED if check.result == "failed" else check.result, f"{check.name}: {check.detail}"


def _hooks(settings: Settings) -> Iterator[Finding]:
    from slurm_triage.errors import AccountingError
    from slurm_triage.slurm import command

    log = settings.completion_log
    # Only the worker's user may enter its directory.
    if log and os.access(Path(log).parent, os.X_OK) and not os.access(log, os.R_OK):
        yield WARNING, f"{log} cannot be read; slurmctld makes it when it starts, and the worker must read it"
    wanted = ("Epilog", "EpilogSlurmctld", "JobCompType", "JobCompLoc", "PrologSlurmctld")
    try:
        shown = command.run(["scontrol", "show", "config"], timeout_s=20.0)
    except AccountingError as error:
        yield WARNING, f"slurmctld cannot be asked for its hooks: {error}"
        return
    values: dict[str, str] = {}
    for line in shown.splitlines():
        key, equals, value = line.partition("=")
        key = key.strip().partition("[")[0]
        if equals and key in wanted:
            values.setdefault(key, value.strip())
    ours = [f"{key}={value}" for key, value in values.items() if _is_ours(value)]
    if log and (values.get("JobCompType"), values.get("JobCompLoc")) == ("jobcomp/filetxt", log):
        yield OK, f"slurmctld writes a line about each ended job into {log}, which the worker reads"
    elif log:
        found = f"{values.get('JobCompType')} {values.get('JobCompLoc')}"
        yield WARNING, f"slurmctld does not write completion_log {log} ({found}); jobs are found by asking accounting"
    if ours:
        yield OK, f"slurmctld calls us: {', '.join(ours)}"
    elif not log:
        yield WARNING, "slurm.conf names no hook of ours; jobs are found by asking accounting (reconcile_s)"
    pattern = values.get("Epilog", "")
    if pattern.endswith("/*") and Path(pattern).parent.is_dir():
        for path in sorted(Path(pattern).parent.iterdir()):
            if not path.name.startswith(".") and not (path.is_file() and os.access(path, os.X_OK)):
                yield FAILED, f"{path} cannot be run, and Slurm drains nodes for that; chmod +x it or move it away"


def _is_ours(value: str) -> bool:
    """A hook of ours by its text, or a directory that holds ours."""
    path = Path(value)
    if value.endswith("/*"):
        return (path.parent / "50-slurm-triage").exists()
    if path.name in ("epilog-slurmctld", "jobcomp", "prolog-slurmctld") and path.with_name("record-event").exists():
        return True
    try:
        return path.is_file() and "slurm-triage" in path.read_text(errors="replace")
    except OSError:
        return False
