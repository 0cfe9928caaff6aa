"""A job that events speak of, and what to do about it now that accounting has answered. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from slurm_triage.model.job import Job
from slurm_triage.service.done import Done
from slurm_triage.service.outcome import minimal_record
from slurm_triage.service.own_messages import own_messages
from slurm_triage.service.spool import Arrived
from slurm_triage.service.spool_event import COMPLETION_KIND, KernelMessage
from slurm_triage.service.task import Task
from slurm_triage.settings import Settings
from slurm_triage.slurm import hook_env
from slurm_triage.slurm.retry import Backoff

#: An event's time comes from another host's clock.
CLOCK_SLACK_S = 5.0
#: One message has not the same time in two files: ``date`` gives whole seconds.
KERNEL_SLACK_S = 1.5
#: A job that accounting has never heard of: slurmctld sends new jobs within seconds, after an outage within a minute.
UNKNOWN_WAIT_S = 180.0

#: Hooks whose environment has the job's output file (or leaves it out because it is the default).
_WITH_STDOUT = frozenset({"epilog", "epilog-slurmctld", "jobcomp"})

#: After the first seconds a record that is still not complete is somebody's problem elsewhere.
RETRY = Backoff(first_s=0.5, longest_s=60.0)
#: A full disk is not emptied at once, and every try reads the log again.
UNWRITTEN = Backoff(first_s=60.0, longest_s=3600.0)


@dataclass(slots=True)
class Pending:
    """All events of one raw job id that wait. Times are monotonic seconds, except those in events."""

    job_id: str
    first: float
    next_try: float
    arrived: list[Arrived] = field(default_factory=list)
    tries: int = 0
    unwritten: int = 0
    """How often a report could not be written for a reason that may pass."""
    early: bool = False
    """It has a report from a hook's word alone."""
    settles: set[str] = field(default_factory=set)
    """Names of spool files that are dealt with once ``busy`` is empty."""
    busy: set[str | None] = field(default_factory=set)
    """Keys of attempts whose reports are being made."""
    kernel_used: bool = False
    missed: bool = False
    """Accounting has named it among those that have ended, so it is no hearsay."""

    def is_last_chance(self, now: float) -> bool:
        """If accounting does not know the job by now, it never will."""
        return now - self.first > UNKNOWN_WAIT_S

    def is_only_hearsay(self, owner: int | None) -> bool:
        """Anybody can say of a job that runs for weeks that it has ended; when it really has, the reconciler finds it.
        What its owner says of it is kept, though: it may be the wish for no report. A line of Slurm's log is in a file
        of the worker's, but anybody's word."""
        if self.missed:
            return False
        return bool(self.arrived) and not any(
            arrived.trusted or (arrived.uid == owner and arrived.event.kind != COMPLETION_KIND)
            for arrived in self.arrived
        )

    def kernel(self) -> dict[str, tuple[KernelMessage, ...]]:
        """Messages of the nodes' kernels, by host, from files that a node's root wrote. Each file has the end of the
        kernel's buffer at its time, so most messages are in several: one of the same text and time is told once. Which
        file is the later one nobody can tell from events (rounded clocks, a carrier that was killed)."""
        found: dict[str, list[KernelMessage]] = {}
        for arrived in self.arrived:
            if not arrived.trusted or not arrived.event.kernel:
                continue
            told = found.setdefault(arrived.event.host, [])
            times: dict[str, list[float]] = {}
            for one in told:
                times.setdefault(one.text, []).append(one.time or 0.0)
            told += [
                one
                for one in arrived.event.kernel
                if not any(abs(at - (one.time or 0.0)) < KERNEL_SLACK_S for at in times.get(one.text, ()))
            ]
        return {host: tuple(sorted(told, key=lambda one: one.time or 0.0)) for host, told in found.items()}

    def try_later(self, now: float) -> None:
        """Accounting's record is not what it will be."""
        self.next_try = now + RETRY.delay_s(self.tries)
        self.tries += 1

    def settle_all(self) -> None:
        """What has arrived by now is dealt with once ``busy`` is empty."""
        self.settles.update(arrived.name for arrived in self.arrived)

    def wishes(self, owner: int | None) -> set[str | None]:
        """What ``sbatch --triage=`` and the job's environment ask for, if Slurm or the owner said so."""
        return {arrived.event.wish for arrived in self.arrived if arrived.trusted or arrived.uid == owner}


@dataclass(frozen=True, slots=True)
class Decision:
    """``settled``: once the reports are made, the events are dealt with. ``why``: for the worker's log."""

    tasks: tuple[Task, ...] = ()
    settled: bool = False
    why: str = ""


def decide(
    pending: Pending, job: Job | None, done: Done, settings: Settings, now: float, *, hearsay_since: float = 0.0
) -> Decision:
    """What the answer of accounting means for the pending events. ``now``: monotonic seconds. ``hearsay_since``: of a
    run that ended before (seconds since the epoch), what strangers say is no news."""
    waited = now - pending.first
    if job is None:
        if pending.is_last_chance(now):
            return Decision(settled=True, why="accounting does not know the job")
        return Decision(why="accounting does not know the job yet")
    attempts = (*job.earlier, job)
    meant = _meant(attempts, pending.arrived)
    last_meant = max(meant)
    complete = attempts[last_meant].final
    hearsay = pending.is_only_hearsay(job.uid)
    give_up = waited > (settings.final_wait_s if hearsay else settings.give_up_s)
    enough = waited > settings.final_wait_s
    kernel = pending.kernel()
    tasks = []
    for index, attempt in enumerate(attempts[: last_meant + 1]):
        own = index + 1 == len(attempts) or attempts[index + 1].start is None
        alone = replace(attempt, job_id=pending.job_id, earlier=attempts[:index])
        refined = refine(alone, pending.arrived) if index == len(attempts) - 1 else alone
        key = minimal_record(refined, now=0.0).key
        if key in pending.busy or not attempt.is_terminal:
            continue
        if hearsay and attempt.end is not None and attempt.end < hearsay_since:
            continue
        if attempt.final:
            wanted = not done.is_final(key) or (index in meant and _has_news(pending, attempt))
        else:
            wanted = enough and not done.is_reported(key)
        if wanted:
            tasks.append(Task(refined, key, kernel, settings.report_dir, own))
    why = "" if complete else f"accounting's record is not complete (state {attempts[last_meant].state})"
    return Decision(tuple(tasks), complete or give_up, why)


def refine(job: Job, arrived: Iterable[Arrived]) -> Job:
    """The job with what only a hook knows (true exit code, output file), from hooks that can be believed."""
    for item in arrived:
        if item.trusted and item.event.kind in _WITH_STDOUT:
            job = hook_env.refine(job, item.event.env)
    return job


def _meant(attempts: tuple[Job, ...], arrived: list[Arrived]) -> set[int]:
    """Indexes of the attempts whose end the events report: the last one that had started at the event's time."""
    if not arrived:
        return {len(attempts) - 1}
    found = set()
    for item in arrived:
        started = [
            index
            for index, attempt in enumerate(attempts)
            if (attempt.start is not None and attempt.start <= item.event.time + CLOCK_SLACK_S)
            or (attempt.start is None and attempt.is_terminal)
        ]
        found.add(started[-1] if started else 0)
    return found


def _has_news(pending: Pending, attempt: Job) -> bool:
    """True if a node's kernel said something during the attempt that no report has seen yet."""
    if pending.kernel_used or attempt.start is None:
        return False
    return any(own_messages(messages, attempt, attempt.end or 0.0) for messages in pending.kernel().values())
