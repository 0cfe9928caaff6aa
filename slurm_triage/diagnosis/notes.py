"""Remarks that a report makes beside the cause, and the settings that the next run should change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slurm_triage.diagnosis import heartbeat, ranks, refine, special
from slurm_triage.diagnosis.classes import LOST_RESULTS, OUTCOMES, STAGE_TIMEOUTS, SYMPTOMS, WITNESSES
from slurm_triage.diagnosis.cluster_map import job_nodes
from slurm_triage.diagnosis.collectives import Comparison, sub_cause
from slurm_triage.diagnosis.evidence import Evidence
from slurm_triage.diagnosis.stall import Stall
from slurm_triage.model.diagnosis import Finding
from slurm_triage.model.rule import FailureClass
from slurm_triage.model.template import fill

#: ``Finding.why`` of what a completed job has in its log.
ALL_THE_SAME = "the job completed all the same"
#: Other jobs on the same node may not be as lucky.
_WORTH_A_LOOK = WITNESSES | {"gpu-fault"}


def remarks(
    evidence: Evidence,
    cause: Finding | None,
    found: Sequence[Finding],
    stall: Stall | None,
    comparison: Comparison | None,
) -> tuple[tuple[str, ...], dict[str, str]]:
    """(notes for the report, launcher arguments to change)."""
    attempt, progress = evidence.attempt, evidence.progress
    notes: list[str] = []
    changes: dict[str, str] = {}
    if cause is not None and cause.cls == "oom-gpu":
        note, args = refine.gpu_oom(cause, attempt)
        notes.extend([note] if note else [])
        changes.update(args)
    if cause is not None and cause.cls in LOST_RESULTS - {"nan-loss"} and progress.checkpointing is not False:
        notes.extend(refine.checkpoint(attempt, evidence.files, progress, cause, evidence.fact_kind))
    alarm = next((f for f in found if f.cls == "heartbeat-timeout" and f.match is not None), None)
    if alarm is not None and not (cause is not None and heartbeat.is_true_alarm(cause)):
        notes.extend(heartbeat.checklist(alarm, found, attempt, progress, stall))
    if cause is not None and cause.cls == "hang" and comparison is not None:
        notes.append(comparison.note)
    if cause is not None and cause.cls == "hang":
        at_barrier = bool(evidence.of_kind("barrier", "barrier_passed"))
        notes.extend(refine.hang(progress, at_barrier=at_barrier, all_ended=not ranks.without_exit(attempt)))
    notes.extend(refine.node_exit_notes(found, attempt.exits))
    if cause is not None and cause.cls in SYMPTOMS | STAGE_TIMEOUTS | {"unknown-death"}:
        notes.extend(ranks.silence_notes(attempt, job_nodes(evidence.job, attempt)))
    if attempt.ends_mid_line and (cause is None or cause.cls in OUTCOMES):
        notes.append(
            "The log stops in the middle of a line, without any clean-up: what wrote it was killed at that moment "
            "(SIGKILL, power loss), or the file was cut off."
        )
    if not evidence.files.logs:
        notes.extend(text for text in special.without_log(evidence.job, evidence.files)[1:] if text)
    survived = (f for f in found if f.why == ALL_THE_SAME and f.cls in _WORTH_A_LOOK)
    notes.extend(f"{ALL_THE_SAME.capitalize()}, but its log says: {f.title} ({f.cls})." for f in survived)
    notes.extend(evidence.facts.notes)
    return tuple(dict.fromkeys(notes)), changes


def explanation(
    evidence: Evidence,
    cause: Finding | None,
    found: Sequence[Finding],
    comparison: Comparison | None,
    classes: Mapping[str, FailureClass],
) -> str | None:
    """What is to be said about this cause: by a comparison of all ranks, which knows better than any of their lines,
    else by the rule that found it, else by its class."""
    if cause is None:
        return None
    if comparison is not None and sub_cause(cause) is not None:
        return comparison.note
    if cause.cls == "time-limit" and evidence.job.state == "DEADLINE":
        return "Slurm removes a job that can no longer end before its --deadline, however long it has waited or run."
    if heartbeat.is_true_alarm(cause):
        dead = heartbeat.died_before(cause, found, evidence.attempt)
        return " ".join(f"The alarm was right, rank {rank} had really died: {why}." for rank, why in dead.items())
    rule = evidence.ruleset.by_id(cause.rule)
    if rule is not None and rule.note and cause.match is not None:
        return fill(rule.note, cause.match.captures)
    known = classes.get(cause.cls)
    return known.means if known is not None else None
