"""Look-ups: one job by id, or all attempts that fit sacct-like filters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from slurm_triage.errors import UsageError
from slurm_triage.ledger import index
from slurm_triage.ledger.frame import MARK, parse_at
from slurm_triage.ledger.read import ReadCounts, Snapshot, load, newest_of, objects, snapshot
from slurm_triage.ledger.record import LedgerRecord, from_dict, to_dict
from slurm_triage.ledger.segment import Segment
from slurm_triage.model.nodelist import expand
from slurm_triage.model.state_names import STATE_NAMES

_STATUSES = ("COMPLETED", "FAILED", "CANCELLED", "RUNNING", "HANGING", "UNKNOWN")
_JOB = re.compile(r"^(\d+)(?:_(\d+)|\+(\d+))?(?:\.\w+)?$")


@dataclass(frozen=True, slots=True)
class Filter:
    """Empty or None means: all. ``states`` are Slurm's states or statuses of a triage, upper case. A job fits the time
    window if it was there at any moment of it, as with sacct."""

    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    states: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    node_counts: range | None = None
    fingerprint: str | None = None


def by_job(
    roots: Sequence[Path], job: str, clusters: Sequence[str] = (), counts: ReadCounts | None = None
) -> list[LedgerRecord]:
    """Every attempt of a job, newest revision of each, oldest attempt first. ``job`` is an id as Slurm prints it
    (``7877``, array ``7878`` or ``7878_3``, het part ``29+1``, step ``7877.0``) or one of another launcher.

    ``counts`` takes what damage was met. Raises LedgerError.
    """
    match = _JOB.match(job)
    base = match[1] if match else job
    found = lookup(roots, index.job_key(base), clusters, counts)
    wanted = [r for r in found if _is_job(r, base, match)]
    return sorted(wanted, key=lambda r: (r.cluster or "", _number(r.job_id), r.start or 0.0, r.revision))


def lookup(
    roots: Sequence[Path], key: index.Key, clusters: Sequence[str] = (), counts: ReadCounts | None = None
) -> list[LedgerRecord]:
    """Records that may have ``key`` (a few more than those, since it is a checksum), in the order written. Of several
    revisions of an attempt the newest that has it."""
    counter = counts if counts is not None else ReadCounts()
    unindexed: set[Path] = set()

    def searched(segment: Segment) -> bytes:
        if segment.seal is not None:
            unindexed.add(segment.path.parent)
        return load(segment, counter)

    found = [
        (frame, part)
        for part, segment in enumerate(snapshot(roots, clusters).parts)
        for frame in index.lines(segment, key, partial(searched, segment))
    ]
    for directory in sorted(unindexed):
        # The answer is there already; at most this much is spent on the next look-up's speed.
        index.refresh(directory, budget_s=0.5)
    return [from_dict(orjson.loads(frame.payload)) for frame in newest_of(found)]


def latest_first(
    roots: Sequence[Path], key: index.Key, clusters: Sequence[str], since: float, until: float
) -> Iterator[dict[str, Any]]:
    """Records that may have ``key`` and ended between ``since`` and ``until``, as JSON objects, the last written first.
    Only what is taken from it is read. Old revisions are among them."""
    counts = ReadCounts()
    parts = snapshot(roots, clusters, lambda segment: _may_hold(segment, since, until)).parts
    for segment in sorted(parts, key=lambda segment: segment.name, reverse=True):
        for frame in index.lines(segment, key, partial(load, segment, counts)):
            values: dict[str, Any] = orjson.loads(frame.payload)
            if since <= values.get("end", values.get("generated_at", 0.0)) <= until:
                yield values


def _is_job(record: LedgerRecord, base: str, match: re.Match[str] | None) -> bool:
    if base not in (record.job_id, record.array_job_id, record.het_job_id):
        return False
    if match and match[2] is not None:
        return record.array_job_id == base and record.array_task_id == match[2]
    if match and match[3] is not None:
        return record.het_job_id == base and record.display_id == f"{base}+{match[3]}"
    return True


def _number(job_id: str) -> tuple[int, str]:
    return (int(job_id), "") if job_id.isdecimal() else (0, job_id)


def select(
    roots: Sequence[Path], wanted: Filter, clusters: Sequence[str] = (), counts: ReadCounts | None = None
) -> Iterator[LedgerRecord]:
    """All attempts that fit, newest revision of each, in the order written. ``counts`` takes what was met. Raises
    LedgerError."""
    return map(from_dict, select_objects(roots, wanted, clusters, counts))


def select_objects(
    roots: Sequence[Path], wanted: Filter, clusters: Sequence[str] = (), counts: ReadCounts | None = None
) -> Iterator[dict[str, Any]]:
    """The same as JSON objects."""
    snap = snapshot(roots, clusters, lambda segment: _may_hold(segment, wanted.since))
    if counts is not None:
        snap = Snapshot(snap.parts, counts)
    nodes = frozenset(wanted.nodes)
    for values in objects(snap, _needle(wanted), lambda values: _cheap(values, wanted)):
        if not nodes or not nodes.isdisjoint(expand(values.get("nodes", ""))):
            yield values


def latest_others(
    roots: Sequence[Path], key: index.Key, clusters: Sequence[str], since: float, until: float
) -> Iterator[dict[str, Any]]:
    """The same of the records that have not ``key``."""
    counts = ReadCounts()
    parts = snapshot(roots, clusters, lambda segment: _may_hold(segment, since, until)).parts
    for segment in sorted(parts, key=lambda segment: segment.name, reverse=True):
        data = load(segment, counts)
        end = len(data)
        while (start := data.rfind(MARK, 0, end)) >= 0:
            frame = parse_at(data, start, len(data)) if data.find(key.needle, start, end) < 0 else None
            end = start
            if frame is not None and frame.kind == b"rec":
                values: dict[str, Any] = orjson.loads(frame.payload)
                if since <= values.get("end", values.get("generated_at", 0.0)) <= until:
                    yield values


def matches(record: LedgerRecord, wanted: Filter) -> bool:
    """Does one record fit?"""
    nodes_fit = not wanted.nodes or not frozenset(wanted.nodes).isdisjoint(record.node_names)
    return nodes_fit and _cheap(to_dict(record), wanted)


def _may_hold(segment: Segment, since: float | None, until: float | None = None) -> bool:
    if since is None and until is None:
        return True
    head = index.read_head(segment)
    return head is None or ((since is None or head.last_end >= since) and (until is None or head.first_end <= until))


def _needle(wanted: Filter) -> bytes | None:
    if wanted.fingerprint is not None:
        return b'"fingerprint":' + orjson.dumps(wanted.fingerprint)
    if len(wanted.users) == 1:
        return b'"user":' + orjson.dumps(wanted.users[0])
    return None


def _cheap(values: dict[str, Any], wanted: Filter) -> bool:
    """The filters that need no node list."""
    ended = values.get("end", values.get("generated_at", 0.0))
    began = values.get("start", values.get("submit", ended))
    state = str(values.get("state", "")).split(" ")[0].upper()
    return (
        (not wanted.users or values.get("user") in wanted.users)
        and (wanted.node_counts is None or values.get("node_count") in wanted.node_counts)
        and (not wanted.accounts or values.get("account") in wanted.accounts)
        and (not wanted.partitions or not set(str(values.get("partition")).split(",")).isdisjoint(wanted.partitions))
        and (not wanted.names or values.get("name") in wanted.names)
        and (wanted.since is None or ended >= wanted.since)
        and (wanted.until is None or began <= wanted.until)
        and (not wanted.states or state in wanted.states or str(values.get("status")).upper() in wanted.states)
        and (not wanted.classes or values.get("class") in wanted.classes)
        and (wanted.fingerprint is None or values.get("fingerprint") == wanted.fingerprint)
    )


def parse_states(text: str) -> tuple[str, ...]:
    """``F,TO,hanging`` to full names, upper case. Raises UsageError."""
    words = (word.strip().upper() for word in text.split(","))
    states = tuple(STATE_NAMES.get(word, word) for word in words if word)
    if not states:
        return ()
    from slurm_triage.model.job import TERMINAL_STATES, WAITING_STATES  # look-ups by id need none of it

    known = {*STATE_NAMES.values(), *TERMINAL_STATES, *WAITING_STATES, *_STATUSES}
    for state in states:
        if state not in known:
            raise UsageError(f"unknown state {state!r}; the states are: {', '.join(sorted(known))}")
    return states


def parse_nodes(text: str) -> tuple[str, ...]:
    return expand(text)


def parse_node_counts(text: str) -> range | None:
    """``2``, ``2-8``; empty: all. Raises UsageError."""
    if not text:
        return None
    low, _, high = text.partition("-")
    if not (low.isdecimal() and (high or low).isdecimal()):
        raise UsageError(f"cannot read the number of nodes {text!r}; write it as 2 or 2-8")
    return range(int(low), int(high or low) + 1)
