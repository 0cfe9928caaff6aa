"""From matches to findings: harmless text, unmet conditions and echoes are set aside, with the reason kept."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from slurm_triage.diagnosis.traceback import DURING, final_exception, traceback_lines
from slurm_triage.model.diagnosis import Finding
from slurm_triage.model.exit_status import signal_name
from slurm_triage.model.facts import AttemptFacts, Match
from slurm_triage.model.rule import HARMLESS, Rule, RuleSet
from slurm_triage.model.rule_reading import named_by_frames, stack_frames
from slurm_triage.model.template import fill

#: Stands in ``resolved_by`` for "a step completed later".
LATER_STEP = "@step"
#: The rule of lines that show progress without a step number.
_GOES_ON = "training-goes-on"
#: The rules of a stop by Ctrl-C and of the traceback in which Python shows it.
_INTERRUPTS, _TRACEBACK = ("keyboard-interrupt", "keyboard-interrupt-in-destructor"), "python-traceback"
_MAX_TITLE_CHARS = 200
#: Program text that was what the program did when it ended, not one branch of it.
_STATEMENT = re.compile(r"[ \t|]*(?:raise|assert|return|abort|sys\.exit)\b|[ \t|]*\^")
#: How Python's subprocess, and so torchrun and DeepSpeed, write that a signal ended a process.
_MINUS_SIGNAL = re.compile(r"-\d{1,2}")


@dataclass(frozen=True, slots=True)
class Sorted:
    """``suppressed``: (rule id, why) of matches that count for nothing here."""

    findings: tuple[Finding, ...]
    suppressed: tuple[tuple[str, str], ...]
    harmless: tuple[tuple[str, int], ...]


def sort_matches(attempt: AttemptFacts, ruleset: RuleSet) -> Sorted:
    """Findings of one attempt in log order, each with the role its rule gives it."""
    rules = {rule.id: rule for rule in ruleset.rules}
    by_rule: dict[str, list[Match]] = {}
    for match in (*attempt.matches, *attempt.facts):
        by_rule.setdefault(match.rule, []).append(match)
    last_steps = last_progress(attempt)
    excuses = [m for m in attempt.matches if m.rule in rules and rules[m.rule].cls == HARMLESS]
    findings: list[Finding] = []
    suppressed: list[tuple[str, str]] = []
    harmless: dict[str, int] = {}
    for match in attempt.matches:
        rule = rules.get(match.rule)
        if rule is None or rule.id == _GOES_ON:
            continue
        if rule.cls == HARMLESS:
            harmless[rule.id] = harmless.get(rule.id, 0) + match.count
            continue
        reason = _unmet(rule, match, by_rule) or _resolved(rule, match, by_rule, last_steps, attempt.usual_seq)
        if reason is None:
            reason = _subsumed(match, rules, by_rule)
            if reason is None and rule.cls == "python-exception":
                reason = _ends_harmlessly(match, excuses)
        if reason is not None:
            suppressed.append((rule.id, reason))
            continue
        findings.append(_finding(rule, match, attempt))
    by_frames = [rule for rule in ruleset.rules if rule.frames]
    findings = [_by_its_stack(finding, findings, by_frames) for finding in findings]
    return Sorted(tuple(findings), tuple(dict.fromkeys(suppressed)), tuple(sorted(harmless.items())))


def last_progress(attempt: AttemptFacts) -> dict[int | None, int]:
    """Where the last step of each rank stands in the log."""
    last = {s.rank: s.steps[-1].seq for s in attempt.series if s.steps}
    for match in attempt.of(_GOES_ON):
        last[match.rank] = max(match.last_seq, last.get(match.rank, -1))
    return last


def _unmet(rule: Rule, match: Match, by_rule: Mapping[str, Sequence[Match]]) -> str | None:
    if match.source and _STATEMENT.match(match.body) is None:
        return "only program text that a traceback shows says so"
    missing = [r for r in rule.requires if r not in by_rule]
    if missing:
        return f"needs {missing[0]}, which did not match"
    present = [r for r in rule.absent if r in by_rule]
    if present:
        return f"does not count beside {present[0]}"
    if rule.before_step is not None and match.step is not None and match.step >= rule.before_step:
        return f"only counts before step {rule.before_step}; step {match.step} was done"
    if rule.after_step is not None and (match.step is None or match.step < rule.after_step):
        return f"only counts after step {rule.after_step}"
    return None


def _resolved(
    rule: Rule,
    match: Match,
    by_rule: Mapping[str, Sequence[Match]],
    last_steps: Mapping[int | None, int],
    usual_seq: Mapping[int, int],
) -> str | None:
    for other in rule.resolved_by:
        if other == LATER_STEP:
            last = last_steps.get(match.rank, max(last_steps.values(), default=-1))
            if last > match.last_seq:
                return "a step completed after it"
            if usual_seq.get(match.last.file, -1) > match.last_seq:
                return "the log goes on after it as usual"
            continue
        for later in by_rule.get(other, ()):
            same = later.rank == match.rank or later.rank is None or match.rank is None
            if same and later.last_seq > match.last_seq:
                return f"taken back by {other}"
    return None


def _subsumed(match: Match, rules: Mapping[str, Rule], by_rule: Mapping[str, Sequence[Match]]) -> str | None:
    """A harmless line explains one failure behind it ("Exception ignored in" stands before every ignored traceback);
    one more than there are such lines is a failure of its own, and so is one that does not stand in its block."""
    interrupt = next((i for i in _INTERRUPTS if any(m.rank == match.rank for m in by_rule.get(i, ()))), None)
    if match.rule == _TRACEBACK and interrupt is not None:
        lines = traceback_lines(match.block)
        stopped = (final_exception(lines) or "").rstrip(": ") == "KeyboardInterrupt"
        if stopped and not any(line.startswith(DURING) for line in lines):
            return f"an echo of {interrupt}"
    for rule_id, matches in by_rule.items():
        owner = rules.get(rule_id)
        if owner is None or match.rule not in owner.subsumes:
            continue
        for other in matches:
            if other.rank != match.rank or (owner.cls == HARMLESS and other.block and match.body not in other.block):
                continue
            if _unmet(owner, other, by_rule) is not None:
                continue
            between = (m for m in by_rule[match.rule] if m.rank == match.rank and other.seq < m.seq <= match.seq)
            if owner.cls != HARMLESS or (other.seq < match.seq and sum(m.count for m in between) <= other.count):
                return f"an echo of {rule_id}"
    return None


def _ends_harmlessly(match: Match, excuses: Sequence[Match]) -> str | None:
    """Tracebacks that end in an error known to be harmless are harmless themselves. Of several in a row only the first
    one's text is kept, so there must be as many excuses as tracebacks."""
    exception = final_exception(match.block) if match.block else None
    if exception is not None and any(
        exception in m.first.text and m.rank == match.rank and m.count >= match.count for m in excuses
    ):
        return "it ends in an error that is known to be harmless"
    return None


