"""The per-rank view: last step, first error, last words; ranks with the same story share a row."""

from __future__ import annotations

from collections.abc import Sequence

from slurm_triage.diagnosis.classes import STOPS
from slurm_triage.diagnosis.cluster_map import node_of
from slurm_triage.diagnosis.numbering import several_per_task
from slurm_triage.model import nodelist
from slurm_triage.model.diagnosis import Finding, RankView
from slurm_triage.model.exit_status import signal_name
from slurm_triage.model.facts import AttemptFacts, ExitRecord
from slurm_triage.model.progress import Progress
from slurm_triage.model.same_text import normalise

_MAX_WORDS_CHARS = 160
_MAX_SILENT = 16


def rank_views(
    findings: Sequence[Finding],
    exits: Sequence[ExitRecord],
    attempt: AttemptFacts,
    progress: Progress,
    nodes: Sequence[str],
) -> tuple[RankView, ...]:
    """Rows ordered by what is odd about them: fewest ranks first, then lowest rank. Empty when no line has a rank.

    Where a task has several ranks, nothing tells whose the steps and last words behind its label are."""
    several = several_per_task(attempt)
    last_step = {} if several else {r.rank: r.last for r in progress.ranks}
    tails = {} if several else {t.rank: t for t in attempt.tails}
    labels = {f.said_by: f.rank for f in findings} if several else {}
    exit_of = {e.rank: e for e in exits}
    known = {f.said_by for f in findings} | last_step.keys() | tails.keys() | exit_of.keys()
    ranks = sorted(rank for rank in known if rank is not None)
    first_error: dict[int, Finding] = {}
    for finding in findings:
        rank = finding.said_by
        if (
            rank is not None
            # slurmstepd's lines about the step carry the label of rank 0.
            and finding.cls not in STOPS
            and finding.role in {"root", "consequence", "contributor"}
            and finding.match is not None
        ):
            earlier = first_error.get(rank)
            if earlier is None or _tells_more(finding, earlier):
                first_error[rank] = finding
    rows: dict[tuple[int | None, str | None, str | None], list[int]] = {}
    said = {rank: f"{error.cls}: {error.title}" for rank, error in first_error.items()}
    for rank in ranks:
        story = normalise(said[rank]) if rank in said else None
        rows.setdefault((last_step.get(rank), story, _exit_text(exit_of.get(rank))), []).append(rank)
    views = []
    for (step, _, exit_text), members in sorted(rows.items(), key=lambda r: (len(r[1]), r[1][0])):
        hosts = tuple(dict.fromkeys(n for n in (node_of(labels.get(m, m), attempt, nodes) for m in members) if n))
        tail = tails.get(members[0])
        views.append(
            RankView(
                ranks=tuple(members),
                nodes=hosts,
                last_step=step,
                first_error=said.get(members[0]),
                last_words=tail.text[:_MAX_WORDS_CHARS] if tail is not None else None,
                exit=exit_text,
                last_time=tail.said_at if tail is not None else None,
            )
        )
    return tuple(views)


def _tells_more(finding: Finding, known: Finding) -> bool:
    """A cause tells more than what it explains on the same rank (the head of a traceback stands before its message);
    else the earlier one does."""
    if (finding.role == "root") != (known.role == "root"):
        return finding.role == "root"
    return finding.match is not None and known.match is not None and finding.match.seq < known.match.seq


def _exit_text(record: ExitRecord | None) -> str | None:
    if record is None:
        return None
    text = signal_name(record.signal) if record.signal is not None else f"exit {record.code}"
    return f"{text} (stopped)" if record.victim else text


def silent_ranks(attempt: AttemptFacts) -> tuple[int, ...]:
    """Ranks that should exist but completed no step and wrote nothing near the end, when most others did."""
    count = attempt.header.nnodes
    present = {t.rank for t in attempt.tails if t.rank is not None} | {
        s.rank for s in attempt.series if s.rank is not None
    }
    if not count or not present or len(present) * 2 < count:
        return ()
    return tuple(r for r in range(count) if r not in present)


def without_exit(attempt: AttemptFacts) -> tuple[int, ...]:
    """Ranks that worked and never reported their end, where most others did: their node may be gone."""
    ended = {e.rank for e in attempt.exits if e.rank is not None}
    worked = {s.rank for s in attempt.series if s.rank is not None} | {
        t.rank for t in attempt.tails if t.rank is not None
    }
    missing = sorted(worked - ended)
    return tuple(missing) if len(ended & worked) > len(missing) else ()


def silence_notes(attempt: AttemptFacts, nodes: Sequence[str]) -> tuple[str, ...]:
    """The launcher's hint for a stage that hangs: look for the label that is missing among the tasks' output."""
    notes = []
    if silent := silent_ranks(attempt):
        who = _who(silent, attempt, nodes)
        notes.append(f"{who} completed no step and is missing from the end of the log: look there first.")
    if lost := without_exit(attempt):
        notes.append(f"{_who(lost, attempt, nodes)} never reported its end, as the others did: look at its node first.")
    return tuple(notes)


def _who(ranks: Sequence[int], attempt: AttemptFacts, nodes: Sequence[str]) -> str:
    hosts = [n for n in (node_of(rank, attempt, nodes) for rank in ranks) if n]
    where = f" ({nodelist.fold(hosts)})" if hosts else ""
    noun = "Task" if several_per_task(attempt) else "Rank"
    return f"{noun} {', '.join(map(str, ranks[:_MAX_SILENT]))}{where}"
