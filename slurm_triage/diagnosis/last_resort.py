"""What lines and messages that no rule knows suggest, where nothing better explains the end: who complains, and about
what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from slurm_triage.diagnosis.cause import ONLY_CONSEQUENCES, UNANSWERED, Cause
from slurm_triage.diagnosis.classes import GENERIC, OUTCOMES, STOPS, SYMPTOMS, WITNESSES
from slurm_triage.diagnosis.conditions import last_progress
from slurm_triage.diagnosis.traceback import final_exception
from slurm_triage.model.diagnosis import Finding
from slurm_triage.model.facts import AttemptFacts, Match
from slurm_triage.model.rule import Rule, RuleSet
from slurm_triage.model.rule_reading import is_last_resort

#: ``Finding.why`` of such a verdict.
SUGGESTED = "nothing else explains the end, and this is what the line is about"
#: Seen in healthy logs as well: what weighs less than a word for an error (logs/telling.py).
_MIN_SCORE = 4


def suggested(
    cause: Finding | None,
    findings: Sequence[Finding],
    attempt: AttemptFacts,
    ruleset: RuleSet,
    teardown_seq: int | None,
    *,
    failed: bool,
) -> Finding | None:
    """The finding that the last lines suggest; None where the cause is known, or they tell nothing. What goes on as
    usual after a line is not explained by it.

    A line overrules a generic cause, a symptom or a stop only by a strong rule, and only if it came first; a strong
    rule also finds more in the message of an exception, or in a line that only a vague rule knows. ``failed``: that the
    job failed is known, else a line that is not among the last words does not count.
    The earliest line of the rule with the highest priority: what is said more precisely counts, then what came first.
    Without any such line, what otherwise only makes a failure likelier.
    """
    weak = cause is None or _says_nothing(cause)
    vague = cause is not None and any(r.vague for r in ruleset.rules if r.id == cause.rule)
    if cause is not None and not weak and not vague and cause.cls not in GENERIC | SYMPTOMS | STOPS | OUTCOMES:
        return None
    rules = sorted((r for r in ruleset.rules if r.last_resort and (weak or r.strong)), key=lambda r: -r.priority)
    if cause is not None and cause.cls in GENERIC and cause.cls != "python-exception":
        # That something failed is no more than how it ended.
        rules = [r for r in rules if r.cls not in OUTCOMES]
    if cause is not None and cause.match is not None and (cause.cls == "python-exception" or vague):
        said = _said(cause, cause.match)
        named = next((r for r in rules if r.strong and r.cls != cause.cls and is_last_resort(r, said)), None)
        if named is not None:
            return replace(cause, cls=named.cls, rule=named.id, why=SUGGESTED, guess=True)
    last_step = max(last_progress(attempt).values(), default=-1)
    begin = cause.match.seq if cause is not None and cause.match is not None and not weak else None

    def counts(rule: Rule | None, seq: int, file: int) -> bool:
        # A witness speaks after the fact.
        before = begin is None or seq < begin or (rule is not None and rule.cls in WITNESSES)
        early = (teardown_seq is None or seq < teardown_seq) and before
        late = attempt.usual_seq if failed else attempt.quiet_seq
        return max(last_step, late.get(file, -1)) < seq and early

    found = _by_line(rules, attempt, counts)
    if found is not None or not weak:
        return found
    for finding in findings:
        match = finding.match
        if match is None or finding.role != "contributor" or finding.why:
            continue
        if counts(None, match.last_seq, match.last.file):
            return replace(finding, role="root", why=SUGGESTED)
    return None


def chosen(suggestion: Finding, others: Sequence[Finding]) -> Cause:
    """The suggestion as the cause; what else was taken for one only followed from it."""
    after = [
        replace(f, role="consequence", why=f"it came after {suggestion.cls}") if f.role == "root" else f for f in others
    ]
    return Cause(suggestion, (suggestion, *after))


def _by_line(
    rules: Sequence[Rule], attempt: AttemptFacts, counts: Callable[[Rule | None, int, int], bool]
) -> Finding | None:
    lines = [line for line in attempt.telling if line.score >= _MIN_SCORE]
    for rule in rules:
        line = next((n for n in lines if counts(rule, n.seq, n.place.file) and is_last_resort(rule, n.body)), None)
        if line is None:
            continue
        match = Match(rule.id, line.rank, line.node, 1, line.place, line.place, line.seq, line.seq)
        return Finding(
            cls=rule.cls,
            role="root",
            rule=rule.id,
            title=rule.title,
            rank=line.rank,
            node=line.node,
            match=match,
            why=SUGGESTED,
            guess=True,
        )
    return None


def _said(cause: Finding, match: Match) -> str:
    """The whole message, of which a title shows the beginning."""
    return final_exception(match.block) or (cause.title if match.block else match.body or match.first.text)


def _says_nothing(cause: Finding) -> bool:
    """Says that it ended badly and nothing more: an exit status, messengers without a message, a mere warning."""
    # That the coordinator is gone has a name, and its messages list possibilities ("preempted/died/restarted").
    if cause.why == UNANSWERED or (cause.why == ONLY_CONSEQUENCES and cause.cls not in SYMPTOMS):
        return True
    return cause.cls in OUTCOMES and (
        cause.match is None or cause.rule == "exit-status" or cause.cls == "unknown-death"
    )
