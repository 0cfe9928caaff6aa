"""Accounting through pyslurm, which lives in a child process (pyslurm_child.py)."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from slurm_triage.errors import AccountingError
from slurm_triage.model.job import AccountingSource, Job
from slurm_triage.slurm import record
from slurm_triage.slurm.accounting import means
from slurm_triage.slurm.controller import Controller, with_true_exit
from slurm_triage.slurm.sacct import SacctAccounting

CHILD = Path(__file__).with_name("pyslurm_child.py")

#: ``import pyslurm`` takes 0.1 s; without a usable slurm.conf libslurm retries for a minute and ends the process.
START_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 60.0

#: An answer about 10 000 jobs with two steps each has 20 MB.
MAX_ANSWER_BYTES = 1 << 30


class PyslurmAccounting:
    """``python``: command line of a Python that has pyslurm. ``sacct``, where it exists, tells what pyslurm cannot: the
    earlier runs of requeued jobs. ``controller``: see SacctAccounting. ``cluster``: whose jobs, if not our own's.

    The child is started with the first question, kept, and started again when it has died.
    """

    name: AccountingSource = "pyslurm"

    def __init__(
        self,
        python: Sequence[str] = (sys.executable,),
        *,
        child: str | Path = CHILD,
        sacct: SacctAccounting | None = None,
        controller: Controller | None = None,
        cluster: str | None = None,
        start_timeout_s: float = START_TIMEOUT_S,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> None:
        self._argv = (*python, "-I", str(child))
        self._sacct = sacct
        self._controller = controller
        self._clusters = [cluster] if cluster is not None else []
        self._start_timeout_s = start_timeout_s
        self._answer_timeout_s = answer_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self._hello: dict[str, Any] = {}
        self.queries = 0
        """How many times accounting was asked for jobs."""

    def version(self) -> str:
        self._ensure()
        return str(self._hello.get("slurm"))

    def pyslurm_version(self) -> str:
        self._ensure()
        return str(self._hello.get("pyslurm"))

    def jobs(self, ids: Sequence[str], *, since: float | None = None, until: float | None = None) -> dict[str, Job]:
        # pyslurm takes numbers only: an array task or het part is asked for with its whole array or het job.
        plain = sorted({job_id.partition("_")[0].partition("+")[0] for job_id in ids})
        answer = self._ask({"ids": plain, "since": since, "until": until})
        found = record.build(answer, self.name)
        wanted = {raw: job for raw, job in found.items() if any(means(job_id, job) for job_id in ids)}
        return self._complete(wanted)

    def recent(self, since: float, until: float) -> Iterator[Job]:
        if self._sacct is not None:
            # pyslurm sees neither runs that were requeued nor jobs cancelled before they were eligible.
            yield from self._sacct.recent(since, until)
            return
        found = record.build(self._ask({"since": since, "until": until}), self.name)
        ended = {r: j for r, j in found.items() if j.is_terminal and j.end is not None and since <= j.end <= until}
        yield from self._complete(ended).values()

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # unsent bytes for a child that is gone
                    pipe.close()

    def _complete(self, jobs: dict[str, Job]) -> dict[str, Job]:
        """Earlier runs, and exit codes of 128 and above, from where they can be had."""
        doubtful = [raw for raw, job in jobs.items() if job.restarts or _may_lack_128(job)]
        if self._sacct is not None and doubtful:
            oldest = min(job.submit or 0.0 for job in (jobs[raw] for raw in doubtful))
            # A requeued run is submitted anew; the window has to reach back to the first one.
            restarted = any(jobs[raw].restarts for raw in doubtful)
            history = self._sacct.jobs(doubtful, since=None if restarted else oldest - 60.0)
            for raw in doubtful:
                past = history.get(raw)
                if past is not None and past.start == jobs[raw].start:
                    earlier = tuple(replace(run, source=self.name) for run in past.earlier)
                    job = replace(jobs[raw], earlier=earlier)
                    jobs[raw] = with_true_exit(job, past.exit_code, past.exit_signal)
        return self._controller.complete(jobs) if self._controller else jobs

    # ---- the child --------------------------------------------------------------------------------------------------

    def _ask(self, question: dict[str, Any]) -> list[dict[str, str]]:
        self._ensure()
        self.queries += 1
        process = self._process
        if process is None or process.stdin is None:
            raise AccountingError("pyslurm's process is gone; ask again")
        try:
            process.stdin.write(json.dumps({**question, "clusters": self._clusters}).encode() + b"\n")
            process.stdin.flush()
            answer = self._read_line(self._answer_timeout_s)
        except (OSError, AccountingError) as error:
            self.close()
            if isinstance(error, AccountingError):
                raise
            raise AccountingError("pyslurm's process died while it was asked; ask again") from error
        if "error" in answer:
            raise AccountingError(f"pyslurm: {answer['error']}; check that slurmdbd runs")
        rows = answer.get("rows")
        if not isinstance(rows, list):
            raise AccountingError("pyslurm's process answered without rows; check that both sides are of one version")
        return rows

    def _ensure(self) -> None:
        """A living child that has said its versions."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        self._rest = b""
        try:
            self._process = subprocess.Popen(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise AccountingError(f"cannot start {self._argv[0]} for pyslurm: {error.strerror}") from error
        try:
            self._hello = self._read_line(self._start_timeout_s)
        except AccountingError:
            self.close()
            raise

    def _read_line(self, timeout_s: float) -> dict[str, Any]:
        process = self._process
        if process is None or process.stdout is None:
            raise AccountingError("pyslurm's process is gone; ask again")
        descriptor = process.stdout.fileno()
        deadline = time.monotonic() + timeout_s
        parts = [self._rest]
        size = len(self._rest)
        while b"\n" not in parts[-1]:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not select.select([descriptor], [], [], remaining)[0]:
                raise AccountingError(f"pyslurm gave no answer in {timeout_s:.0f} s; check slurm.conf and slurmdbd")
            data = os.read(descriptor, 1 << 20)
            size += len(data)
            if not data:
                status = process.wait()
                raise AccountingError(
                    f"pyslurm's process ended with status {status}; check that pyslurm is installed for Slurm's version"
                    " and that slurm.conf is where Slurm looks for it"
                )
            if size > MAX_ANSWER_BYTES:
                raise AccountingError("pyslurm's answer does not end; ask for fewer jobs")
            parts.append(data)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        try:
            answer = json.loads(line)
        except ValueError as error:
            raise AccountingError("pyslurm's process answered something that is not JSON; ask again") from error
        if not isinstance(answer, dict):
            raise AccountingError("pyslurm's process answered something that is not an object; ask again")
        return answer


def _may_lack_128(job: Job) -> bool:
    """pyslurm subtracts 128 from exit codes of 128 and above, whatever Slurm's version."""
    return job.state == "FAILED" and job.exit_signal is None and 0 < (job.exit_code or 0) < 128
