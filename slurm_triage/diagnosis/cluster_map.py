"""Which node a rank runs on, from the log's own words, else from the node list."""

from __future__ import annotations

from collections.abc import Sequence

from slurm_triage.model import nodelist
from slurm_triage.model.facts import AttemptFacts
from slurm_triage.model.job import Job


def job_nodes(job: Job, attempt: AttemptFacts) -> tuple[str, ...]:
    """Nodes of the attempt: accounting's list, else the header's."""
    return job.nodes or nodelist.expand(attempt.header.nodelist)


def node_of(rank: int | None, attempt: AttemptFacts, nodes: Sequence[str]) -> str | None:
    """The node of a rank (a label). A label is the node's index, also with one process per GPU; the coordination
    service's task ids are node x LOCAL_WORLD_SIZE + local rank there."""
    if rank is None:
        return None
    known = attempt.rank_hosts.get(rank) or attempt.exit_hosts.get(rank)
    if known is not None:
        return short_name(known, nodes)
    return nodes[rank] if rank < len(nodes) and _is_index(attempt, nodes) else None


def _is_index(attempt: AttemptFacts, nodes: Sequence[str]) -> bool:
    """Whether a rank's number is its node's place in the list: the launcher's labels are, if it ran on all of them."""
    header = attempt.header.nnodes
    return header == len(nodes) or (header is None and not attempt.several_per_node)


def short_name(host: str, nodes: Sequence[str]) -> str:
    """The node's name as Slurm spells it: NODE_EXIT may show the full domain name."""
    if host in nodes:
        return host
    short = host.split(".")[0]
    return short if short in nodes or not nodes else host


def rank_of(node: str, attempt: AttemptFacts, nodes: Sequence[str]) -> int | None:
    """The rank (label) of a node, by the hosts that the log names, else by the node list."""
    name = short_name(node, nodes)
    for rank, host in (*attempt.rank_hosts.items(), *attempt.exit_hosts.items()):
        if short_name(host, nodes) == name:
            return rank
    return nodes.index(name) if name in nodes and _is_index(attempt, nodes) else None
