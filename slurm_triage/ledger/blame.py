"""Which node, if any, was itself the one that failed: evidence, never mere presence."""

from __future__ import annotations

from slurm_triage.model.report import Report

#: Signals that end a process because of a crash, not because somebody stopped it.
CRASH_SIGNALS = frozenset({4, 6, 7, 8, 11})

FAILED_NODE = "failed-node"
FAULT = "fault"
DIED_FIRST = "died-first"

#: Evidence that is enough on its own to keep away from a node; the rest counts only in statistics.
DIRECT = frozenset({FAILED_NODE, FAULT})


def node_evidence(report: Report) -> tuple[tuple[str, str], ...]:
    """(node, kind) pairs, at most one per node, strongest kind kept.

    failed-node: accounting names it as the node that went down. fault: the cause is a fault of the node or of its
    link, and one node is named. died-first: a process there crashed by a signal and that is the cause; one such death
    says little, several on one host do (the seed: repeated NODE_EXIT 134/139 on one host).
    """
    if report.diagnosis.status == "completed":
        return ()
    found: dict[str, str] = {}
    primary = report.diagnosis.primary
    if primary is not None and primary.node:
        crashed = any(e.host == primary.node and e.signal in CRASH_SIGNALS for e in report.diagnosis.exits)
        if primary.domain in ("node", "fabric"):
            found[primary.node] = FAULT
        elif crashed or primary.domain == "unknown":
            found[primary.node] = DIED_FIRST
    if report.job.failed_node:
        found[report.job.failed_node] = FAILED_NODE
    return tuple(sorted(found.items()))
