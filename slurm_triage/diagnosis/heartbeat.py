"""Was a heartbeat timeout a false alarm, a true death, or really a hang?

The seed's checklist: (1) an accused task that logs its own end was alive; (2) an earlier error on the accused task
makes the alarm true; (3) always compare step progress with the wall clock: training that stood still before the alarm
is a hang, and the heartbeat only the mechanism that ended it; (4) without a completed step the timeout was shorter than
start-up; (5) the cure is a timeout of hours, computed from the job's own numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from slurm_triage.diagnosis.stall import Stall
from slurm_triage.model.diagnosis import Finding
from slurm_triage.model.duration import human
from slurm_triage.model.facts import AttemptFacts
from slurm_triage.model.progress import Progress

#: JAX's own default, and MaxText's (SEED: jax_distributed_heartbeat_timeout_seconds).
DEFAULT_TIMEOUT_S = 100.0
_TASK = re.compile(r"(?:^|task[: ]|replica:\d+/task:)\s*(\d+)\s*$")


@dataclass(frozen=True, slots=True)
class HeartbeatView:
    accused: tuple[int, ...]
    alive: tuple[int, ...]
    init_phase: bool
    timeout_s: float
    notes: tuple[str, ...]


def timeout_of(attempt: AttemptFacts) -> float:
    text = attempt.config.get("jax_distributed_heartbeat_timeout_seconds", "")
    return float(text) if text.isdigit() else DEFAULT_TIMEOUT_S


def view(
    finding: Finding, findings: Sequence[Finding], attempt: AttemptFacts, progress: Progress, stall: Stall | None
) -> HeartbeatView:
    """The checklist, applied to one job."""
    accused = accused_tasks(finding)
    timeout_s = timeout_of(attempt)
    speaking = {
        f.rank
        for f in findings
        if f.match is not None and finding.match is not None and f.match.last_seq >= finding.match.seq
    }
    alive = tuple(t for t in accused if t in speaking)
    init_phase = progress.last_step is None
    notes = []
    if alive:
        tasks = ", ".join(map(str, alive))
        notes.append(
            f"Task {tasks} was declared dead but wrote to the log afterwards: it was alive, the alarm was false."
        )
    if init_phase:
        notes.append(
            f"No step had completed: the heartbeat timeout ({human(timeout_s)}) was shorter than start-up and "
            "compilation. This repeats on every retry until the timeout is raised."
        )
    elif stall is None:
        notes.append("Training was progressing until the alarm; no stall was found before it.")
    return HeartbeatView(accused, alive, init_phase, timeout_s, tuple(notes))


def accused_tasks(finding: Finding) -> tuple[int, ...]:
    """Task ids that the coordination service declared dead, from the message and the lines that follow it."""
    match = finding.match
    if match is None:
        return ()
    found: dict[int, None] = {}
    for name in ("rank", "task"):
        text = match.captures.get(name, "")
        if text.isdigit():
            found[int(text)] = None
    for text in re.findall(r"\d+", match.captures.get("ranks", "")):
        found[int(text)] = None
    for line in match.block:
        if line.startswith("The tasks have crashed"):
            break
        task = _TASK.search(line.strip())
        if task is None:
            break
        found[int(task[1])] = None
    return tuple(found)
