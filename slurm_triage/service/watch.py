"""Is a running job making progress? A verdict from its growing log, with the evidence for it.

Launcher logs carry no clock, so the watcher's own looks are the clock: a step counts from when it was seen. Whatever
else the job prints (Ray's buffered output, topology messages) is no progress, and neither is a new mtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from slurm_triage.diagnosis.completion import read_end
from slurm_triage.diagnosis.stall import MIN_INIT_SILENCE_S, phase_of
from slurm_triage.model.duration import human
from slurm_triage.model.files import NO_FILES
from slurm_triage.model.job import NO_JOB, Job
from slurm_triage.model.progress import MIN_SILENCE_S, Progress
from slurm_triage.progress.project import project
from slurm_triage.progress.silence_limit import silence_limit_s
from slurm_triage.service.follow import Follower

#: A checkpoint or an evaluation in the middle of training may be as long as the set-up that the seed allows for.
LONG_PHASE_S = MIN_INIT_SILENCE_S
LONG_PHASES = frozenset({"init", "restore", "checkpoint", "eval"})
#: ``Look.status`` where the log shows that the job is over.
ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Look:
    """``silence_s``: since the last step (or the first look) was seen, a lower bound; ``limit_s``: what is normal."""

    status: str
    phase: str
    silence_s: float
    limit_s: float
    progress: Progress
    after: str | None = None
    """What the log spoke of last."""
    evidence: tuple[str, ...] = ()

    def line(self, job_id: str) -> str:
        """One line for a terminal or a notification."""
        progress = self.progress
        if progress.last_step is None:
            where = f"no step yet ({self.phase})"
        else:
            of = f"/{progress.total_steps - 1}" if progress.total_steps else ""
            share = f" ({progress.percent:.1f} %)" if progress.percent is not None else ""
            speed = f", {progress.step_time_s:.3g} s per step" if progress.step_time_s else ""
            where = f"step {progress.last_step}{of}{share}{speed}"
        if self.status == ENDED:
            return f"{job_id} has ended: {where}; slurm-triage tells why"
        last = f"silent for {human(self.silence_s)} of {human(self.limit_s)} allowed in {self.phase}"
        return f"{job_id} {self.status}: {where}, {last}"


def look(
    follower: Follower,
    job: Job,
    kinds: Mapping[str, str],
    now: float,
    limit_s: float | None = None,
    least_silence_s: float = MIN_SILENCE_S,
) -> Look:
    """The verdict at this moment. ``limit_s`` replaces the limit of the phase."""
    attempt = follower.attempt()
    progress = replace(project(attempt, NO_FILES, job, now, fact_kind=kinds), least_silence_s=least_silence_s)
    phase, after = phase_of(attempt, progress, kinds)
    normal = silence_limit_s(progress)
    if phase in LONG_PHASES:
        normal = max(normal, LONG_PHASE_S)
    limit = limit_s if limit_s is not None else normal
    seen = [one.at for one in follower.ranks.values() if one.at is not None]
    since = max(seen, default=follower.first_look if follower.first_look is not None else now)
    silence = max(now - since, progress.silence_s or 0.0)
    end = read_end(NO_JOB, attempt, progress)
    ended = bool(attempt.summaries) or end.stop is not None or any(one.code for one in attempt.exits)
    hanging = silence > limit and not ended
    return Look(
        status=ENDED if ended else "hanging" if hanging else "running",
        phase=phase,
        silence_s=silence,
        limit_s=limit,
        progress=progress,
        after=after,
        evidence=_evidence(follower, progress, after, now) if hanging else (),
    )


def _evidence(follower: Follower, progress: Progress, after: str | None, now: float) -> tuple[str, ...]:
    lines = []
    steps = {one.step for one in follower.ranks.values()}
    if len(steps) == 1:
        lines.append(f"all {len(follower.ranks)} ranks stopped after step {steps.pop()}: a collective waits for all")
    elif steps:
        behind = sorted(str(r.rank) for r in follower.ranks.values() if r.step == min(steps) and r.rank is not None)
        lines.append(
            f"ranks stopped at steps {min(steps)} to {max(steps)}; furthest behind: rank {', '.join(behind[:8])}"
        )
    if progress.expected_step is not None and progress.last_step is not None:
        lines.append(f"step {progress.expected_step} was due by now, step {progress.last_step} was the last")
    if after is not None:
        lines.append(f"the log last spoke of {after}")
    if follower.quiet_since is not None:
        quiet = human(now - follower.quiet_since)
        if now - follower.quiet_since > 60:
            lines.append(f"the log itself has not grown for {quiet}")
        elif follower.first_look is not None and follower.quiet_since > follower.first_look:
            lines.append("the log still grows, but not by steps")
    return tuple(lines)
