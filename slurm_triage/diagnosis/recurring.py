"""What the history of other jobs changes in the advice: bad nodes are left out, a hang that came again loses its nodes.

The first hang is tried again on the same nodes; only when it recurs there are others asked for, with more to see (the
seed's retry-first policy). A node is left out only for evidence: advice in force, or having been the one that failed
both times while other nodes changed.
"""

from __future__ import annotations

from dataclasses import replace

from slurm_triage.model import nodelist
from slurm_triage.model.diagnosis import Confidence, Diagnosis, Resubmit, Suspect
from slurm_triage.model.history import History
from slurm_triage.model.report import Report

_HANGS = frozenset({"hang", "nccl-timeout"})
_MORE_TO_SEE = "_env_NCCL_DEBUG"


def with_history(report: Report, history: History) -> Report:
    """The report with ``history``, and with suspects and advice that take it into account."""
    diagnosis = report.diagnosis
    found = {suspect.node: suspect for suspect in diagnosis.suspects}
    for node, why, confidence in _reasons(history):
        known = found.get(node)
        reasons = tuple(dict.fromkeys((*(known.why if known else ()), why)))
        found[node] = Suspect(node, reasons, "high" if known and known.confidence == "high" else confidence, True)
    diagnosis = replace(diagnosis, suspects=tuple(found.values()))
    return replace(report, history=history, diagnosis=replace(diagnosis, resubmit=_advice(diagnosis, history)))


def _reasons(history: History) -> list[tuple[str, str, Confidence]]:
    """(node, why, confidence) for nodes to leave out."""
    reasons: list[tuple[str, str, Confidence]] = [
        (a.node, a.why, "high" if a.evidence == "direct" else "medium") for a in history.advice
    ]
    again = history.recurrence
    if again is not None and not again.all_nodes:
        why = f"it was the one that failed in job {again.previous[0]} too, among other nodes"
        reasons += [(node, why, "medium") for node in again.same_culprit]
    return reasons


def _advice(diagnosis: Diagnosis, history: History) -> Resubmit:
    resubmit, primary, again = diagnosis.resubmit, diagnosis.primary, history.recurrence
    if resubmit.action == "none" or primary is None:
        return resubmit
    leave_out = tuple(sorted({*resubmit.exclude, *(s.node for s in diagnosis.suspects if s.exclude)}))
    action, why, changes, args = resubmit.action, resubmit.why, list(resubmit.changes), dict(resubmit.args)
    if leave_out != resubmit.exclude:
        changes = [c for c in changes if not c.startswith("leave out ")]
        changes.append(f"leave out {nodelist.fold(leave_out)}")
        action = "other-nodes" if action == "same-nodes" else action
        why = f"{why}; {nodelist.fold(set(leave_out) - set(resubmit.exclude))} failed before" if why else ""
    if primary.cls in _HANGS and again is not None and action != "after-fix":
        action = "other-nodes"
        where = (
            f"on {nodelist.fold(again.same_nodes)}" if again.same_nodes else "on other nodes, so look beyond the nodes"
        )
        why = f"it is not the first time: job {again.previous[0]} ended this way {where}"
        if _MORE_TO_SEE not in args:
            args[_MORE_TO_SEE] = "INFO"
            changes.append("set NCCL_DEBUG=INFO")
    return replace(resubmit, action=action, why=why, exclude=leave_out, changes=tuple(changes), args=args)
