"""Why a collective never completed, from what all ranks say about it: other sizes, another order, or a rank behind.

A watchdog's time-out shows who waited, never who is to blame. PyTorch numbers the collectives of each process group:
the same number with another operation or size means that the ranks ran different programs; a rank that had not reached
the number the others wait in is the one to look at. Only ranks of one process group can be compared.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from slurm_triage.model.diagnosis import Finding
from slurm_triage.model.duration import human
from slurm_triage.model.facts import Match
from slurm_triage.model.nodelist import fold_ranks
from slurm_triage.model.rank_label import RANK_LABEL

SubCause = Literal["sizes", "operations", "order", "behind", "missing", "waiting"]
#: Capture of a finding that holds its SubCause, for next steps and for readers of ``triage.json``.
SUB_CAUSE = "sub_cause"
#: ... and of one that holds the one rank that differs, and its label (of its task).
ODD_RANK, ODD_LABEL = "odd_rank", "odd_label"
#: Ranks did not run the same program: the fault is the job's own and comes again.
OWN_FAULT = frozenset({"sizes", "operations", "order"})
#: A rank never came to the collective that the others waited in.
ABSENT = frozenset({"behind", "missing"})

#: Operations in which ranks may pass different sizes by design.
_UNEVEN = re.compile(r"^(?:GATHER|SCATTER)|ALLTOALL|SEND|RECV|COALESCED|UNKNOWN", re.IGNORECASE)
#: Numbers that ranks of a job cannot reach: memory that was never set (seen in 2.3).
_MAX_NUMBER = 10**12
#: Ranks that print nothing are named when they are this few of all: ranks of a subgroup leave regular holes.
_MAX_MISSING_SHARE = 1 / 4
_MAX_NAMES_CHARS = 40
_DOUBT = " (The log does not say that these ranks belong to one process group.)"


@dataclass(frozen=True, slots=True)
class Comparison:
    """``odd`` are the ranks (of the whole job) that differ from the rest; ``labels`` their srun labels or nodes'."""

    kind: SubCause
    title: str
    note: str
    odd: tuple[int, ...] = ()
    labels: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Call:
    """What one rank says: that it waits in call ``seq``, or (no ``op``) how far it had come."""

    rank: int
    label: int | None
    group: str | None
    seq: int | None
    op: str | None
    numel: str | None
    waited_ms: float | None
    enqueued: int | None


def compare(said: Sequence[Match]) -> Comparison | None:
    """The story behind a collective's time-out. ``said``: facts of kind "collective". None when no rank timed out."""
    calls = _with_groups([c for c in map(_call, said) if c is not None])
    waiting = _largest_group(calls)
    if not waiting:
        return None
    group = waiting[0].group
    seqs = Counter(c.seq for c in waiting)
    seq = max(seqs, key=lambda s: (seqs[s], s or 0))
    inside = [c for c in waiting if c.seq == seq]
    where = _collective(inside)
    trusted = _is_one_group(group)
    result = (
        _differing(inside, "operations", [c.op or "" for c in inside], trusted, where)
        or _differing(inside, "sizes", _sizes(inside), trusted, where)
        or _behind(calls, inside, where)
        or _out_of_order(waiting, inside, trusted, where)
        or _missing(calls, inside, where)
        or _only_waiting(inside, where)
    )
    return replace(result, labels=_labels(result.odd, calls))


def annotate(findings: Iterable[Finding], comparison: Comparison | None) -> tuple[Finding, ...]:
    """Findings of watchdogs get the comparison's title; captures name the odd ranks and the sub-cause."""
    return tuple(f if comparison is None else _annotated(f, comparison) for f in findings)


def _annotated(finding: Finding, comparison: Comparison) -> Finding:
    match = finding.match
    if match is None or finding.cls != "nccl-timeout" or not match.captures.keys() >= {"op", "timeout_ms"}:
        return finding
    captures = {**match.captures, SUB_CAUSE: comparison.kind}
    if len(comparison.labels) == 1:
        captures[ODD_LABEL] = str(comparison.labels[0])
    if len(comparison.odd) == 1:
        captures[ODD_RANK] = str(comparison.odd[0])
    title = f"{finding.title} ({comparison.title})" if comparison.kind == "waiting" else comparison.title
    return replace(finding, title=title, match=replace(match, captures=captures))


def sub_cause(finding: Finding) -> str | None:
    return finding.match.captures.get(SUB_CAUSE) if finding.match is not None else None


def odd_label(finding: Finding) -> int | None:
    """The label of the one rank that differs; None if there is none, or if there are several."""
    return _captured(finding, ODD_LABEL)


