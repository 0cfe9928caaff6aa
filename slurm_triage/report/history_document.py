"""What other jobs say about one, as ``triage.json`` has it."""

from __future__ import annotations

from slurm_triage.model.duration import iso, parse_time
from slurm_triage.model.history import Advice, History
from slurm_triage.report.document import Document


def history_document(history: History) -> Document:
    """Also put into a stored document when it is shown later: by then more may be known."""
    again, outbreak, good = history.recurrence, history.outbreak, history.last_good
    return {
        "sentences": list(history.sentences),
        "same_failure": None
        if again is None
        else {
            "nth": again.nth,
            "span_s": again.span_s,
            "jobs": list(again.previous),
            "nodes": list(again.same_nodes),
            "failed_again": list(again.same_culprit),
        },
        "outbreak": None
        if outbreak is None
        else {
            "jobs": len(outbreak.jobs),
            "users": outbreak.users,
            "first": iso(outbreak.first),
            "last": iso(outbreak.last),
            "shared": [{"what": s.what, "value": s.value, "jobs": s.jobs} for s in outbreak.shared],
        },
        "last_good": None
        if good is None
        else {
            "job": good.job_id,
            "ended": iso(good.ended),
            "report": good.report_path,
            "changes": [{"what": d.what, "before": d.before, "now": d.now} for d in good.differences],
        },
        "nodes_to_avoid": [
            {"node": a.node, "why": a.why, "until": iso(a.expires), "evidence": a.evidence} for a in history.advice
        ],
    }


def advice_in_force(document: Document | None, now: float) -> dict[str, Advice]:
    """Node -> advice of a stored document that has not expired."""
    found = {}
    for item in document["nodes_to_avoid"] if document is not None else ():
        until = parse_time(item["until"])
        if until is not None and until > now:
            found[item["node"]] = Advice(item["node"], item["why"], until, item["evidence"])
    return found
