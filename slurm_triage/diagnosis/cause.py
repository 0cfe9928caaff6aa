"""Which finding started it: roles first, then the earliest initiating event, rank by rank.

The order of rules in a table plays no part. Teardown, victims and messengers never win while an initiator exists
(seed: "the earliest error in the log is usually the primary failure; later errors are often consequences").
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace

from slurm_triage.diagnosis.classes import (
    GENERIC,
    LINGERING,
    NOT_BY_STOPPING,
    OUTCOMES,
    STAGE_TIMEOUTS,
    STOPS,
    SYMPTOMS,
    WITNESSES,
    level,
)
from slurm_triage.diagnosis.conditions import with_role
from slurm_triage.diagnosis.traceback import final_exception, traceback_lines
from slurm_triage.model.diagnosis import Finding
from slurm_triage.model.facts import AttemptFacts, Match, Place, StepSeries
from slurm_triage.model.rank_label import RANK_LABEL

#: Signals by which a process ends itself after being told that a peer is gone.
_ABORT = "SIGABRT"
#: ... in the words of whoever reports how a process ended: launchers, shells, workflow engines (134 is 128 + 6).
_ABORTED = re.compile(r"\bSIGABRT\b|\b[Aa]bort(?:ed)?\b|\bsignal 6\b|\b134\b")
_KILLED = "SIGKILL"
#: Signals that no message from a peer brings about: a survivor exits or aborts, it does not crash.
_CRASHES = re.compile("SIG(?:SEGV|KILL|BUS|ILL|FPE)|crashed \\((?!terminate|abort)", re.IGNORECASE)
#: ``Finding.why`` of verdicts that rest on what is missing from the log.
ONLY_CONSEQUENCES = "only its consequences are in the log"
UNANSWERED = "a warning that was never taken back, and nothing came after it"
EARLIEST = "the earliest event that nothing else explains"
#: ``Finding.rule`` of a silent stall, which no line shows.
STALL_RULE = "stall"
#: ... and of a collective that ran into its time limit.
_WATCHDOG = frozenset({"torch-watchdog-timeout", "torch-watchdog-barrier"})
#: ... and of transfers that a queue pair gave up: a follow-up, yet the network's own word.
_FLUSHED = "nccl-ib-flushed"
#: The step line of step N is printed when N+1 is on its way, and some loops print two late.
PRINT_LAG_STEPS = 2
#: Steps are printed through a buffered stdout, a traceback is not: what a pipe's 8 KiB hold (io.DEFAULT_BUFFER_SIZE)
#: comes out when the process ends, behind the traceback. 50 of MaxText's step lines have 8 KB.
_BUFFERED_STEPS = 50
#: A driver's uncaught exception ends the job, yet its actors print on until Ray has stopped them: some seconds.
_ACTOR_LAG_STEPS = 20
#: Rules for what torchrun says about its own workers.
_TORCHRUN = "torchrun-"
_DRIVERS_EXCEPTION = "ray.exceptions."
#: Lines of a traceback are quoted at most this long when compared with other findings' text.
_COMPARE_CHARS = 120
#: A message of its own, written through a logger: it may follow a traceback, but it is no part of one.
_LOGGED = re.compile(r"^(?:\d{4}-\d\d-\d\d[ T]\S+:? )?[IWEF](?:\d{4} \d\d:\d\d:| external/)")


@dataclass(frozen=True, slots=True)
class Cause:
    """``findings`` are all findings with their final roles; ``primary`` is one of them, or None."""

    primary: Finding | None
    findings: tuple[Finding, ...]


def _sorted(findings: Iterable[Finding]) -> list[Finding]:
    """In order of time. With one file the byte order is used; with several, (step, clock, order)."""
    items = list(findings)
    files = {f.match.first.file for f in items if f.match is not None}
    if len(files) <= 1:
        return sorted(items, key=lambda f: f.match.seq if f.match is not None else 1 << 62)

    def key(finding: Finding) -> tuple[float, float, int]:
        match = finding.match
        if match is None:
            return (float("inf"), 0.0, 1 << 62)
        return (-1.0 if match.step is None else float(match.step), match.time or 0.0, match.seq)

    return sorted(items, key=key)


def assign_roles(findings: Sequence[Finding], attempt: AttemptFacts, teardown_seq: int | None) -> tuple[Finding, ...]:
    """Roles by mechanism: what came after the stop, what training survived, what only follows on the same rank."""
    ended_alone = {e.rank for e in attempt.exits if e.code != 0 and not e.victim and e.rank is not None}
    result = [_teardown(f, teardown_seq, ended_alone) for f in _sorted(findings)]
    result = _raised_at_the_end(result, [_survived(f, attempt.series) for f in result], attempt)
    named = [e.signal for e in attempt.exits if e.origin == "torchrun"]
    if named and signal.SIGKILL not in named:
        result = [_ended_by_torchrun(f) for f in result]
    ranks = {f.rank for f in result}
    for rank in ranks:
        own = [i for i, f in enumerate(result) if f.rank == rank]
        for i, finding in zip(own, _within_rank([result[i] for i in own]), strict=True):
            result[i] = finding
    return tuple(_killed_late(_aborted_for_it(f, result), result) for f in result)


def _ended_by_torchrun(finding: Finding) -> Finding:
    """Torchrun says on every node whose failure it saw first. Where SIGKILL was none of them, torchrun itself has sent
    it, after half a minute, to its workers and to no process of theirs."""
    guessed = finding.guess and finding.cls == "oom-host" and finding.rule.startswith(_TORCHRUN)
    if not guessed or finding.role != "root":
        return finding
    return with_role(finding, "consequence", "the launcher saw another worker fail first")


def _killed_late(finding: Finding, found: Sequence[Finding]) -> Finding:
    """A rank that SIGKILL ended, or of which Ray says that it is gone, after others had run into a time-out was stuck:
    from a dead peer they would have had a closed connection."""
    match = finding.match
    gone = finding.cls == "actor-fail"
    if finding.role != "root" or match is None or not (finding.guess or gone or _KILLED in finding.title):
        return finding
    timed_out = (f for f in found if f.cls == "nccl-timeout" and f.role == "root" and f.rank != finding.rank)
    waited = (f.match for f in timed_out if not gone or f.rule in _WATCHDOG)
    if any(w is not None and w.seq < match.seq and w.first.file == match.first.file for w in waited):
        return with_role(finding, "consequence", "other ranks had timed out before it was killed")
    return finding


def _aborted_for_it(finding: Finding, found: Sequence[Finding]) -> Finding:
    """An abort whose reason stands above: on a line that names no rank (the C++ runtime's last words), or said by
    another rank that had waited until its time was up. Of a peer that had died it would have lost the connection."""
    match = finding.match
    if finding.role != "root" or finding.cls != "signal-kill" or match is None or not _ABORTED.search(finding.title):
        return finding
    for other in found:
        words, timed_out = other.match, _timed_out(other)
        if other.role != "root" or other.cls not in SYMPTOMS or words is None:
            continue
        before = words.seq < match.seq and words.first.file == match.first.file
        if before and (timed_out or (other.rank is None and finding.rank is not None)):
            return with_role(finding, "consequence", "the process aborted itself because of the error it reported")
    return finding


def _timed_out(finding: Finding) -> bool:
    """Whether a rank says that it has waited for others as long as it may."""
    return finding.match is not None and (finding.rule in _WATCHDOG or "timeout_ms" in finding.match.captures)


def _teardown(finding: Finding, teardown_seq: int | None, ended_alone: Set[int]) -> Finding:
    """``ended_alone``: ranks that exited with an error of their own. What such a rank says about its own fault may
    reach the log behind the first victim's end, and no stop brings about a full memory."""
    match = finding.match
    if teardown_seq is None or match is None or match.first.file != 0 or finding.role not in {"root", "contributor"}:
        return finding
    late = (finding.cls in WITNESSES and not finding.guess) or finding.cls in STOPS | STAGE_TIMEOUTS
    if match.seq <= teardown_seq or late or match.rule == "exit-status":
        return finding
    if finding.rank in ended_alone and finding.cls in NOT_BY_STOPPING:
        return finding
    return with_role(finding, "teardown", "it was printed while the job was being stopped")


def steps_after(finding: Finding, series: Sequence[StepSeries]) -> int:
    """Steps that the same rank (or, if it printed none, any rank) completed after the last match."""
    match = finding.match
    if match is None:
        return 0
    own = [s for s in series if s.rank == finding.rank and s.file == match.last.file] or [
        s for s in series if s.file == match.last.file
    ]
    most = 0
    for one in own:
        if not one.steps or one.steps[-1].seq <= match.last_seq:
            continue
        if one.sparse:
            most = max(most, (one.last_step or 0) - (match.step or 0))
        else:
            most = max(most, sum(1 for s in one.steps if s.seq > match.last_seq))
    return most


def _survived(finding: Finding, series: Sequence[StepSeries]) -> Finding:
    if finding.role != "root" or finding.cls in LINGERING:
        return finding
    count = steps_after(finding, series)
    raised = finding.match is not None and finding.match.body.startswith(_DRIVERS_EXCEPTION)
    if count <= (_ACTOR_LAG_STEPS if raised else PRINT_LAG_STEPS):
        return finding
    return with_role(finding, "contributor", f"training went on for {count} steps after it")


def _raised_at_the_end(before: Sequence[Finding], after: list[Finding], attempt: AttemptFacts) -> list[Finding]:
    """``after``, with the last traceback of a rank kept as a cause although steps follow it, when that rank then exits
    with a code of its own and nothing else says why: the steps had waited in a buffer."""
    exited = {e.rank for e in attempt.exits if e.code and e.signal is None and not e.victim}
    if any(f.role == "root" and level(f.cls) < 2 for f in after):
        return after
    kept = list(after)
    by_rank: dict[int | None, list[int]] = {rank: [] for rank in exited}
    for i, finding in enumerate(after):
        if finding.rank in by_rank and finding.cls not in OUTCOMES | STOPS:
            by_rank[finding.rank].append(i)
    for own in by_rank.values():
        last = next((i for i in reversed(own) if final_exception(_block(after[i])) is not None), None)
        told = any(after[i].role in {"root", "consequence"} for i in own)
        if last is not None and not told and steps_after(after[last], attempt.series) <= _BUFFERED_STEPS:
            kept[last] = before[last]
    return kept


def _block(finding: Finding) -> Sequence[str]:
    return finding.match.block if finding.match is not None else ()


def _within_rank(findings: list[Finding]) -> list[Finding]:
    """Findings of one rank in order: the first real cause stays root, what it brought about becomes consequence."""
    result = list(findings)
    # Only a text about a lost peer tells a rank that another one failed; the echo of a build or of an abort does not.
    messengers = [f for f in result if f.role == "consequence" and f.cls in SYMPTOMS and f.match is not None]
    specific = next((f for f in result if f.role == "root" and level(f.cls) == 0), None)
    symptom = next((f for f in result if f.role == "root" and f.cls in SYMPTOMS), None)
    killed = [k for k, f in enumerate(result) if f.cls in {"actor-fail", "signal-kill"}]
    for i, finding in enumerate(result):
        if finding.role != "root":
            continue
        if finding.cls in GENERIC or finding.cls in OUTCOMES:
            deaths = [result[k] for k in killed if result[k].rule != finding.rule]
            why = _explained(finding, specific, symptom, messengers, deaths)
            if why is not None:
                result[i] = with_role(finding, "consequence", why)
        elif finding.cls in SYMPTOMS and specific is not None:
            result[i] = with_role(finding, "consequence", f"the same rank shows {specific.cls}")
    first_generic = next((f for f in result if f.role == "root" and f.cls in GENERIC), None)
    for i, finding in enumerate(result):
        if finding.role != "root" or first_generic is None or finding is first_generic:
            continue
        after = _sorted([first_generic, finding])[0] is first_generic
        if after and finding.cls in SYMPTOMS | GENERIC | OUTCOMES:
            result[i] = with_role(finding, "consequence", f'it followed "{first_generic.title}" on the same rank')
    return result


def _explained(
    finding: Finding,
    specific: Finding | None,
    symptom: Finding | None,
    messengers: Sequence[Finding],
    deaths: Sequence[Finding],
) -> str | None:
    """Why a generic finding (an exception, a signal, an exit code) is not a cause of its own; None if it may be one."""
    match = finding.match
    if specific is not None:
        return f"explained by {specific.cls} on the same rank"
    if match is not None:
        told = [m.match.seq for m in messengers if m.match is not None and _same_worker(m.match, match)]
        first_messenger = min(told, default=None)
        for other in (*messengers, *([symptom] if symptom is not None else [])):
            if other.match is None or _LOGGED.match(other.match.first.text):
                continue
            if _quotes(traceback_lines(match.block), other.match.body or other.match.first.text):
                return "the exception only reports that another rank failed"
        for death in deaths if finding.cls == "python-exception" else ():
            places = (death.match.first, death.match.last) if death.match is not None else ()
            if any((final_exception(match.block) or "?") in place.text for place in places):
                return "the exception only reports that a worker died"
            if final_exception(match.block) is None and any(_follows(match, place) for place in places):
                return "the launcher begins its own traceback where it reports that a worker died"
        crashed = _CRASHES.search(finding.title) is not None
        if first_messenger is not None and match.seq >= first_messenger and not crashed:
            return "this rank had already been told that another one failed"
    if symptom is not None and symptom is not finding:
        if match is None or symptom.match is None or symptom.match.seq <= match.seq:
            return f"it followed {symptom.cls} on the same rank"
        if _ABORT in finding.title:
            return "the process aborted itself because of the error it reported"
    return None


def _follows(match: Match, place: Place) -> bool:
    """Whether a match stands in the line behind another line."""
    return match.first.file == place.file and place.line is not None and match.first.line == place.line + 1


def _same_worker(one: Match, other: Match) -> bool:
    """Behind one label several workers may speak: what one was told, another need not know."""
    return one.worker is None or other.worker is None or one.worker == other.worker


def _quotes(block: Sequence[str], text: str) -> bool:
    """Whether a traceback's lines contain the text of another finding."""
    # Quoted lines have lost the rank that PyTorch puts before them; the text of a finding keeps it.
    said = text.strip()
    label = RANK_LABEL.match(said)
    needle = said[label.end() if label is not None else 0 :][:_COMPARE_CHARS]
    return bool(needle) and any(line.strip()[:_COMPARE_CHARS] in (needle, text) or needle in line for line in block)


def choose(findings: Sequence[Finding], *, announced: bool = False) -> Cause:
    """The initiating event among findings with roles. Ties go to the more specific class. ``announced``: a detector
    spoke before the silence, not at its end."""
    roots = [f for f in findings if f.role == "root"]
    primary = (
        _hard(roots)
        # A stall found beyond what the detectors' own timeouts explain began before any of them spoke.
        or _first(f for f in roots if f.rule == STALL_RULE and not announced)
        or _first(f for f in roots if f.cls in SYMPTOMS)
        or _first(f for f in roots if f.cls in STOPS)
        or _first(f for f in roots if f.cls in OUTCOMES)
        or _promoted(findings)
        or _unanswered(findings)
    )
    if primary is None:
        return Cause(None, tuple(findings))
    return Cause(primary, tuple(_final_role(f, primary) for f in findings))


def _hard(roots: Sequence[Finding]) -> Finding | None:
    """Specific causes and deaths. A witness (kernel, scheduler) speaks late but decides."""
    specific = [f for f in roots if level(f.cls) == 0]
    generic = [f for f in roots if level(f.cls) == 1]
    first_specific, first_generic = _first(specific), _first(generic)
    witness = _first(f for f in specific if f.cls in WITNESSES and not f.guess)
    if first_generic is None or first_specific is None:
        return first_specific or first_generic
    if witness is not None and witness is first_specific:
        return witness
    return _sorted([first_specific, first_generic])[0]


def _first(findings: Iterable[Finding]) -> Finding | None:
    items = _sorted(findings)
    return items[0] if items else None


def _promoted(findings: Sequence[Finding]) -> Finding | None:
    """Only messengers are left: the cause itself printed nothing. Without a name for it, the first rank that lost its
    peer is where to look; the rank that said nothing at all is the suspect."""
    # Losing the coordinator is a failure with a name; losing any other peer only says that somebody is gone.
    lost = _first(
        f
        for f in findings
        if f.role == "consequence" and (f.cls in {"coordination-fail", "heartbeat-timeout"} or f.rule == _FLUSHED)
    )
    first = _first(f for f in findings if f.role == "consequence")
    if first is None:
        return None
    # Who aborts for a lost peer says so before. Who aborts without a word, and before others speak, was the first.
    if lost is not None and (first.cls != "signal-kill" or first.rank in {None, lost.rank}):
        return replace(lost, role="root", why=ONLY_CONSEQUENCES)
    if first.cls in GENERIC:
        # An abort without the message that should stand before it.
        return replace(first, role="root", why=ONLY_CONSEQUENCES)
    if all(f.cls in OUTCOMES for f in findings if f.role == "consequence"):
        return replace(first, role="root")
    telling = {f.rank for f in findings if f.role == "consequence"}
    who = "another rank" if len(telling) == 1 else f"{len(telling)} other ranks"
    return Finding(
        cls="unknown-death",
        role="root",
        rule=first.rule,
        title=f"a rank ended without a message; {who} lost the connection to it",
        step=first.step,
        match=first.match,
        why=ONLY_CONSEQUENCES,
    )


def _unanswered(findings: Sequence[Finding]) -> Finding | None:
    """A warning that something may be stuck, never taken back, and nothing after it."""
    first = _first(f for f in findings if is_open_warning(f))
    return replace(first, role="root", why=UNANSWERED) if first is not None else None


def is_open_warning(finding: Finding) -> bool:
    """By its rule a mere warning, and not one that training survived."""
    return finding.role == "contributor" and finding.cls in SYMPTOMS and finding.match is not None and not finding.why


def _final_role(finding: Finding, primary: Finding) -> Finding:
    if finding is primary or (
        finding.rule == primary.rule and finding.rank == primary.rank and finding.match is primary.match
    ):
        return replace(finding, role="root", why=finding.why or (EARLIEST if finding.match is not None else None))
    if finding.role != "root":
        return finding
    if finding.cls == primary.cls:
        return with_role(finding, "root", "the same failure, seen once more") if finding.match is not None else finding
    if finding.cls in SYMPTOMS | STOPS | OUTCOMES | GENERIC:
        return with_role(finding, "consequence", f"it came after {primary.cls}")
    return with_role(finding, "contributor", f"it came after {primary.cls}")