def odd_rank(finding: Finding) -> int | None:
    """The same rank as it is numbered in the whole job: behind one label there may be several."""
    return _captured(finding, ODD_RANK)


def _captured(finding: Finding, name: str) -> int | None:
    text = finding.match.captures.get(name) if finding.match is not None else None
    return None if text is None else int(text)


def own_rank(match: Match) -> int | None:
    """The rank in the whole job of whoever prints a line about a collective, if the line says it."""
    prefix = RANK_LABEL.search(match.first.text)
    if prefix is not None:
        return int(prefix[1])
    group, own = match.captures.get("group"), _number(match.captures, "reporting_rank")
    return own if own is not None and (group is None or _is_one_group(group)) else None


def _call(match: Match) -> _Call | None:
    captures = match.captures
    group, own = captures.get("group"), own_rank(match)
    rank = match.rank if own is None else own
    if rank is None:
        return None
    op = captures.get("op")
    waited = captures.get("waited_ms") or captures.get("timeout_ms")
    return _Call(
        rank,
        match.rank,
        group,
        _number(captures, "seq" if op else "failed_seq"),
        op,
        captures.get("numel"),
        float(waited) if waited and waited.isdigit() else None,
        _number(captures, "enqueued"),
    )


def _number(captures: Mapping[str, str], name: str) -> int | None:
    text = captures.get(name, "")
    return int(text) if text.lstrip("-").isdigit() and -1 <= int(text) < _MAX_NUMBER else None


def _with_groups(calls: list[_Call]) -> list[_Call]:
    """The line that names the collective names no group; the one behind it, of the same rank and number, does."""
    named = [c for c in calls if c.group is not None and c.seq is not None]
    groups: dict[tuple[int, int | None], str | None] = {(c.rank, c.seq): c.group for c in named}
    return [replace(c, group=groups.get((c.rank, c.seq))) if c.group is None and c.op else c for c in calls]


def _is_one_group(group: str | None) -> bool:
    """Whether the name stands for the same ranks everywhere: group 0 is that of the whole job; others are numbered by
    each rank for itself unless PyTorch prints a name that is unique in the job."""
    return group is not None and (group in {"0", "default_pg"} or group.startswith("GUID "))


def _largest_group(calls: Iterable[_Call]) -> list[_Call]:
    """The first time-out of each rank in the group that most ranks wait in."""
    by_group: dict[str | None, dict[int, _Call]] = {}
    for call in calls:
        if call.op is not None and call.seq is not None:
            by_group.setdefault(call.group, {}).setdefault(call.rank, call)
    return list(max(by_group.values(), key=len, default={}).values())


def _collective(calls: Sequence[_Call]) -> str:
    """``collective 4217 (ALLREDUCE)``."""
    ops = {c.op for c in calls}
    return f"collective {calls[0].seq}" + (f" ({calls[0].op})" if len(ops) == 1 else "")


def _waited(calls: Sequence[_Call]) -> str:
    longest = max((c.waited_ms for c in calls if c.waited_ms is not None), default=None)
    return f" {human(longest / 1000)}" if longest is not None else ""


def _sizes(calls: Sequence[_Call]) -> list[str]:
    comparable = all(c.numel is not None and c.op is not None and not _UNEVEN.search(c.op) for c in calls)
    return [c.numel or "" for c in calls] if comparable else []


def _differing(
    calls: Sequence[_Call], kind: SubCause, values: Sequence[str], trusted: bool, where: str
) -> Comparison | None:
    """Ranks that wait in the same number, but not for the same thing."""
    if len(set(values)) < 2 or (not trusted and not _mostly_one(values)):
        return None
    counts = Counter(values)
    usual, most = counts.most_common(1)[0]
    unit = " elements" if kind == "sizes" else ""
    parts = []
    for value in sorted(counts, key=lambda v: (counts[v], v)):
        parts.append(f"{value}{unit} on {_named(c.rank for c, own in zip(calls, values, strict=True) if own == value)}")
    what = "with different sizes" if kind == "sizes" else "as different operations"
    odd = [c.rank for c, own in zip(calls, values, strict=True) if own != usual] if most * 2 > len(calls) else []
    note = (
        f"The ranks entered {where} {what}, so it could not complete: the program does not do the same on every rank "
        "(uneven batches, a branch that depends on the rank, other shapes). The network is not to blame."
    )
    title = f"Ranks entered {where} {what}: {', '.join(parts)}"
    return Comparison(kind, title, note + ("" if trusted else _DOUBT), tuple(sorted(odd)))


def _mostly_one(values: Sequence[object]) -> bool:
    """Two thirds agree. Without a group's name, ranks that do not may as well be other groups at work."""
    return Counter(values).most_common(1)[0][1] * 3 >= len(values) * 2 or len(values) == 2


