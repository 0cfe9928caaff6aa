"""Tasks and ranks: where torchrun, accelerate or DeepSpeed starts several ranks in one task of srun, the number before
a line, and the one in srun's own lines, is the task's. What a line says about its rank itself then counts.

Inside the diagnosis a label stays what tells lines apart; reports speak of ranks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from slurm_triage.diagnosis.collectives import own_rank
from slurm_triage.model.diagnosis import Finding
from slurm_triage.model.facts import AttemptFacts, ExitRecord, Match, TellingLine
from slurm_triage.model.rank_label import RANK_LABEL

#: The capture of a line about a collective that names its rank within the text.
_REPORTER = "reporting_rank"
#: An exit code in the words of torchrun's lines and of its table.
_CODE = re.compile(r"\(exitcode: (-?\d{1,4})\)|exitcode {0,3}: (-?\d{1,4})\b")
#: What torchrun calls a host that has no name.
_NO_HOST = frozenset({"localhost", "localhost.localdomain"})


def with_places(attempt: AttemptFacts, nodes: Sequence[str]) -> AttemptFacts:
    """The attempt with the hosts that exit lines name, without numbers of srun's tasks where everything else in the log
    is about ranks of which a task has several, and knowing whether a rank's number is its node's place in the list."""
    lone = _several_behind_no_label(attempt)
    exits = tuple(replace(e, host=None) if e.host in _NO_HOST and e.worker is not None else e for e in attempt.exits)
    if lone:
        exits = tuple(replace(e, rank=None) if e.origin == "srun" else e for e in exits)
    hosts = {e.rank: e.host for e in reversed(exits) if e.rank is not None and _is_one_host(e.host)}
    numbers = [t.rank for t in attempt.tails] + [s.rank for s in attempt.series] + [e.rank for e in attempt.exits]
    numbers += [m.rank for m in attempt.matches]
    beyond = max((n for n in numbers if n is not None), default=0) >= len(nodes)
    places = {rank: host for rank, host in hosts.items() if host is not None}
    return replace(attempt, exits=exits, exit_hosts=places, several_per_node=lone or beyond)


def _is_one_host(host: str | None) -> bool:
    return bool(host) and not set(host or "") & set("[],")


def several_per_task(attempt: AttemptFacts) -> bool:
    """Whether behind a label stand several ranks, as far as lines say which rank they are about."""
    if any(e.rank is not None and e.worker not in {None, e.rank} for e in attempt.exits):
        return True
    return any(m.rank is not None and (_is_other(m) or _local(m)) for m in (*attempt.matches, *attempt.facts))


def _several_behind_no_label(attempt: AttemptFacts) -> bool:
    return any(m.rank is None and _local(m) for m in (*attempt.matches, *attempt.facts))


def _is_other(match: Match) -> bool:
    if RANK_LABEL.match(match.first.text):
        return match.worker not in {None, match.rank}
    return _REPORTER in match.captures and own_rank(match) not in {None, match.rank}


def _local(match: Match) -> bool:
    """torchrun speaks of a worker that is not the first one of its node."""
    return match.captures.get("local_rank", "0").strip("0") != ""


def with_workers(found: Iterable[Finding], attempt: AttemptFacts) -> tuple[Finding, ...]:
    """Findings that know which rank they are about: torchrun says in its table whose exit code its lines report."""
    several = several_per_task(attempt)
    table = [e for e in attempt.exits if e.origin == "torchrun" and e.worker is not None]
    return tuple(replace(_named(f, table), of_task=several and f.rank is not None) for f in found)


def _named(finding: Finding, table: Sequence[ExitRecord]) -> Finding:
    match = finding.match
    if match is None or match.worker is not None:
        return finding
    if _REPORTER in match.captures:
        return replace(finding, match=replace(match, worker=own_rank(match)))
    said = _CODE.search(match.body or match.first.text)
    if said is None:
        return finding
    code = int(said[1] or said[2])
    workers = {e.worker for e in table if e.code == code and (match.rank is None or e.rank == match.rank)}
    return replace(finding, match=replace(match, worker=workers.pop())) if len(workers) == 1 else finding


def task_of(rank: int | None, attempt: AttemptFacts) -> int | None:
    """The label of the task that a rank belongs to, where lines of that task name the rank."""
    named = [(e.worker, e.rank) for e in attempt.exits]
    named += [(m.worker, m.rank) for m in (*attempt.matches, *attempt.facts)]
    return next((label for worker, label in named if worker is not None and worker == rank), None)


def in_words(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings that are joined by their label, where that is a task's, say so."""
    return tuple(
        replace(f, why=f.why.replace("on the same rank", "in the same task")) if f.of_task and f.why else f
        for f in found
    )


def telling_by_rank(lines: Iterable[TellingLine], attempt: AttemptFacts) -> tuple[TellingLine, ...]:
    """The same lines, with the ranks that they name themselves where their labels are those of tasks."""
    if not several_per_task(attempt):
        return tuple(lines)
    return tuple(
        replace(line, rank=int(own[1]) if (own := RANK_LABEL.match(line.place.text)) else None) for line in lines
    )
