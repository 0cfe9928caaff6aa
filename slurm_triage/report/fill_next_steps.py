"""Puts the next steps of the cause's rule, else of its class, with this job's values, into the diagnosis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slurm_triage.model.diagnosis import Diagnosis
from slurm_triage.model.report import Report
from slurm_triage.model.rule import RuleSet
from slurm_triage.model.size import human_size
from slurm_triage.model.template import SIZE
from slurm_triage.report.next_steps import render_next_steps


def with_next_steps(report: Report, ruleset: RuleSet) -> Diagnosis:
    """The report's diagnosis with ``next_steps`` filled in; empty for a job without a finding."""
    diagnosis = report.diagnosis
    primary = diagnosis.primary
    cls = next((c for c in ruleset.classes if primary is not None and c.id == primary.cls), None)
    if primary is None or cls is None:
        return diagnosis
    roots = [f for f in diagnosis.findings if f.role == "root" and f.cls == cls.id and f.match is not None]
    root = next((f for f in roots if f.title == primary.title), roots[0] if roots else None)
    rule = ruleset.by_id(root.rule) if root is not None else None
    if rule is not None and rule.next_steps:
        cls = replace(cls, next_steps=rule.next_steps)
    attempt = report.facts.last
    context = {
        "job": report.job,
        "p": report.progress,
        "primary": primary,
        "d": diagnosis,
        "report": report,
        "config": attempt.config,
        "env": attempt.env,
        "maxtext": attempt.header.job_id is not None or bool(attempt.config),
        "capture": _readable(root.match.captures) if root is not None and root.match is not None else {},
    }
    return replace(diagnosis, next_steps=render_next_steps(cls, context))


def _readable(captures: Mapping[str, str]) -> Mapping[str, str]:
    return {**captures, SIZE: human_size(captures[SIZE])} if SIZE in captures else captures
