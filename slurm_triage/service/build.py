"""A worker from the site's settings: sources, places, election."""

from __future__ import annotations

import codecs
import ctypes
import gc
import logging
import os
import pwd
import re
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from slurm_triage.errors import AccountingError, UsageError
from slurm_triage.ledger.append import open_writer
from slurm_triage.ledger.frame import safe
from slurm_triage.ledger.history import LOOK_BACK_S
from slurm_triage.ledger.memory import Memory
from slurm_triage.ledger.query import Filter, select
from slurm_triage.ledger.record import LedgerRecord
from slurm_triage.model.job import Job
from slurm_triage.pipeline import Engine
from slurm_triage.service import watch_jobs
from slurm_triage.service.child import report_on
from slurm_triage.service.comments import Comments
from slurm_triage.service.completion_log import CompletionLog
from slurm_triage.service.done import KEEP_S, Done
from slurm_triage.service.lookup import Lookup
from slurm_triage.service.making import Making
from slurm_triage.service.pool import Pool
from slurm_triage.service.rates import FairQueue
from slurm_triage.service.reconcile import Reconciler
from slurm_triage.service.recording import Recording
from slurm_triage.service.spool import Spool
from slurm_triage.service.tallies import Tallies
from slurm_triage.service.task import Task
from slurm_triage.service.watch_child import watch
from slurm_triage.service.watch_jobs import WatchJobs
from slurm_triage.service.worker import Worker
from slurm_triage.settings import Settings
from slurm_triage.slurm import command
from slurm_triage.slurm.accounting import Accounting
from slurm_triage.slurm.choose import choose
from slurm_triage.slurm.topology import leaf_switches

log = logging.getLogger("slurm-triage")

_LATE_CODECS = ("unicode_escape", "raw_unicode_escape", "ascii", "latin_1", "utf_16", "idna")
_REHEARSAL = b"""0: completed step: 0, seconds: 3.0, TFLOP/s/device: 4.6, Tokens/s/device: 10.0, loss: 1.0
0: Traceback (most recent call last):
0:   File "train.py", line 1, in <module>
0: ValueError: \xff
0: NODE_EXIT host=node01 exit=1
"""
_CLUSTER = re.compile(r"^ClusterName\s*=\s*(\S+)", re.MULTILINE)


def cluster_name(settings: Settings) -> str:
    """Raises UsageError if neither the settings nor slurmctld tell."""
    if settings.cluster is not None:
        return settings.cluster
    try:
        match = _CLUSTER.search(command.run(["scontrol", "show", "config"], timeout_s=20.0))
    except AccountingError as error:
        raise UsageError(f"the cluster's name is not known ({error}); set cluster in config.toml") from error
    if match is None:
        raise UsageError("scontrol shows no ClusterName; set cluster in config.toml")
    return match[1]


def uids(names: Iterable[str]) -> frozenset[int]:
    """Of the users that exist here; the worker's own uid is always among them."""
    found = {os.geteuid()}
    for name in names:
        try:
            found.add(pwd.getpwnam(name).pw_uid)
        except KeyError:
            log.debug("there is no user %s on this host", name)
    return frozenset(found)


def preload(settings: Settings) -> Engine:
    """Rules, modules and templates in memory before the first fork, and left alone by the garbage collector."""
    engine = Engine.load(least_silence_s=settings.stall_after_s)
    rehearse(engine)
    gc.collect()
    gc.freeze()
    return engine


def rehearse(engine: Engine) -> None:
    """One whole report, thrown away. It loads what is otherwise imported late: every child would do that again, and a
    user may not be able to read where the modules lie. Raises TriageError if reports cannot be made at all."""
    for codec in _LATE_CODECS:
        codecs.lookup(codec)
    ctypes.CDLL(None)
    with tempfile.TemporaryDirectory(prefix="slurm-triage-") as directory:
        log_file = Path(directory) / "slurm-1.out"
        log_file.write_bytes(_REHEARSAL)
        now = time.time()
        job = Job(
            job_id="1", state="FAILED", exit_code=1, start=now - 9, end=now, work_dir=directory, stdout=str(log_file)
        )
        report_on(Task(job), engine)
    pwd.getpwuid(0)


@contextmanager
def worker(settings: Settings, accounting: Accounting | None = None, engine: Engine | None = None) -> Iterator[Worker]:
    """The elected worker. Raises LedgerError if another one is at work, TriageError if something is missing."""
    cluster = cluster_name(settings)
    spool = Spool(settings.spool, uids(settings.trusted_users))
    spool.check()
    source = accounting if accounting is not None else choose_source(settings)
    root = os.geteuid() == 0
    with open_writer(settings.ledger, cluster) as ledger:
        reconciler = Reconciler(settings.state, settings.reconcile_s, settings.reconcile_lag_s)
        reconciler.load(time.time())
        completion_log = None
        if settings.completion_log:
            completion_log = CompletionLog(Path(settings.completion_log), settings.spool, settings.state)
            completion_log.load()
        done, memory = Done(), Memory(switches=leaf_switches)
        memory.load(_past(settings.ledger, safe(cluster), done))
        # Last, so that the garbage collector leaves alone everything that children share.
        rules = engine if engine is not None else preload(settings)
        pool = Pool(
            lambda task: report_on(task, rules, memory),
            size=settings.children,
            wall_s=settings.child_wall_s,
            memory_bytes=settings.child_memory_mib << 20,
        )
        watchers = Pool(
            lambda task: watch(task, rules, settings, memory),
            size=settings.watch_jobs,
            wall_s=watch_jobs.WALL_S,
            memory_bytes=settings.child_memory_mib << 20,
        )
        lookup = Lookup(source, time.monotonic, time.time)
        own_uid = None if root else os.geteuid()
        try:
            yield Worker(
                settings=settings,
                spool=spool,
                lookup=lookup,
                making=Making(pool, FairQueue(settings.reports_per_minute), time.monotonic, time.time),
                recording=Recording(ledger, done, memory, time.monotonic),
                done=done,
                reconciler=reconciler,
                comments=Comments(settings.admin_comment),
                tallies=Tallies(settings.state, frozenset(rule.id for rule in rules.ruleset.rules)),
                watching=WatchJobs(settings, spool, lookup, watchers, own_uid, time.monotonic),
                completion_log=completion_log,
                own_uid=own_uid,
            )
        finally:
            if completion_log is not None:
                completion_log.close()
            pool.stop()
            watchers.stop()
            source.close()


def _past(ledger: Path, cluster: str, done: Done) -> Iterator[LedgerRecord]:
    """What was reported in the last months, and of the last days to ``done`` too: the ledger is read once."""
    now = time.time()
    for record in select([ledger], Filter(since=now - LOOK_BACK_S), (cluster,)):
        if (record.ended or now) >= now - KEEP_S:
            done.add((record,))
        yield record


def choose_source(settings: Settings) -> Accounting:
    """Raises AccountingError or UsageError."""
    choice = choose(settings.accounting, pyslurm_python=settings.pyslurm_python)
    for sentence in choice.why:
        log.info("%s", sentence)
    return choice.accounting
