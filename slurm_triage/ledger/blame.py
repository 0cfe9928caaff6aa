"""Which node, if any, was itself the one that failed: evidence, never mere presence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slurm_triage.model.diagnosis import Finding
from slurm_triage.model.report import Report

#: Signals that end a process because of a crash, not because somebody stopped it.
CRASH_SIGNALS = frozenset({4, 6, 7, 8, 11})

FAILED_NODE = "failed-node"
FAULT = "fault"
REPORTED = "reported"
DIED_FIRST = "died-first"

#: Evidence that is enough on its own to keep away from a node; the rest counts only in statistics.
DIRECT = frozenset({FAILED_NODE, FAULT})

#: Slurm itself says that a node of the job was lost.
_LOST_NODE = frozenset({"NODE_FAIL", "BOOT_FAIL"})
#: A line of a log is cut at some length, a kernel's line is kept whole.
_COMPARED_CHARS = 200


def node_evidence(report: Report, kernel: Mapping[str, Sequence[str]] | None = None) -> tuple[tuple[str, str], ...]:
    """(node, kind) pairs, at most one per node, strongest kind kept. ``kernel``: by node, what its root brought of the
    kernel's messages.

    failed-node: accounting names it as the node that went down. fault: the diagnosis excludes it because of a fault
    that it showed in this very job, and a kernel or Slurm says so as well. reported: only the job's own files say so,
    in which its owner can write what he likes. died-first: the cause is a process that crashed there or died without a
    reason; one such death says little, several on one host do (the seed: repeated NODE_EXIT 134/139 on one host). The
    node of rank 0 gives no such evidence in a job of several nodes: rank 0 has duties that the others have not. Nor
    does a node that only complains about the network: the complainer is not the culprit.
    """
    diagnosis, primary = report.diagnosis, report.diagnosis.primary
    found: dict[str, str] = {}
    if diagnosis.status != "completed":
        # torchrun's workers are called by their global rank; the task behind them is what has a node.
        tasks = {f.rank for f in diagnosis.findings if primary and (f.cls, f.said_by) == (primary.cls, primary.rank)}
        first = primary is not None and 0 in tasks | {primary.rank}
        if primary is not None and primary.node and (not first or len(report.nodes) < 2):
            crashed = any(e.host == primary.node and e.signal in CRASH_SIGNALS for e in diagnosis.exits)
            if crashed or primary.domain == "unknown":
                found[primary.node] = DIED_FIRST
        for suspect in diagnosis.suspects:
            # Asking for a finding of this job keeps advice that came from the ledger from feeding on itself.
            shown = [f for f in diagnosis.findings if _short(suspect.node) in _nodes(f)] if suspect.exclude else []
            if shown:
                messages = (kernel or {}).get(_short(suspect.node), ())
                sure = report.job.state in _LOST_NODE or any(_is_among(f, messages) for f in shown)
                found[suspect.node] = FAULT if sure else REPORTED
    if report.job.failed_node:
        found[report.job.failed_node] = FAILED_NODE
    return tuple(sorted(found.items()))


def _nodes(finding: Finding) -> set[str]:
    captured = finding.match.captures.get("node") if finding.match is not None else None
    named = [captured, finding.node if finding.role == "root" else None]
    return {_short(name) for name in named if name}


def _is_among(finding: Finding, messages: Sequence[str]) -> bool:
    if finding.match is None:
        return False
    text = finding.match.first.text[:_COMPARED_CHARS].strip()
    return bool(text) and any(text in message for message in messages)


def _short(name: str) -> str:
    return name.partition(".")[0]
