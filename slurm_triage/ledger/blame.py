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

    failed-node: accounting names it as the node that went down. fault: the diagnosis excludes it because of a fault
    that it showed in this very job. died-first: the cause is a process that crashed there or died without a reason;
    one such death says little, several on one host do (the seed: repeated NODE_EXIT 134/139 on one host). The node of
    rank 0 gives no such evidence in a job of several nodes: rank 0 has duties that the others have not. Nor does a
    node that only complains about the network: the complainer is not the culprit.
    """
    diagnosis, primary = report.diagnosis, report.diagnosis.primary
    if diagnosis.status == "completed":
        return ()
    found: dict[str, str] = {}
    if primary is not None and primary.node and (primary.rank != 0 or len(report.nodes) < 2):
        crashed = any(e.host == primary.node and e.signal in CRASH_SIGNALS for e in diagnosis.exits)
        if crashed or primary.domain == "unknown":
            found[primary.node] = DIED_FIRST
    shown = {_short(f.node) for f in diagnosis.findings if f.role == "root" and f.node}
    shown |= {_short(f.match.captures["node"]) for f in diagnosis.findings if f.match and f.match.captures.get("node")}
    # Asking for a finding of this job keeps advice that came from the ledger from feeding on itself.
    found.update((s.node, FAULT) for s in diagnosis.suspects if s.exclude and _short(s.node) in shown)
    if report.job.failed_node:
        found[report.job.failed_node] = FAILED_NODE
    return tuple(sorted(found.items()))


def _short(name: str) -> str:
    return name.partition(".")[0]
