"""Was a heartbeat timeout a false alarm, a true death, or really a hang?

The seed's checklist: (1) an accused task that logs its own end was alive; (2) an earlier error on the accused task
makes the alarm true; (3) always compare step progress with the wall clock: training that stood still before the alarm
is a hang, and the heartbeat only the mechanism that ended it; (4) without a completed step the timeout was shorter than
start-up; (5) the cure is a timeout of hours, computed from the job's own numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from slurm_triage.diagnosis.classes import SYMPTOMS, level
from slurm_triage.diagnosis.stall import Stall
from slurm_triage.model.diagnosis import Finding
from slurm_triage.model.duration import human
from slurm_triage.model.facts import AttemptFacts
from slurm_triage.model.nodelist import fold_ranks
from slurm_triage.model.progress import Progress

#: JAX's own default, and MaxText's (SEED: jax_distributed_heartbeat_timeout_seconds).
DEFAULT_TIMEOUT_S = 100.0
#: Capture of a heartbeat finding: the ranks that really had died.
TRUE_ALARM = "died"
_TASK = re.compile(r"(?:^|task[: ]|replica:\d+/task:)\s*(\d+)\s*$")


def timeout_of(attempt: AttemptFacts) -> float:
    text = attempt.config.get("jax_distributed_heartbeat_timeout_seconds", "")
    return float(text) if text.isdigit() else DEFAULT_TIMEOUT_S


def checklist(
    finding: Finding, findings: Sequence[Finding], attempt: AttemptFacts, progress: Progress, stall: Stall | None
) -> tuple[str, ...]:
    """The checklist, applied to one job: one note per item that says something. ``findings`` with final roles."""
    alive = alive_ranks(finding, findings, attempt)
    dead = died_before(finding, findings, attempt)
    notes = []
    if alive:
        notes.append(
            f"Declared dead, but alive (they reported the same error themselves, so the alarm was false): rank "
            f"{_listed(alive)}."
        )
    notes.extend(f"Rank {rank} really died, the alarm was right: {why}." for rank, why in dead.items())
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


def alive_ranks(finding: Finding, findings: Sequence[Finding], attempt: AttemptFacts) -> tuple[int, ...]:
    """Accused ranks whose coordination agent spoke after the alarm. Only its own words show that the process lived: its
    shell speaks after its death as well."""
    said = finding.match.seq if finding.match is not None else -1
    spoke = {f.rank for f in findings if f.cls in SYMPTOMS and _last_seq(f) >= said}
    return tuple(r for r in accused_ranks(finding, attempt) if r in spoke)


def died_before(finding: Finding, findings: Sequence[Finding], attempt: AttemptFacts) -> dict[int, str]:
    """Accused ranks that had ended before the alarm, and what shows it: an error of their own, or that another rank's
    connection to the only accused was closed (a process that lives and hangs keeps its connections)."""
    accused = accused_ranks(finding, attempt)
    alive = alive_ranks(finding, findings, attempt)
    dead = {f.rank: f.title for f in findings if level(f.cls) <= 1 and f.role in {"root", "contributor"}}
    if len(accused) == 1 and accused[0] not in dead:
        said = finding.match.seq if finding.match is not None else -1
        for other in findings:
            match = other.match
            if match is not None and match.captures.get("gone") and match.seq < said and other.rank != accused[0]:
                by = "another rank" if other.rank is None else f"rank {other.rank}"
                dead[accused[0]] = f"{by} had lost its connection to it before, and it left no message"
                break
    return {rank: dead[rank] for rank in accused if rank in dead and rank not in alive}


def with_alarm(findings: Sequence[Finding], attempt: AttemptFacts) -> tuple[Finding, ...]:
    """Heartbeat findings name the accused. Those of a death that did happen are marked for the advice: a longer
    time-out would only have delayed them."""
    return tuple(_with_alarm(f, findings, attempt) if f.cls == "heartbeat-timeout" else f for f in findings)


def _with_alarm(finding: Finding, findings: Sequence[Finding], attempt: AttemptFacts) -> Finding:
    accused = accused_ranks(finding, attempt)
    if finding.match is None or not accused:
        return finding
    if not any(character.isdigit() for character in finding.title):
        finding = replace(finding, title=f"{finding.title}: rank{'s' * (len(accused) > 1)} {fold_ranks(accused)}")
    dead = died_before(finding, findings, attempt)
    if len(dead) < len(accused) or finding.match is None:
        return finding
    captures = {**finding.match.captures, TRUE_ALARM: _listed(accused)}
    return replace(finding, match=replace(finding.match, captures=captures))


def is_true_alarm(finding: Finding) -> bool:
    return finding.match is not None and TRUE_ALARM in finding.match.captures


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
