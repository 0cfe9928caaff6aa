"""Training progress and throughput as numbers. Steps are 0-based; unknown is None."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Start = Literal["fresh", "restored", "unknown"]
Pattern = Literal["constant", "phased", "gradual", "periodic", "one-time"]
SilenceBasis = Literal["clock", "arithmetic"]


#: A job is silent for minutes right after step kP while a checkpoint is written; ten minutes is what the launcher's own
#: sweep scripts wait for output. Sites may want less (``stall_after_s``).
MIN_SILENCE_S = 600.0


@dataclass(frozen=True, slots=True)
class RankProgress:
    rank: int | None
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Progress:
    """The seed's training progress projection. See docs/json.md for each field."""

    start: Start = "unknown"
    restored_from: int | None = None
    first_step: int | None = None
    last_step: int | None = None
    last_step_min: int | None = None
    total_steps: int | None = None
    steps_this_run: int | None = None
    percent: float | None = None
    step_time_s: float | None = None
    expected_step: int | None = None
    checkpoint_period: int | None = None
    checkpointing: bool | None = None
    last_checkpoint: int | None = None
    last_checkpoint_confirmed: bool | None = None
    checkpoint_cost_s: float | None = None
    lost_steps: int | None = None
    lost_s: float | None = None
    remaining_s: float | None = None
    sum_step_s: float | None = None
    wall_s: float | None = None
    unaccounted_s: float | None = None
    setup_s: float | None = None
    """Time from the job's start to the first completed step's begin, where clocks allow it."""
    silence_s: float | None = None
    """Time from the last completed step to the end of the job (or ``now``), where clocks or arithmetic allow it."""
    last_step_time: float | None = None
    source: str | None = None
    """Path of the file that the reference series comes from."""
    ranks: tuple[RankProgress, ...] = ()
    silence_basis: SilenceBasis | None = None
    """``clock``: measured. ``arithmetic``: a lower bound, wall time minus the setup allowance minus the steps."""
    longest_step_s: float | None = None
    """The slowest step after this run's first (whose time holds the compilation)."""
    least_silence_s: float = MIN_SILENCE_S
    """Shorter silence after a step is no stall, however fast the steps are."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """Early against recent throughput; ``change`` is the relative change (-0.23 = 23 % slower)."""

    early: float | None = None
    recent: float | None = None
    change: float | None = None
    degraded: bool = False
    pattern: Pattern | None = None
    from_step: int | None = None
    to_step: int | None = None
    unit: str | None = None
    hints: tuple[str, ...] = ()
    slowest: float | None = None
    """Throughput of the slowest lasting phase of a degraded run; ``change`` compares it with ``early``."""


@dataclass(frozen=True, slots=True)
class Cost:
    gpus: int | None = None
    gpu_hours: float | None = None
    gpu_hours_lost: float | None = None
