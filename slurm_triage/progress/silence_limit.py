"""How long a run may be silent before that means something."""

from __future__ import annotations

from slurm_triage.model.progress import Progress

#: A job is silent for minutes right after step kP while a checkpoint is written, so the limit grows with the steps.
_STEP_TIMES = 10.0
_LONGEST_STEPS = 2.0


def silence_limit_s(progress: Progress) -> float:
    """Seconds after the last completed step from which on silence is a stall: the most of ten step times, twice the
    longest step seen (a save is booked in step kP+1) and what counts at least (ten minutes)."""
    return max(
        progress.least_silence_s,
        _STEP_TIMES * (progress.step_time_s or 0.0),
        _LONGEST_STEPS * (progress.longest_step_s or 0.0),
    )


def is_stalled(progress: Progress) -> bool:
    """True when the silence is known and longer than healthy training can be silent."""
    return progress.silence_s is not None and progress.silence_s > silence_limit_s(progress)
