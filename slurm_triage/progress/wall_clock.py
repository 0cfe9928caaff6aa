"""How long the attempt took, how long until it got going, and how long it was silent at the end."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_triage.model.facts import AttemptFacts
from slurm_triage.model.job import Job
from slurm_triage.model.progress import SilenceBasis

#: What the seed grants for setup and compilation ("~15-30 min"), at its upper end: without clocks, silence is only
#: claimed beyond it, so a job shorter than this is never called silent by arithmetic alone.
SETUP_ALLOWANCE_S = 1800.0
#: Slurm's states of a job whose processes may still be there.
_RUNNING_STATES = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT"})
#: Difference that clocks of several hosts, and Slurm's whole seconds, may show.
_CLOCK_SLACK_S = 120.0
#: A log without dates has clocks of day 0: good for differences only.
_FIRST_DATED_S = 31_536_000.0
#: Clocks without a year get one by guessing; what spans nearly a year was guessed wrong.
_LONGEST_LOG_S = 300 * 86_400.0
#: The present belongs to a log's job only if the log is not older than any job can be.
_LONGEST_JOB_S = 60 * 86_400.0
#: Sum of steps may exceed the wall time by rounding; beyond that the two do not belong together.
_ROUNDING_S, _ROUNDING_SHARE = 5.0, 0.02


@dataclass(frozen=True, slots=True)
class StepClocks:
    """What the steps say about time. ``begin`` is the wall clock at which the first completed step began."""

    begin: float | None
    last: float | None
    sum_s: float | None
    complete: bool


@dataclass(frozen=True, slots=True)
class WallClock:
    wall_s: float | None
    setup_s: float | None
    silence_s: float | None
    basis: SilenceBasis | None
    unaccounted_s: float | None


def is_live(attempt: AttemptFacts, job: Job, now: float | None) -> bool:
    """True when ``now`` is given and nothing says that the attempt has ended or, requeued, waits to start again."""
    may_run = job.end is None and (job.state is None or job.state in _RUNNING_STATES)
    return now is not None and may_run and not attempt.summaries


def read_wall_clock(
    attempt: AttemptFacts, job: Job, now: float | None, steps: StepClocks, setup_allowance_s: float = SETUP_ALLOWANCE_S
) -> WallClock:
    """Accounting first, then the launcher's summary, then the clocks in the log.

    Clocks of log and accounting are only compared when the steps fall into the job's time: zone-less log clocks may be
    hours off. ``setup_s`` needs a start on the same clock as the steps. ``silence_s`` is measured where clocks reach
    from the last step to the end; else it is what remains of the wall time after ``setup_allowance_s`` and the steps,
    a lower bound. ``unaccounted_s`` is wall time minus step seconds, minus ``setup_s`` where that is known.
    """
    start, end = _job_span(attempt, job, now)
    wall_s, from_log = _wall(attempt, job, now, start, end)
    if from_log and wall_s is not None and steps.complete and wall_s + _ROUNDING_S < (steps.sum_s or 0.0):
        # Only a few lines carry a clock, and they do not span the run.
        wall_s, from_log = None, False
    same_clock = _inside(steps, start, end)
    setup_s = None
    if steps.begin is not None and same_clock and start is not None:
        setup_s = max(0.0, steps.begin - start)
    elif steps.begin is not None and from_log and attempt.start_time is not None and attempt.start_time < steps.begin:
        setup_s = steps.begin - attempt.start_time
    silence_s, basis = _silence(attempt, steps, end if same_clock else None, wall_s, setup_allowance_s)
    return WallClock(wall_s, setup_s, silence_s, basis, _unaccounted(wall_s, setup_s, steps))


def _job_span(attempt: AttemptFacts, job: Job, now: float | None) -> tuple[float | None, float | None]:
    """Start and end of this attempt by accounting; ``now`` ends what is still alive.

    A log with several attempts under one accounting record (a restart loop in the script) shares the job's end only.
    """
    own_record = attempt.index == 0 or bool(job.earlier) or bool(job.restarts)
    end = now if is_live(attempt, job, now) else job.end
    return (job.start if own_record else None), end


def _wall(
    attempt: AttemptFacts, job: Job, now: float | None, start: float | None, end: float | None
) -> tuple[float | None, bool]:
    """(wall time, whether it is measured by the clocks of the log)."""
    if start is not None and end is not None and end >= start:
        return end - start, False
    if job.elapsed_s is not None and attempt.index == 0 and not is_live(attempt, job, now):
        return job.elapsed_s, False
    walls = [s.wall_s for s in attempt.summaries if s.wall_s is not None]
    if walls:
        return max(walls), False
    begin, finish = attempt.start_time, attempt.end_time
    if begin is not None and begin >= _FIRST_DATED_S and end is not None and begin <= end < begin + _LONGEST_JOB_S:
        finish = end
    if begin is None or finish is None or not begin < finish < begin + _LONGEST_LOG_S:
        return None, False
    return finish - begin, True


def _inside(steps: StepClocks, start: float | None, end: float | None) -> bool:
    """Whether the steps' clocks can be those of accounting."""
    moments = [t for t in (steps.begin, steps.last) if t is not None]
    if not moments or (start is None and end is None) or min(moments) < _FIRST_DATED_S:
        return False
    after_start = start is None or min(moments) >= start - _CLOCK_SLACK_S
    return after_start and (end is None or max(moments) <= end + _CLOCK_SLACK_S)


def _silence(
    attempt: AttemptFacts, steps: StepClocks, end: float | None, wall_s: float | None, allowance_s: float
) -> tuple[float | None, SilenceBasis | None]:
    if steps.last is not None and end is not None:
        return max(0.0, end - steps.last), "clock"
    busy_s = steps.last - steps.begin if steps.last is not None and steps.begin is not None else None
    if busy_s is None and steps.complete:
        busy_s = steps.sum_s
    idle_s = None if wall_s is None or busy_s is None else max(0.0, wall_s - busy_s)
    measured = None
    if steps.last is not None and attempt.end_time is not None:
        # Steps with a time of day only and other lines with a date are years apart: not comparable. Neither are steps
        # of a container that keeps UTC and Slurm's lines in local time: such silence does not fit into the job.
        since = attempt.end_time - steps.last
        longest = _LONGEST_LOG_S if idle_s is None else idle_s + _CLOCK_SLACK_S
        measured = since if 0 < since < longest else None
    derived = None if idle_s is None else max(0.0, idle_s - allowance_s)
    if measured is not None and (derived is None or measured >= derived):
        return measured, "clock"
    return (derived, "arithmetic") if derived is not None else (None, None)


def _unaccounted(wall_s: float | None, setup_s: float | None, steps: StepClocks) -> float | None:
    if wall_s is None or steps.sum_s is None or not steps.complete:
        return None
    rest = wall_s - steps.sum_s - (setup_s or 0.0)
    if rest < -max(_ROUNDING_S, _ROUNDING_SHARE * wall_s):
        return None
    return max(0.0, rest)