def _finding(rule: Rule, match: Match, attempt: AttemptFacts) -> Finding:
    known = {"rank": match.rank, "node": match.node, "step": match.step, "count": match.count}
    values = {name: str(value) for name, value in known.items() if value is not None} | dict(match.captures)
    if _MINUS_SIGNAL.fullmatch(values.get("cause", "")):
        values["cause"] = signal_name(-int(values["cause"])) or values["cause"]
    title = fill(rule.title, values)
    if rule.cls == "python-exception" and any(line.lstrip().startswith('File "') for line in match.block):
        exception = final_exception(match.block)
        if exception is not None:
            title = exception
    if len(title) > _MAX_TITLE_CHARS:
        title = f"{title[: _MAX_TITLE_CHARS - 1]}…"
    return Finding(
        cls=rule.cls,
        role=rule.role,
        rule=rule.id,
        title=title,
        rank=match.rank,
        node=match.node or (attempt.rank_hosts.get(match.rank) if match.rank is not None else None),
        step=match.step,
        count=match.count,
        match=match,
        guess=rule.guess,
    )


def _by_its_stack(finding: Finding, findings: Sequence[Finding], by_frames: Sequence[Rule]) -> Finding:
    """An exception is what the code was about that it came through, unless its own words say more."""
    block = finding.match.block if finding.match is not None else ()
    exception = final_exception(block) if block and finding.cls == "python-exception" else None
    if exception is None or any(
        f.cls != finding.cls and f.rank == finding.rank and f.match is not None and exception in f.match.first.text
        for f in findings
    ):
        return finding
    frames = stack_frames(traceback_lines(block))
    rule = next((rule for rule in by_frames if named_by_frames(rule, frames, exception)), None)
    return finding if rule is None else replace(finding, cls=rule.cls, rule=rule.id)


def with_role(finding: Finding, role: str, why: str) -> Finding:
    """The same finding in another role. ``why`` is kept for ``explain``."""
    return replace(finding, role=role, why=why)  # type: ignore[arg-type]
