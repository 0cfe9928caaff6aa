"""What holds for any attempt whatever its log says."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slurm_triage.model.facts import AttemptFacts, Header, Step, StepSeries
from slurm_triage.model.files import CheckpointDir, JobFiles, LogFile
from slurm_triage.model.job import Job
from slurm_triage.progress.cost import cost
from slurm_triage.progress.heartbeat_timeout import recommended_timeout_s
from slurm_triage.progress.project import project
from slurm_triage.progress.throughput import throughput
from tests.progress.builders import KINDS, attempt, fact

NUMBERS = st.one_of(st.none(), st.floats(0, 1e5), st.sampled_from([0.0, 1e-9, math.nan, math.inf]))
CLOCKS = st.one_of(st.none(), st.floats(1.7e9, 1.9e9), st.floats(0, 1e6))
STEPS = st.builds(Step, st.integers(0, 400), NUMBERS, NUMBERS, NUMBERS, CLOCKS, st.integers(0, 10**6))


def one_entry_per_step(steps: list[Step]) -> tuple[Step, ...]:
    """What the log reader promises; a real number of seconds is never nan."""
    clean = [replace(s, seconds=None if s.seconds is not None and math.isnan(s.seconds) else s.seconds) for s in steps]
    return tuple({s.step: s for s in clean}.values())


SERIES = st.builds(
    StepSeries,
    st.one_of(st.none(), st.integers(0, 5)),
    st.integers(0, 3),
    st.just("maxtext"),
    st.just("tokens/s/device"),
    st.lists(STEPS, max_size=60).map(one_entry_per_step),
    sparse=st.booleans(),
    printed_total=st.one_of(st.none(), st.integers(-1, 500)),
    higher_is_better=st.booleans(),
    dropped_steps=st.integers(0, 5),
    dropped_s=st.floats(0, 1e4),
)
CONFIG = st.dictionaries(
    st.sampled_from(
        [
            "steps",
            "checkpoint_period",
            "enable_checkpointing",
            "async_checkpointing",
            "learning_rate_schedule_steps",
            "profiler",
            "profiler_steps",
            "skip_first_n_steps_for_profiler",
            "eval_interval",
        ]
    ),
    st.one_of(st.integers(-1, 500).map(str), st.sampled_from(["True", "false", "", "xplane", "1e3"])),
)
FACTS = st.lists(
    st.builds(fact, st.sampled_from(sorted(KINDS)), st.one_of(st.none(), st.integers(0, 500)), seq=st.integers(0, 999)),
    max_size=6,
)
ATTEMPTS = st.builds(
    lambda series, config, facts, wall, begin, end: attempt(
        *series, config=config, facts=facts, wall_s=wall, start_time=begin, end_time=end, header=Header(job_id="7")
    ),
    st.lists(SERIES, max_size=4),
    CONFIG,
    FACTS,
    st.one_of(st.none(), st.floats(0, 1e6)),
    CLOCKS,
    CLOCKS,
)
JOBS = st.builds(
    Job,
    state=st.sampled_from([None, "RUNNING", "FAILED", "COMPLETED", "CANCELLED", "PENDING"]),
    start=CLOCKS,
    end=CLOCKS,
    gpus=st.one_of(st.none(), st.integers(0, 64)),
)
FILES = st.builds(
    lambda dirs: JobFiles(
        logs=(LogFile("a.log", "primary"), LogFile("w.out", "ray-worker")),
        checkpoints=tuple(CheckpointDir(step, done, str(step)) for step, done in dirs),
    ),
    st.lists(st.tuples(st.integers(0, 500), st.booleans()), max_size=5),
)


def same(a: Any, b: Any) -> bool:
    """Equality in which nan equals nan."""
    return repr(a) == repr(b)


@given(ATTEMPTS, FILES, JOBS, CLOCKS)
def test_numbers_stay_in_their_range(run: AttemptFacts, on_disk: JobFiles, job: Job, now: float | None) -> None:
    found = project(run, on_disk, job, now, KINDS)
    assert found.percent is None or 0 <= found.percent <= 100
    for name in [
        "last_step",
        "steps_this_run",
        "expected_step",
        "lost_steps",
        "lost_s",
        "remaining_s",
        "sum_step_s",
        "wall_s",
        "unaccounted_s",
        "setup_s",
        "silence_s",
        "step_time_s",
        "checkpoint_cost_s",
        "longest_step_s",
        "last_checkpoint",
    ]:
        value = getattr(found, name)
        assert value is None or value >= 0, name
    if found.last_step is not None and found.last_step_min is not None:
        assert found.last_step_min <= found.last_step
        assert found.lost_steps is None or found.lost_steps <= found.last_step + 1
    assert (found.last_checkpoint is None) == (found.last_checkpoint_confirmed is None)
    assert (found.silence_s is None) == (found.silence_basis is None)
    if found.expected_step is not None:
        assert found.expected_step >= (found.last_step or 0)


@given(ATTEMPTS, FILES, JOBS, CLOCKS)
def test_throughput_cost_and_timeout_never_fail(
    run: AttemptFacts, on_disk: JobFiles, job: Job, now: float | None
) -> None:
    progress = project(run, on_disk, job, now, KINDS)
    speed = throughput(run, progress, KINDS)
    assert speed.degraded == (speed.slowest is not None)
    if speed.degraded:
        assert speed.change is not None
        assert speed.change < -0.09
        assert speed.from_step is not None
        assert speed.to_step is not None
        assert speed.from_step <= speed.to_step
        assert speed.pattern in {"constant", "phased", "gradual", "one-time"}
    spent = cost(job, run, progress, 2)
    if spent.gpu_hours_lost is not None and spent.gpu_hours is not None:
        assert 0 <= spent.gpu_hours_lost <= spent.gpu_hours
    seconds = recommended_timeout_s(progress, run.config)
    assert seconds is None or 3600 <= seconds <= 86_400


@given(ATTEMPTS, FILES, JOBS, st.randoms(use_true_random=False))
def test_the_order_of_ranks_and_facts_changes_nothing(run: AttemptFacts, on_disk: JobFiles, job: Job, rng: Any) -> None:
    series = list({(s.rank, s.file): s for s in run.series}.values())
    facts = list(run.facts)
    one = replace(run, series=tuple(series))
    rng.shuffle(series)
    rng.shuffle(facts)
    other = replace(run, series=tuple(series), facts=tuple(facts))
    assert same(project(one, on_disk, job, None, KINDS), project(other, on_disk, job, None, KINDS))


@given(ATTEMPTS, JOBS)
def test_losses_play_no_part(run: AttemptFacts, job: Job) -> None:
    lossless = tuple(replace(s, steps=tuple(replace(x, loss=math.nan) for x in s.steps)) for s in run.series)
    other = replace(run, series=lossless)
    progress = project(run, job=job)
    assert same(progress, project(other, job=job))
    assert same(throughput(run, progress), throughput(other, progress))
