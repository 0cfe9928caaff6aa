"""Triage by job id, as the caller: through accounting, the job's files, and what the ledger knows of other jobs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from slurm_triage.errors import AccountingError, LedgerError, NotFoundError
from slurm_triage.ledger.history import look_back, nodes_to_avoid
from slurm_triage.ledger.place import ledgers_to_read
from slurm_triage.ledger.record import record_from_report
from slurm_triage.model.job import Job
from slurm_triage.model.report import Report
from slurm_triage.pipeline import Engine, in_history, triage, triage_path
from slurm_triage.service.job_files import files_of
from slurm_triage.settings import load_settings
from slurm_triage.slurm.accounting import select
from slurm_triage.slurm.choose import choose_askable
from slurm_triage.slurm.topology import leaf_switches


def triage_now(job_id: str, attempt: int | None = None, clusters: Sequence[str] = ()) -> list[Report]:
    """Of the job, or of every part of an array or heterogeneous job; ``attempt`` counts from 1, None is the last.
    ``clusters``: whose job it is, if not (only) our own's.

    Raises NotFoundError for an unknown job, AccountingError when nothing is known because nobody can be asked.
    """
    found: list[Job] = []
    unreachable: AccountingError | None = None
    try:
        for cluster in clusters or (None,):
            found += _ask(job_id, attempt, cluster)
    except AccountingError as error:
        if clusters:
            # What lies around here under this id may be another cluster's.
            raise AccountingError(f"accounting cannot be asked about {', '.join(clusters)} ({error})") from error
        unreachable = error
    if clusters and not found:
        raise NotFoundError(f"neither ledger nor accounting knows a job {job_id} of {', '.join(clusters)}")
    engine = Engine.load(least_silence_s=load_settings().stall_after_s)
    if not found:
        try:
            return [with_ledger(triage_path(job_id, engine=engine), engine)]
        except NotFoundError as error:
            if unreachable is not None:
                raise AccountingError(f"accounting cannot be asked ({unreachable}), and {error}") from error
            raise
    return [with_ledger(triage(job, files_of(job), engine), engine) for job in found]


def with_ledger(report: Report, engine: Engine) -> Report:
    """The report with what the ledgers say; as it is where there is none that can be read."""
    roots = ledgers_to_read()
    if not roots:
        return report
    try:
        record = record_from_report(report)
        on_nodes = nodes_to_avoid(roots, record.cluster, time.time())
        return in_history(report, look_back(record, roots, on_nodes, leaf_switches), engine)
    except LedgerError:
        # The ledger's own commands say what is wrong with it; the job can be explained without.
        return report


def _ask(job_id: str, attempt: int | None, cluster: str | None) -> list[Job]:
    settings = load_settings()
    accounting = choose_askable(settings.accounting, pyslurm_python=settings.pyslurm_python, cluster=cluster)
    try:
        jobs = select(accounting.jobs([job_id]), job_id)
    finally:
        accounting.close()
    if attempt is None:
        return jobs
    runs = []
    for job in jobs:
        attempts = (*job.earlier, job)
        if attempt > len(attempts):
            raise NotFoundError(f"job {job_id} had {len(attempts)} runs; choose --attempt 1 to {len(attempts)}")
        runs.append(replace(attempts[attempt - 1], earlier=attempts[: attempt - 1]))
    return runs
