"""Replays logs with two sets of rules and says where the verdicts differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_triage.errors import NotFoundError, UsageError
from slurm_triage.locate import is_outputs_tree, locate, locate_all
from slurm_triage.model.files import JobFiles
from slurm_triage.model.job import NO_JOB, Job
from slurm_triage.model.report import Report
from slurm_triage.past_jobs import PastJob, past_job
from slurm_triage.pipeline import Engine, triage

if TYPE_CHECKING:
    from slurm_triage.ledger.record import LedgerRecord


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a reader sees first, and the rules it rests on. ``cls`` is None for a healthy job."""

    status: str
    cls: str | None
    title: str | None
    rules: frozenset[str] = field(repr=False)

    def __str__(self) -> str:
        return f"{self.status}, {self.cls}" if self.cls else self.status


@dataclass(frozen=True, slots=True)
class Comparison:
    """One log judged twice. ``problem`` says why it could not be read; then there are no verdicts."""

    target: str
    before: Verdict | None
    after: Verdict | None
    problem: str | None = None

    @property
    def changed(self) -> bool:
        """Does status, class or title of the verdict differ? Further findings that come or go do not count."""
        old, new = self.before, self.after
        if old is None or new is None:
            return False
        return (old.status, old.cls, old.title) != (new.status, new.cls, new.title)

    @property
    def gained(self) -> frozenset[str]:
        """Rules that match only afterwards."""
        return self.after.rules - self.before.rules if self.after and self.before else frozenset()

    @property
    def lost(self) -> frozenset[str]:
        return self.before.rules - self.after.rules if self.after and self.before else frozenset()


def compare(paths: Iterable[Path], before: Engine, after: Engine) -> Iterator[Comparison]:
    """Judges every job below ``paths`` (logs, job directories, outputs trees) with both engines."""
    for path in paths:
        try:
            jobs = list(locate_all(path)) if path.is_dir() and is_outputs_tree(path) else [locate(str(path))]
        except NotFoundError as error:
            yield Comparison(str(path), None, None, str(error))
            continue
        for files in jobs:
            target = _name(files, path)
            try:
                yield Comparison(target, _verdict(files, before), _verdict(files, after))
            except NotFoundError as error:
                yield Comparison(target, None, None, str(error))


def _name(files: JobFiles, path: Path) -> str:
    return files.primary.path if files.primary is not None else files.job_dir or str(path)


def compare_past(records: Iterable[LedgerRecord], before: Engine | None, after: Engine) -> Iterator[Comparison]:
    """Judges the logs of jobs that the ledger remembers, with what accounting said about them. ``before`` None: what
    was said at the time, instead of a second set of rules. Jobs that were not over are left out: their logs have grown.
    """
    for record in records:
        if record.status in {"running", "hanging"}:
            continue
        target = f"job {record.display_id}"
        try:
            past = past_job(record)
            now = _verdict(past.files, after, past.job)
            then = _recorded(record, past, now) if before is None else _verdict(past.files, before, past.job)
        except (NotFoundError, UsageError) as error:
            yield Comparison(target, None, None, f"{target}: {error}")
            continue
        yield Comparison(f"{target} ({_name(past.files, Path(target))})", then, now)


def _recorded(record: LedgerRecord, past: PastJob, now: Verdict) -> Verdict:
    """The verdict of the time. Its rules are not all recorded, so none count as gained or lost."""
    title = past.title if past.title is not None or record.cls != now.cls else now.title
    return replace(now, status=record.status, cls=record.cls, title=title)


def _verdict(files: JobFiles, engine: Engine, job: Job = NO_JOB) -> Verdict:
    return verdict_of(triage(job, files, engine))


def verdict_of(report: Report) -> Verdict:
    primary = report.diagnosis.primary
    rules = {match.rule for attempt in report.facts.attempts for match in attempt.matches}
    return Verdict(
        status=report.diagnosis.status,
        cls=primary.cls if primary is not None else None,
        title=primary.title if primary is not None else None,
        rules=frozenset(rules),
    )
