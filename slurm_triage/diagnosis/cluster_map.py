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
    known = attempt.rank_hosts.get(rank)
    if known is not None:
        return short_name(known, nodes)
    if nodes and rank < len(nodes) and attempt.header.nnodes in {None, len(nodes)}:
        return nodes[rank]
    return None


def short_name(host: str, nodes: Sequence[str]) -> str:
    """The node's name as Slurm spells it: NODE_EXIT may show the full domain name."""
    if host in nodes:
        return host
    short = host.split(".")[0]
    return short if short in nodes or not nodes else host
