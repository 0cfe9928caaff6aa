"""Report to the document of ``triage.json``, which every other view is rendered from too."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from slurm_triage.model.diagnosis import Diagnosis, Finding, Primary, RankView, Resubmit
from slurm_triage.model.duration import iso
from slurm_triage.model.facts import Place
from slurm_triage.model.files import LogFile
from slurm_triage.model.progress import Cost, Progress, Throughput
from slurm_triage.model.report import SCHEMA, AttemptSummary, Dashboards, Report
from slurm_triage.report.document import Document
from slurm_triage.report.history_document import history_document
from slurm_triage.report.plain_text import valid_unicode
from slurm_triage.report.redact import redact

#: Beyond this, JSON readers that hold numbers in doubles (jq, JavaScript) would show another number (RFC 8259, 6).
_MAX_EXACT_INTEGER = 2**53 - 1
#: Digits after the point of every number that is not an integer: below what any log prints, above float noise.
_DECIMALS = 6


def report_document(report: Report, *, share: bool = False) -> Document:
    """Every documented key, in order; unknown is None. Secrets are redacted, in ``share`` mode private names too."""
    diagnosis = report.diagnosis
    document: Document = {
        "schema": SCHEMA,
        "generator": {"version": report.version, "rules_digest": report.rules_digest},
        "generated_at": _time(report.generated_at),
        "now": _time(report.now),
        "job": _job(report),
        "accounting": {"source": report.job.source, "final": report.job.final},
        "log": _log(report),
        "status": diagnosis.status,
        "primary": None if diagnosis.primary is None else _primary(diagnosis.primary),
        "findings": [_finding(f, report.files.logs) for f in _by_time(diagnosis.findings)],
        "suppressed": [{"rule": rule, "reason": reason} for rule, reason in diagnosis.suppressed],
        "harmless": [{"rule": rule, "count": count} for rule, count in diagnosis.harmless],
        "stages": [
            {"name": s.name, "result": s.result, "elapsed_s": s.elapsed_s, "limit_s": s.limit_s, "exit": s.exit_code}
            for s in report.stages
        ],
        "exits": _exits(diagnosis),
        "ranks": [_rank_view(view) for view in diagnosis.ranks],
        "progress": _progress(report.progress),
        "throughput": _throughput(report.throughput),
        "cost": _cost(report.cost),
        "suspects": [
            {"node": s.node, "why": list(s.why), "confidence": s.confidence, "exclude": s.exclude}
            for s in diagnosis.suspects
        ],
        "resubmit": _resubmit(diagnosis.resubmit),
        "dashboards": _dashboards(report.dashboards),
        "attempts": [_attempt(a) for a in report.attempts],
        "narrative": diagnosis.narrative or None,
        "chain": list(diagnosis.chain),
        "next_steps": list(diagnosis.next_steps),
        "telling": [{"rank": t.rank, "node": t.node, **_place(t.place, report.files.logs)} for t in diagnosis.telling],
        "notes": list(diagnosis.notes),
        "history": None if report.history is None else history_document(report.history),
        "evidence": {name: list(lines) for name, lines in report.evidence.items()},
    }
    return redact({key: _clean(value) for key, value in document.items()}, share=share)


def _job(report: Report) -> Document:
    job = report.job
    return {
        "id": job.job_id,
        "array_job_id": job.array_job_id,
        "array_task_id": job.array_task_id,
        "het_job_id": job.het_job_id,
        "attempt": report.attempt,
        "restarts": job.restarts,
        "name": job.name,
        "user": job.user,
        "account": job.account,
        "partition": job.partition,
        "cluster": job.cluster,
        "launcher": report.launcher,
        "ray": report.ray,
        "nodes": list(report.nodes),
        "node_count": report.node_count,
        "state": job.state,
        "reason": job.reason,
        "exit_code": job.exit_code,
        "exit_signal": job.exit_signal,
        "derived_exit_code": job.derived_exit_code,
        "submit": _time(job.submit),
        "start": _time(job.start),
        "end": _time(job.end),
        "elapsed_s": job.elapsed_s,
        "time_limit_s": job.time_limit_s,
        "work_dir": job.work_dir,
        "stdout": job.stdout,
        "submit_line": job.submit_line,
    }


def _log(report: Report) -> Document:
    files, facts = report.files, report.facts
    primary = files.primary
    read = bool(files.logs)
    return {
        # Without a log, the report is about the directory, which has a key of its own.
        "path": report.log_path if report.log_path not in {"", files.job_dir} else None,
        "size_bytes": primary.size_bytes if primary else None,
        "files": [
            {"path": f.path, "role": f.role, "ranks": list(f.ranks), "host": f.host, "size_bytes": f.size_bytes}
            for f in files.logs
        ],
        "bytes_scanned": facts.bytes_scanned if read else None,
        "truncated": facts.truncated,
        "binary": facts.binary,
        "job_dir": files.job_dir,
        "problem": files.problem,
        "core_dumps": list(files.core_dumps),
        "notes": list(facts.notes),
    }


def _primary(primary: Primary) -> Document:
    return {
        "class": primary.cls,
        "title": primary.title,
        "stage": primary.stage,
        "domain": primary.domain,
        "rank": primary.rank,
        "ranks": list(primary.ranks),
        "node": primary.node,
        "step": primary.step,
        "confidence": primary.confidence,
        "retry": primary.retry,
    }


def _by_time(findings: Iterable[Finding]) -> list[Finding]:
    """In the order of the log. A finding that no line shows stays behind the one it was listed after."""
    placed: list[tuple[int, Finding]] = []
    seq = -1
    for finding in findings:
        seq = finding.match.seq if finding.match else seq
        placed.append((seq, finding))
    return [finding for _, finding in sorted(placed, key=lambda pair: pair[0])]


def _finding(finding: Finding, logs: tuple[LogFile, ...]) -> Document:
    match = finding.match
    return {
        "class": finding.cls,
        "role": finding.role,
        "rule": finding.rule,
        "title": finding.title,
        "rank": finding.said_by,
        "node": finding.node,
        "step": finding.step,
        "count": finding.count,
        "first": None if match is None else _place(match.first, logs),
        "last": None if match is None else _place(match.last, logs),
        "first_time": None if match is None else _time(match.time),
        "last_time": None if match is None else _time(match.last_time),
        "block": [] if match is None else list(match.block),
        "captures": {} if match is None else dict(match.captures),
        "why": finding.why,
    }


def _place(place: Place, logs: tuple[LogFile, ...]) -> Document:
    path = logs[place.file].path if 0 <= place.file < len(logs) else None
    return {"file": path, "line": place.line, "offset": place.offset, "text": place.text}


def _exits(diagnosis: Diagnosis) -> list[Document]:
    return [
        {
            "rank": e.rank,
            "host": e.host,
            "exit": e.code,
            "signal": e.signal,
            "victim": e.victim,
            "first_bad": e.first_bad,
            "origin": e.origin,
        }
        for e in diagnosis.exits
    ]


def _rank_view(view: RankView) -> Document:
    return {
        "ranks": list(view.ranks),
        "nodes": list(view.nodes),
        "last_step": view.last_step,
        "first_error": view.first_error,
        "last_words": view.last_words,
        "last_time": _time(view.last_time),
        "exit": view.exit,
    }


def _progress(p: Progress) -> Document:
    return {
        "start": p.start,
        "restored_from": p.restored_from,
        "first_step": p.first_step,
        "last_step": p.last_step,
        "last_step_min": p.last_step_min,
        "last_step_time": _time(p.last_step_time),
        "total_steps": p.total_steps,
        "steps_this_run": p.steps_this_run,
        "percent": p.percent,
        "step_time_s": p.step_time_s,
        "expected_step": p.expected_step,
        "checkpointing": p.checkpointing,
        "checkpoint_period": p.checkpoint_period,
        "checkpoint_cost_s": p.checkpoint_cost_s,
        "last_checkpoint": p.last_checkpoint,
        "last_checkpoint_confirmed": p.last_checkpoint_confirmed,
        "lost_steps": p.lost_steps,
        "lost_s": p.lost_s,
        "remaining_s": p.remaining_s,
        "sum_step_s": p.sum_step_s,
        "wall_s": p.wall_s,
        "unaccounted_s": p.unaccounted_s,
        "setup_s": p.setup_s,
        "silence_s": p.silence_s,
        "source": p.source,
        "ranks": [{"rank": r.rank, "first": r.first, "last": r.last} for r in p.ranks],
    }


def _throughput(t: Throughput) -> Document:
    return {
        "early": t.early,
        "recent": t.recent,
        "change": t.change,
        "degraded": t.degraded,
        "pattern": t.pattern,
        "from_step": t.from_step,
        "to_step": t.to_step,
        "unit": t.unit,
        "hints": list(t.hints),
    }


def _cost(cost: Cost) -> Document:
    return {"gpus": cost.gpus, "gpu_hours": cost.gpu_hours, "gpu_hours_lost": cost.gpu_hours_lost}


def _resubmit(resubmit: Resubmit) -> Document:
    return {
        "action": resubmit.action,
        "command": resubmit.command,
        "exclude": list(resubmit.exclude),
        "changes": list(resubmit.changes),
        "args": dict(resubmit.args),
        "why": resubmit.why or None,
    }


def _dashboards(dashboards: Dashboards) -> Document:
    return {
        "ray": dashboards.ray,
        "tunnel_command": dashboards.tunnel_command,
        "head_node": dashboards.head_node,
        "prometheus_port": dashboards.prometheus_port,
        "live": dashboards.live,
        "tsdb_path": dashboards.tsdb_path,
    }


def _attempt(attempt: AttemptSummary) -> Document:
    return {
        "index": attempt.index,
        "status": attempt.status,
        "class": attempt.cls,
        "title": attempt.title,
        "first_step": attempt.first_step,
        "last_step": attempt.last_step,
        "nodes": list(attempt.nodes),
        "start": _time(attempt.start),
        "end": _time(attempt.end),
    }


def _time(epoch_s: float | None) -> str | None:
    """ISO 8601 with offset; None for what is no point in time between the years 1 and 9999."""
    if epoch_s is None or not math.isfinite(epoch_s):
        return None
    try:
        return iso(epoch_s)
    except (ValueError, OverflowError, OSError):
        return None


def _clean(value: Any) -> Any:
    """``value`` as JSON can hold it: text that is valid Unicode, numbers that are finite and exact."""
    if isinstance(value, str):
        return valid_unicode(value)
    if isinstance(value, float):
        return round(value, _DECIMALS) if math.isfinite(value) else None
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) <= _MAX_EXACT_INTEGER else None
    if isinstance(value, Mapping):
        return {valid_unicode(str(key)): _clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value
