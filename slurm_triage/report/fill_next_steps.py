"""Puts the class's next steps, with this job's values, into the diagnosis."""

from __future__ import annotations

from dataclasses import replace

from slurm_triage.model.diagnosis import Diagnosis
from slurm_triage.model.report import Report
from slurm_triage.model.rule import RuleSet
from slurm_triage.report.next_steps import render_next_steps


def with_next_steps(report: Report, ruleset: RuleSet) -> Diagnosis:
    """The report's diagnosis with ``next_steps`` filled in; empty for a job without a finding."""
    diagnosis = report.diagnosis
    primary = diagnosis.primary
    cls = next((c for c in ruleset.classes if primary is not None and c.id == primary.cls), None)
    if cls is None:
        return diagnosis
    root = next((f for f in diagnosis.findings if f.role == "root" and f.cls == cls.id and f.match is not None), None)
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
        "capture": root.match.captures if root is not None and root.match is not None else {},
    }
    return replace(diagnosis, next_steps=render_next_steps(cls, context))
