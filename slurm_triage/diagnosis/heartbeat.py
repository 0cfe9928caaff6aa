"""Was a heartbeat timeout a false alarm, a true death, or really a hang?

The seed's checklist: (1) an accused task that logs its own end was alive; (2) an earlier error on the accused task
makes the alarm true; (3) always compare step progress with the wall clock: training that stood still before the alarm
is a hang, and the heartbeat only the mechanism that ended it; (4) without a completed step the timeout was shorter than
start-up; (5) the cure is a timeout of hours, computed from the job's own numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from slurm_triage.diagnosis.classes import SYMPTOMS, level
from slurm_triage.diagnosis.stall import Stall
from slurm_triage.model.diagnosis import Finding
from slurm_triage.model.duration import human
from slurm_triage.model.facts import AttemptFacts
from slurm_triage.model.progress import Progress

#: JAX's own default, and MaxText's (SEED: jax_distributed_heartbeat_timeout_seconds).
DEFAULT_TIMEOUT_S = 100.0
_TASK = re.compile(r"(?:^|task[: ]|replica:\d+/task:)\s*(\d+)\s*$")


def timeout_of(attempt: AttemptFacts) -> float:
    text = attempt.config.get("jax_distributed_heartbeat_timeout_seconds", "")
    return float(text) if text.isdigit() else DEFAULT_TIMEOUT_S


def checklist(
    finding: Finding, findings: Sequence[Finding], attempt: AttemptFacts, progress: Progress, stall: Stall | None
) -> tuple[str, ...]:
    """The checklist, applied to one job: one note per item that says something. ``findings`` with final roles."""
    accused = accused_ranks(finding, attempt)
    said = finding.match.seq if finding.match is not None else -1
    # Only the coordination agent's own words show that the process lived; its shell speaks after its death as well.
    alive = [r for r in accused if any(f.rank == r and f.cls in SYMPTOMS and _last_seq(f) >= said for f in findings)]
    fatal = {f.rank: f.title for f in findings if level(f.cls) <= 1 and f.role in {"root", "contributor"}}
    dead = [r for r in accused if r in fatal and r not in alive]
    notes = []
    if alive:
        notes.append(
            f"Declared dead, but alive (they reported the same error themselves, so the alarm was false): rank "
            f"{_listed(alive)}."
        )
    notes.extend(f"Rank {rank} really died, the alarm was right: {fatal[rank]}." for rank in dead)
    timeout = human(timeout_of(attempt))
    if progress.last_step is None and not dead:
        notes.append(
            f"No step had completed: the heartbeat timeout ({timeout}) was shorter than start-up and compilation. This "
            "repeats on every retry until the timeout is raised."
        )
    elif stall is not None:
        notes.append(
            f"Training had stood still for {human(stall.silence_s)} before the alarm, longer than the heartbeat "
            f"timeout ({timeout}) explains: the heartbeat only ended a hang; a longer timeout would not have helped."
        )
    elif not dead and progress.silence_s is None and progress.unaccounted_s is None:
        summed = f" ({human(progress.sum_step_s)})" if progress.sum_step_s is not None else ""
        notes.append(
            f"No clock tells whether training stood still before the alarm: compare the sum of the step times{summed} "
            "with the job's wall time; a gap of more than half an hour means a hang."
        )
    elif not dead:
        notes.append("Training was progressing until the alarm; no stall was found before it.")
    return tuple(notes)


def _last_seq(finding: Finding) -> int:
    return finding.match.last_seq if finding.match is not None else -1


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks))


def accused_ranks(finding: Finding, attempt: AttemptFacts) -> tuple[int, ...]:
    """Ranks (labels, node indexes) of the tasks declared dead. With one process per GPU the coordination service counts
    processes: task = node x LOCAL_WORLD_SIZE + local rank."""
    per_node = max(1, attempt.procs_per_node or 1)
    return tuple(dict.fromkeys(task // per_node for task in accused_tasks(finding)))


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
