"""The whole flow, top to bottom: target -> job -> files -> facts -> diagnosis -> report."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from slurm_triage import __version__
from slurm_triage.diagnosis.cluster_map import job_nodes
from slurm_triage.diagnosis.completion import LIVE_STATES
from slurm_triage.diagnosis.diagnose import diagnose
from slurm_triage.diagnosis.evidence import Evidence
from slurm_triage.diagnosis.recurring import with_history
from slurm_triage.diagnosis.stall import Stall
from slurm_triage.locate import locate, with_configured_checkpoints
from slurm_triage.logs.read import read_logs
from slurm_triage.model.diagnosis import Diagnosis
from slurm_triage.model.facts import AttemptFacts, LogFacts
from slurm_triage.model.files import JobFiles
from slurm_triage.model.history import History
from slurm_triage.model.job import NO_JOB, Job
from slurm_triage.model.progress import MIN_SILENCE_S
from slurm_triage.model.report import AttemptSummary, Report
from slurm_triage.model.rule import RuleSet
from slurm_triage.origin import attempt_number, dashboards_of, known_job, launcher_of
from slurm_triage.progress.cost import cost
from slurm_triage.progress.project import project
from slurm_triage.progress.throughput import throughput
from slurm_triage.report.fill_next_steps import with_next_steps
from slurm_triage.resubmit.rebuild import with_command
from slurm_triage.rules.load import load_rules
from slurm_triage.rules.matcher import Matcher
from slurm_triage.telemetry.node_snapshots import with_node_snapshots


@dataclass(frozen=True, slots=True)
class Engine:
    """Rules and their compiled form; made once, used for many jobs. ``least_silence_s``: see ``Progress``."""

    ruleset: RuleSet
    matcher: Matcher
    least_silence_s: float = MIN_SILENCE_S

    @classmethod
    def load(cls, ruleset: RuleSet | None = None, least_silence_s: float = MIN_SILENCE_S) -> Engine:
        rules = ruleset if ruleset is not None else load_rules()
        return cls(rules, Matcher.load(rules), least_silence_s)


def triage_path(
    target: str,
    *,
    engine: Engine | None = None,
    ruleset: RuleSet | None = None,
    job: Job = NO_JOB,
    outputs: Path | None = None,
    now: float | None = None,
) -> Report:
    """Report on a log, a job directory or a job id. Raises NotFoundError when nothing is there to read."""
    return triage(job, locate(target, outputs=outputs, job=job), engine or Engine.load(ruleset), now=now)


def triage(
    job: Job, files: JobFiles, engine: Engine, *, now: float | None = None, stall: Stall | None = None
) -> Report:
    """Report on one job whose files are known. ``now`` matters for live jobs only; default: the clock. ``stall``: what
    somebody who watched a live job measured."""
    files = with_node_snapshots(files)
    facts = read_logs(files, engine.ruleset, engine.matcher)
    files = with_configured_checkpoints(files, facts.last.config)
    if now is None and job.state in LIVE_STATES:
        now = time.time()
    return report_of(job, files, facts, engine, now, stall)


def report_of(
    job: Job, files: JobFiles, facts: LogFacts, engine: Engine, now: float | None, stall: Stall | None = None
) -> Report:
    """From facts to the report: progress, throughput, diagnosis, cost, advice. Pure apart from ``generated_at``."""
    attempt = facts.last
    job = known_job(job, attempt, files)
    evidence = gather(job, files, facts, attempt, engine, now, stall)
    diagnosis = diagnose(evidence)
    nodes = job_nodes(job, attempt)
    number = attempt_number(job, facts)
    first = number - len(facts.attempts) + 1
    report = Report(
        version=__version__,
        rules_digest=engine.ruleset.digest,
        generated_at=time.time(),
        job=job,
        launcher=launcher_of(job, attempt, files),
        ray=attempt.header.ray_port is not None,
        attempt=number,
        nodes=nodes,
        node_count=job.node_count or len(nodes) or None,
        files=files,
        facts=facts,
        diagnosis=diagnosis,
        stages=attempt.stages,
        progress=evidence.progress,
        throughput=evidence.throughput,
        cost=cost(job, attempt, evidence.progress, job.node_count),
        dashboards=dashboards_of(job, attempt, files, evidence.fact_kind),
        attempts=tuple(earlier(a, first + a.index, files, facts, engine) for a in facts.attempts[:-1]),
        log_path=files.primary.path if files.primary is not None else files.job_dir or "",
        now=now,
    )
    return _advised(report, engine)


def in_history(report: Report, history: History, engine: Engine) -> Report:
    """The report with what other jobs say about this one, and advice that takes it into account."""
    return _advised(with_history(report, history), engine)


def _advised(report: Report, engine: Engine) -> Report:
    command = with_command(report)
    report = replace(report, diagnosis=replace(report.diagnosis, resubmit=command))
    return replace(report, diagnosis=with_next_steps(report, engine.ruleset))


def gather(
    job: Job,
    files: JobFiles,
    facts: LogFacts,
    attempt: AttemptFacts,
    engine: Engine,
    now: float | None,
    stall: Stall | None = None,
) -> Evidence:
    """Everything that the diagnosis of one attempt rests on."""
    kinds = engine.ruleset.fact_kinds
    progress = replace(project(attempt, files, job, now, fact_kind=kinds), least_silence_s=engine.least_silence_s)
    if stall is not None:
        progress = replace(progress, silence_s=stall.silence_s, silence_basis="clock")
    speed = throughput(attempt, progress, kinds)
    return Evidence(job, files, facts, attempt, progress, speed, engine.ruleset, kinds, stall)


def earlier(attempt: AttemptFacts, number: int, files: JobFiles, facts: LogFacts, engine: Engine) -> AttemptSummary:
    """One line about an attempt that was followed by another one."""
    evidence = gather(NO_JOB, files, facts, attempt, engine, None)
    verdict: Diagnosis = diagnose(evidence)
    return AttemptSummary(
        index=number,
        status=verdict.status,
        cls=verdict.primary.cls if verdict.primary is not None else None,
        title=verdict.primary.title if verdict.primary is not None else None,
        first_step=evidence.progress.first_step,
        last_step=evidence.progress.last_step,
        nodes=job_nodes(NO_JOB, attempt),
        start=attempt.start_time,
        end=attempt.end_time,
    )
