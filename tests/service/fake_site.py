"""Spool, users' directories and a table instead of accounting."""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import filelock  # noqa: F401 (workers are forked from here and load it late)

from slurm_triage.errors import AccountingError
from slurm_triage.ledger.query import Filter, by_job, select
from slurm_triage.ledger.record import LedgerRecord
from slurm_triage.model.job import AccountingSource, Job
from slurm_triage.pipeline import Engine
from slurm_triage.service import build, event_file
from slurm_triage.service.worker import Worker
from slurm_triage.settings import Settings

#: Rounds of a worker under test follow each other faster.
POLL_S = 0.05

FAILED_LOG = b"""epoch 1
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
ValueError: boom
"""


class TableAccounting:
    """Jobs from a file, so that a killed worker's successor sees the same. Counts its queries in another file."""

    name: AccountingSource = "sacct"

    def __init__(self, path: Path) -> None:
        self._path = path

    def version(self) -> str:
        return "22.05.8"

    def _table(self) -> dict[str, Job]:
        with open(self._path.with_suffix(".queries"), "ab") as file:
            file.write(b".")
        table: dict[str, Job] | None = pickle.loads(self._path.read_bytes())
        if table is None:
            raise AccountingError("slurmdbd is down")
        return table

    def jobs(self, ids: Sequence[str], *, since: float | None = None, until: float | None = None) -> dict[str, Job]:
        del since, until
        table = self._table()
        return {i: table[i] for i in ids if i in table}

    def recent(self, since: float, until: float) -> Iterable[Job]:
        return [job for job in self._table().values() if job.end is not None and since <= job.end <= until]

    def close(self) -> None:
        """Nothing is open."""


class FakeSite:
    def __init__(self, directory: Path, settings: Settings, engine: Engine, uid: int) -> None:
        self.directory = directory
        self.settings = settings
        self.engine = engine
        self.uid = uid
        self.table: dict[str, Job] = {}
        self._accounting = directory / "accounting"
        self.accounting = TableAccounting(self._accounting)
        self._pid: int | None = None
        for name in ("new", "tmp", "bad"):
            (settings.spool / name).mkdir(parents=True)
        settings.ledger.mkdir()
        self.home = directory / "home"
        self.home.mkdir()
        os.chown(self.home, uid, uid)

    @property
    def queries(self) -> int:
        path = self._accounting.with_suffix(".queries")
        return path.stat().st_size if path.exists() else 0

    def publish(self, *, down: bool = False) -> None:
        """Let accounting know the table as it is now."""
        temporary = self._accounting.with_suffix(".tmp")
        temporary.write_bytes(pickle.dumps(None if down else self.table))
        temporary.rename(self._accounting)

    def add(self, job: Job, log: bytes | None = FAILED_LOG, *, event: bool = True) -> Job:
        """A job with its log (``slurm-<id>.out`` in the owner's home), known to accounting, with one event."""
        path = self.home / f"slurm-{job.job_id}.out"
        if log is not None:
            path.write_bytes(log)
            os.chown(path, self.uid, self.uid)
        job = replace(job, work_dir=job.work_dir or str(self.home), stdout=job.stdout or str(path))
        self.table[job.job_id or ""] = job
        self.publish()
        if event:
            self.event(job.job_id or "")
        return job

    def event(self, job_id: str, kind: str = "epilog-slurmctld", **env: str) -> Path:
        return event_file.record(self.settings.spool, job_id, env, kind=kind)

    def as_owner(self, action: Callable[[], None]) -> None:
        """Do something as the jobs' owner, in a child."""
        assert os.waitpid(self._fork_as_owner(action), 0)[1] == 0

    @contextlib.contextmanager
    def while_owner_does(self, action: Callable[[], None]) -> Iterator[Callable[[], int]]:
        """Does it again and again, as the jobs' owner; yields what tells how often it was done."""
        count = mmap.mmap(-1, 8)

        def again_and_again() -> None:
            done = 0
            while True:
                action()
                done += 1
                count[:8] = done.to_bytes(8, "little")

        pid = self._fork_as_owner(again_and_again)

        def so_far() -> int:
            assert os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None, "the owner's loop ended"
            return int.from_bytes(count[:8], "little")

        try:
            yield so_far
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _fork_as_owner(self, action: Callable[[], None]) -> int:
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(self.uid, self.uid, self.uid)
                os.setresuid(self.uid, self.uid, self.uid)
            action()
            status = 0
        finally:
            os._exit(status)

    # ---- the worker -----------------------------------------------------------------------------------------------

    def work(self, *, timeout_s: float = 30.0, settings: Settings | None = None) -> Worker:
        """A worker in this process, until spool and table are dealt with or nothing more can be done now."""
        until = time.monotonic() + timeout_s
        with build.worker(settings or self.settings, self.accounting, self.engine) as worker:
            worker.poll_s = POLL_S
            idle = 0
            while idle < 3:
                assert time.monotonic() < until, f"still busy: {worker.counts}"
                idle = 0 if worker.step() or worker.busy else idle + 1
            worker.drain()
        return worker

    def steps(self, count: int, settings: Settings | None = None) -> Worker:
        """A number of rounds, for jobs that are not finished by them."""
        with build.worker(settings or self.settings, self.accounting, self.engine) as worker:
            worker.poll_s = POLL_S
            for _ in range(count):
                worker.step()
            worker.drain()
        return worker

    def start(self, output: Path | None = None) -> int:
        """A worker process that runs until it is stopped."""
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.setsid()
                stopped: list[int] = []
                signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
                if output is not None:
                    handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
                    os.dup2(handle, 2)
                with build.worker(self.settings, self.accounting, self.engine) as worker:
                    worker.poll_s = POLL_S
                    worker.run(lambda: bool(stopped))
                status = 0
            except BaseException as error:
                os.write(2, f"{type(error).__name__}: {error}\n".encode())
            finally:
                os._exit(status)
        self._pid = pid
        return pid

    def kill(self, number: int = signal.SIGKILL) -> int | None:
        """End the worker process; returns its wait status."""
        pid, self._pid = self._pid, None
        if pid is None:
            return None
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        return os.waitpid(pid, 0)[1]

    # ---- what came of it ------------------------------------------------------------------------------------------

    def waiting(self) -> list[str]:
        """Names of events in the spool."""
        return sorted(path.name for path in (self.settings.spool / "new").iterdir())

    def records(self, job_id: str) -> list[LedgerRecord]:
        return by_job([self.settings.ledger], job_id)

    def all_records(self) -> list[LedgerRecord]:
        return list(select([self.settings.ledger], Filter()))

    def lines(self) -> int:
        """Record lines in the ledger's files, superseded ones included."""
        files = self.settings.ledger.glob("*/*.jsonl")
        return sum(path.read_bytes().count(b'"rec":{"job_id"') for path in files)
