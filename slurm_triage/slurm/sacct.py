"""Accounting through ``sacct -p``. Its JSON is not used: on 22.05 it shows every exit code as 0."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from functools import cached_property

from slurm_triage.errors import AccountingError
from slurm_triage.model.job import AccountingSource, Job
from slurm_triage.slurm import command, fields, record
from slurm_triage.slurm.controller import Controller

#: One argument of a command is limited to 128 KiB; 8 000 ids of ten digits stay below.
IDS_PER_QUERY = 8000

#: sacct's names for the states in which a run is over.
ENDED_STATES = "BF,CA,CD,DL,F,NF,OOM,PR,RQ,RV,TO"

#: From this version on sacct shows exit codes of 128 and above as they are; before, it subtracts 128
#: (measured: 22.05.8 and 24.11.5 subtract, 26.05.5 does not; what lies between counts as subtracting).
TRUE_EXIT_CODES_SINCE = (26, 5)


class SacctAccounting:
    """``controller``: asked as well, because slurmctld knows more about recent jobs (reason, true exit code, excluded
    nodes, output file). None: accounting alone."""

    name: AccountingSource = "sacct"

    def __init__(
        self,
        sacct: Sequence[str] = ("sacct",),
        *,
        controller: Controller | None = None,
        timeout_s: float = command.DEFAULT_TIMEOUT_S,
    ) -> None:
        self._sacct = tuple(sacct)
        self._controller = controller
        self._timeout_s = timeout_s
        self.queries = 0
        """How many times accounting was asked for jobs."""

    def version(self) -> str:
        return self._version

    @cached_property
    def _version(self) -> str:
        words = command.run([*self._sacct, "--version"], timeout_s=10.0).split()
        if not words:
            raise AccountingError("sacct --version printed nothing; check the installation of Slurm's commands")
        return words[-1]

    @property
    def has_true_exit_codes(self) -> bool:
        return version_number(self.version()) >= TRUE_EXIT_CODES_SINCE

    @cached_property
    def _columns(self) -> tuple[str, ...]:
        """The wanted columns that this version has."""
        known = {word.lower() for word in command.run([*self._sacct, "--helpformat"], timeout_s=10.0).split()}
        return tuple(column for column in record.COLUMNS if column in known)

    def jobs(self, ids: Sequence[str], *, since: float | None = None, until: float | None = None) -> dict[str, Job]:
        found: dict[str, Job] = {}
        for first in range(0, len(ids), IDS_PER_QUERY):
            chunk = ids[first : first + IDS_PER_QUERY]
            found.update(self._ask(["-j", ",".join(chunk), *_window(since, until)]))
        return self._controller.complete(found) if self._controller else found

    def recent(self, since: float, until: float) -> Iterator[Job]:
        jobs = self._ask(["-a", "-s", ENDED_STATES, *_window(since, until)])
        yield from (job for job in jobs.values() if any(_ended_in(run, since, until) for run in (job, *job.earlier)))

    def close(self) -> None:
        """Nothing is kept open."""

    def _ask(self, options: Sequence[str]) -> dict[str, Job]:
        # A delimiter that nobody can know in advance: job names and comments may hold anything, newlines included, and
        # must not be able to look like a row of another job.
        delimiter = f"\x1f{secrets.token_hex(8)}\x1f"
        self.queries += 1
        output = command.run(
            [*self._sacct, "-n", "-p", "-D", f"--delimiter={delimiter}", "-o", ",".join(self._columns), *options],
            timeout_s=self._timeout_s,
        )
        return record.build(fields.rows(output, delimiter, self._columns), self.name)


def version_number(version: str) -> tuple[int, int]:
    """(22, 5) of ``22.05.8``; (0, 0) of anything else."""
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)


def _window(since: float | None, until: float | None) -> list[str]:
    options = []
    if since is not None:
        options += ["-S", _utc(since)]
    if until is not None:
        options += ["-E", _utc(until)]
    return options


def _utc(seconds: float) -> str:
    """As sacct reads it with TZ=UTC. A time before 1970 is the epoch."""
    return datetime.fromtimestamp(max(0.0, seconds), timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")


def _ended_in(job: Job, since: float, until: float) -> bool:
    return job.is_terminal and job.end is not None and since <= job.end <= until
