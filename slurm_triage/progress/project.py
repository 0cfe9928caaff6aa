"""The seed's training progress projection: how far the run got, what it lost, when it would have been done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from slurm_triage.model.facts import AttemptFacts, Match, Step, StepSeries
from slurm_triage.model.files import NO_FILES, JobFiles
from slurm_triage.model.job import NO_JOB, Job
from slurm_triage.model.progress import Progress, RankProgress, Start
from slurm_triage.progress.checkpoints import LastCheckpoint, last_checkpoint, steps_of
from slurm_triage.progress.plan import read_plan
from slurm_triage.progress.reference import is_ray_worker, logging_interval, path_of, reference_series
from slurm_triage.progress.step_times import (
    StepTimes,
    checkpoint_cost,
    ordered,
    steady_step_time,
    step_times,
    sum_of_steps,
)
from slurm_triage.progress.wall_clock import SETUP_ALLOWANCE_S, StepClocks, WallClock, is_live, read_wall_clock


def project(
    attempt: AttemptFacts,
    files: JobFiles = NO_FILES,
    job: Job = NO_JOB,
    now: float | None = None,
    fact_kind: Mapping[str, str] | None = None,
    *,
    finished: bool | None = None,
    setup_allowance_s: float = SETUP_ALLOWANCE_S,
) -> Progress:
    """Progress of one attempt. Steps are 0-based: a run of T steps is complete when step T-1 is.

    ``now`` (epoch seconds) only for a job that may still be alive. ``fact_kind`` maps rule ids to kinds of fact.
    ``finished`` overrides "step T-1 was reached" where the caller knows better. ``setup_allowance_s`` replaces the
    seed's 30 minutes where healthy runs of the same model are known to need less or more (twice their setup time).
    ``lost_steps`` of a live run are those that would be lost if it died now.

    ``last_step`` is the furthest that any rank logged, ``last_step_min`` the least; the true last step may be one or
    two further, since the line of step N is written when N+1 is on its way.
    """
    kinds = fact_kind or {}
    facts = _by_kind(attempt, kinds)
    reference = reference_series(attempt, files)
    plan = read_plan(attempt, reference)
    steps = ordered(reference) if reference is not None else ()
    same = [s for s in attempt.series if reference is not None and s.dialect == reference.dialect]
    ranks, last_min = _ranks(same, files)
    first = min((r.first for r in ranks), default=None)
    last = max((r.last for r in ranks), default=None)
    total = plan.total_steps
    if total is None and last is not None and last + 1 in steps_of(facts.get("announced_steps", ()), "steps"):
        total = last + 1
    start, restored_from = _start(facts, first, steps, counts_from_zero=bool(plan.checkpointing))

    times = step_times(steps)
    step_time = None if first is None else steady_step_time(times, first, plan)
    sum_s, complete = sum_of_steps(reference, times) if reference is not None else (None, False)
    clocks = _step_clocks(same, () if start == "unknown" else steps, sum_s, complete)
    wall = read_wall_clock(attempt, job, now, clocks, setup_allowance_s)

    # Weights loaded for a run that counts from 0 again are no step of this run.
    resumed = restored_from if restored_from is None or first is None or restored_from < first else None
    reached = last if last is not None else resumed
    if finished is None and total is not None and reached is not None and reached >= total - 1:
        finished = True
    saved = last_checkpoint(
        plan, files.checkpoints, facts.get("checkpoint_started", ()), facts.get("checkpoint_saved", ()), resumed, last
    )
    lost_steps, lost_s = _lost(finished, saved, resumed, first, last, times, step_time)
    remaining = None if total is None or reached is None else max(0, total - 1 - reached)
    return Progress(
        start=start,
        restored_from=restored_from,
        first_step=first,
        last_step=last,
        last_step_min=last_min,
        total_steps=total,
        steps_this_run=None if first is None or last is None else last - first + 1,
        percent=None if total is None or reached is None else min(100.0, (reached + 1) / total * 100),
        step_time_s=step_time,
        expected_step=_expected(is_live(attempt, job, now), last, total, step_time, wall),
        checkpoint_period=plan.checkpoint_period,
        checkpointing=plan.checkpointing,
        last_checkpoint=saved.step,
        last_checkpoint_confirmed=saved.confirmed,
        checkpoint_cost_s=None if first is None else checkpoint_cost(times, first, step_time, plan),
        lost_steps=lost_steps,
        lost_s=lost_s,
        remaining_s=0.0
        if remaining == 0
        else None
        if remaining is None or step_time is None
        else remaining * step_time,
        sum_step_s=sum_s,
        wall_s=wall.wall_s,
        unaccounted_s=wall.unaccounted_s,
        setup_s=wall.setup_s,
        silence_s=wall.silence_s,
        last_step_time=clocks.last,
        source=path_of(reference, files) if reference is not None else None,
        ranks=ranks,
        silence_basis=wall.basis,
        longest_step_s=max(times.after(first), default=None) if first is not None else None,
    )


def _by_kind(attempt: AttemptFacts, kinds: Mapping[str, str]) -> dict[str, list[Match]]:
    found: dict[str, list[Match]] = {}
    for match in attempt.facts:
        kind = kinds.get(match.rule)
        if kind is not None:
            found.setdefault(kind, []).append(match)
    return found


def _ranks(all_series: Iterable[StepSeries], files: JobFiles) -> tuple[tuple[RankProgress, ...], int | None]:
    """(first and last step of every rank over all files, the last step of the rank that is furthest behind).

    Where Ray workers' own files were read, ranks known only from the job's log do not count as behind: that log may
    have lost its tail.
    """
    spans: dict[int | None, tuple[int, int]] = {}
    own_file: set[int | None] = set()
    for series in all_series:
        numbers = list(map(attrgetter("step"), series.steps))
        if not numbers:
            continue
        first, last = min(numbers), max(numbers)
        known = spans.get(series.rank)
        spans[series.rank] = (first, last) if known is None else (min(first, known[0]), max(last, known[1]))
        if is_ray_worker(series, files):
            own_file.add(series.rank)
    order = sorted(spans, key=lambda rank: -1 if rank is None else rank)
    ranks = tuple(RankProgress(rank, *spans[rank]) for rank in order)
    trusted = [r.last for r in ranks if not own_file or r.rank in own_file]
    return ranks, min(trusted, default=None)


def _start(
    facts: Mapping[str, list[Match]], first: int | None, steps: Sequence[Step], *, counts_from_zero: bool
) -> tuple[Start, int | None]:
    """How the run began, and the checkpoint it began from.

    A restore line decides (a fresh run prints that it found nothing to restore, and so does one without
    checkpointing). Without either, a first step N > 0 means "restored from N-1" (the seed), but only in a log that
    shows every step: a line every n steps starts beyond 0 anyway, and an excerpt starts anywhere. Many programs count
    from 1; that a checkpoint of step 0 was there is believed of those whose log tells of checkpoints.
    """
    if facts.get("restore"):
        named = steps_of(facts["restore"])
        return "restored", max(named) if named else None if first is None else first - 1
    if facts.get("fresh_start"):
        return "fresh", None
    if first is None:
        return "unknown", None
    if first == 0:
        return "fresh", None
    if logging_interval([s.step for s in steps]) == 1 and (first > 1 or counts_from_zero):
        return "restored", first - 1
    return "unknown", None


def _step_clocks(
    all_series: Iterable[StepSeries], steps: Sequence[Step], sum_s: float | None, complete: bool
) -> StepClocks:
    """When the first completed step began and the last one ended.

    The first line comes late: with asynchronous dispatch it appears only after the compilation, which is booked in a
    later step (28.7 s in step 2 seen). Counting back from the last line covers that; the earlier of the two holds.
    Without ``steps`` (a log whose beginning is missing) there is no beginning.
    """
    begins = []
    if steps and steps[0].time is not None:
        begins.append(steps[0].time - (steps[0].seconds or 0.0))
    if begins and complete and sum_s is not None and steps[-1].time is not None:
        begins.append(steps[-1].time - sum_s)
    begin = min(begins, default=None)
    ends = [t for s in all_series if s.steps and (t := s.steps[-1].time) is not None]
    return StepClocks(begin, max(ends, default=None), sum_s, complete)


def _expected(live: bool, last: int | None, total: int | None, step_time: float | None, wall: WallClock) -> int | None:
    """The step that a healthy run would have completed by now."""
    if not live or last is None or not step_time or wall.silence_s is None:
        return None
    expected = last + int(wall.silence_s / step_time)
    return expected if total is None else max(last, min(expected, total - 1))


def _lost(
    finished: bool | None,
    saved: LastCheckpoint,
    resumed: int | None,
    first: int | None,
    last: int | None,
    times: StepTimes,
    step_time: float | None,
) -> tuple[int | None, float | None]:
    """Steps, and their seconds, that have to be done again: those since the last checkpoint or, without one, all."""
    if finished:
        return 0, 0.0
    if first is None or last is None or not saved.known:
        return None, None
    base = saved.step if saved.step is not None else resumed if resumed is not None else first - 1
    steps = max(0, last - base)
    seconds = times.after(base)
    if len(seconds) == steps:
        return steps, sum(seconds)
    return steps, None if step_time is None else steps * step_time
