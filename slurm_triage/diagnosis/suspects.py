"""Nodes that may be at fault. Being there is not evidence; the complainer is not the culprit."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slurm_triage.diagnosis import collectives
from slurm_triage.diagnosis.cluster_map import short_name
from slurm_triage.model.diagnosis import Finding, Primary, Suspect

#: Classes in which the node that shows the fault is itself broken: leave it out (seed and launcher docs: HSA and driver
#: aborts, uncorrectable ECC, lost nodes).
_OWN_FAULT = frozenset({"gpu-hw-fault", "gpu-driver-fail", "node-fail", "gpu-fault"})
#: Classes in which the node is worth watching, but a retry on the same nodes comes first.
_WATCH = frozenset(
    {"signal-kill", "launch-fail", "prolog-fail", "ecc-timeout", "preflight-timeout", "container-start-fail", "no-gpu"}
)
_SURE = frozenset({"gpu-hw-fault", "node-fail"})
#: A log can name anything as a node.
_NODE_NAME = re.compile(r"\w[\w.-]{0,252}")


def find_suspects(primary: Primary | None, findings: Sequence[Finding], nodes: Sequence[str]) -> tuple[Suspect, ...]:
    """Suspects with the reason. ``exclude`` only where the node itself reported the fault or was the one lost. Where
    the nodes of the job are known, nobody else is suspected."""
    if primary is None:
        return ()
    reasons: dict[str, list[str]] = {}
    exclude: set[str] = set()
    for finding in findings:
        if finding.role != "root" or finding.cls != primary.cls:
            continue
        captured = finding.match.captures if finding.match is not None else {}
        # The rank that prints that a node failed is on another one.
        complains = finding.cls == "node-fail" and finding.match is not None
        node = captured.get("node") or (None if complains else finding.node)
        if finding.cls in _OWN_FAULT and node:
            name = short_name(node, nodes)
            reasons.setdefault(name, []).append(finding.title)
            if finding.cls in _SURE or finding.cls == "gpu-driver-fail":
                exclude.add(name)
        elif finding.cls in _WATCH and finding.node:
            reasons.setdefault(short_name(finding.node, nodes), []).append(finding.title)
        if collectives.sub_cause(finding) in collectives.ABSENT and primary.node:
            reasons.setdefault(primary.node, []).append("its rank did not come to the collective")
        peer = captured.get("peer")
        if peer and finding.cls in {"nccl-timeout", "coordination-fail"}:
            reasons.setdefault(peer, []).append("the peer that did not answer")
    return tuple(
        Suspect(node, tuple(dict.fromkeys(why)), "high" if node in exclude else "low", node in exclude)
        for node, why in reasons.items()
        if _NODE_NAME.fullmatch(node) and (not nodes or node in nodes)
    )