def _behind(calls: Sequence[_Call], inside: Sequence[_Call], where: str) -> Comparison | None:
    """Ranks that say themselves that they had not reached the number that the others wait in."""
    seq, group = inside[0].seq or 0, inside[0].group
    reached: dict[int, int] = {}
    for call in calls:
        if call.enqueued is not None and group is not None and call.group == group:
            reached[call.rank] = max(call.enqueued, reached.get(call.rank, -1))
    waiting = {c.rank for c in inside}
    late = sorted(rank for rank, last in reached.items() if last < seq and rank not in waiting)
    if not late:
        return None
    if len(late) > len(waiting):
        title = f"{_subject(waiting)} waited{_waited(inside)} in {where}, which {_named(late)} never started"
        note = (
            f"{_subject(waiting)} ran a collective more than the others: uneven data, or a branch that not all ranks "
            "take. The network is not to blame."
        )
        return Comparison("order", title, note, tuple(sorted(waiting)))
    last = max(reached[rank] for rank in late)
    title = f"{_subject(late)} stopped at collective {last}; {_named(waiting)} waited{_waited(inside)} in {where}"
    note = (
        f"{_subject(late)} never got past collective {last}: less data than the others, a loop left early, "
        "something that takes long (checkpoint, data preparation, compilation), or a hang in its own code. Look at its "
        "output; the ranks that report the time-out only waited for it."
    )
    return Comparison("behind", title, note, tuple(late))


def _out_of_order(waiting: Sequence[_Call], inside: Sequence[_Call], trusted: bool, where: str) -> Comparison | None:
    """Ranks that wait in collectives of different numbers."""
    others = [c for c in waiting if c.seq != inside[0].seq]
    if not others or (not trusted and not _mostly_one([c.seq for c in waiting])):
        return None
    elsewhere = ", ".join(
        f"{_named(c.rank for c in others if c.seq == seq)} in {_collective([c for c in others if c.seq == seq])}"
        for seq in sorted({c.seq or 0 for c in others})
    )
    title = f"Ranks are out of step: {elsewhere}, {_named(c.rank for c in inside)} in {where}"
    note = (
        "The ranks wait for each other in different collectives: one skipped a collective or ran one more, as with "
        "uneven data or a branch that not all ranks take. The network is not to blame."
    )
    odd = sorted(c.rank for c in others) if len(others) * 2 < len(waiting) else []
    return Comparison("order", title, note + ("" if trusted else _DOUBT), tuple(odd))


def _missing(calls: Sequence[_Call], inside: Sequence[_Call], where: str) -> Comparison | None:
    """Ranks between the others that print nothing at all."""
    heard = {c.rank for c in calls}
    count = max(heard) + 1
    if len(inside) < 3 or count - len(heard) > _MAX_MISSING_SHARE * count:
        return None
    silent = [rank for rank in range(count) if rank not in heard]
    if not silent:
        return None
    title = f"{_subject(c.rank for c in inside)} waited{_waited(inside)} in {where}; {_named(silent)} never joined"
    note = (
        f"{_subject(silent)} printed no time-out: hung or dead before the collective. Look at its last output and at "
        "its node; the ranks that report the time-out only waited for it."
    )
    return Comparison("missing", title, note, tuple(silent))


def _only_waiting(inside: Sequence[_Call], where: str) -> Comparison:
    title = f"{_named(c.rank for c in inside)} waited in {where}"
    note = (
        "Who reports the time-out only waited. If these are all ranks of the job, every one had entered the "
        "collective: look at network and GPUs. If a rank is not among them, it is the one to look at."
    )
    return Comparison("waiting", title, note)


def _named(ranks: Iterable[int]) -> str:
    listed = sorted(ranks)
    if len(listed) == 1:
        return f"rank {listed[0]}"
    folded = fold_ranks(listed)
    return f"ranks {folded}" if len(folded) <= _MAX_NAMES_CHARS else f"{len(listed)} ranks"


def _subject(ranks: Iterable[int]) -> str:
    return _named(ranks).capitalize()


def _labels(odd: Sequence[int], calls: Iterable[_Call]) -> tuple[int, ...]:
    """srun labels of ranks: the same where every rank is a task, else blocks of equal size (one launcher per node)."""
    labels = {c.rank: c.label for c in calls if c.label is not None}
    for size in sorted({1, *(rank // label for rank, label in labels.items() if label)}):
        if size and all(rank // size == label for rank, label in labels.items()):
            return tuple(dict.fromkeys(rank // size for rank in odd))
    return ()
