"""Findings from exit codes: what the launcher, srun and torchrun say about how each rank ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import replace

from slurm_triage.diagnosis.classes import OUTCOMES
from slurm_triage.diagnosis.cluster_map import node_of, short_name
from slurm_triage.diagnosis.numbering import several_per_task
from slurm_triage.model.diagnosis import Finding
from slurm_triage.model.exit_status import signal_name
from slurm_triage.model.facts import AttemptFacts, ExitRecord, Match, Place
from slurm_triage.model.job import Job

_SIGKILL = 9
#: Origins of an exit record, the most telling first: NODE_EXIT names node and code, a shell trace only the code.
_TELLING = {"node_exit": 0, "ray": 0, "srun": 1, "train_rc": 2, "torchrun": 3}
#: Signals of a limit of the shell, and the limit.
_LIMITS: dict[int | None, str] = {
    signal.SIGXFSZ: "a file grew beyond `ulimit -f`",
    signal.SIGXCPU: "more CPU time than `ulimit -t`",
}
#: What BSD programs and those who follow them mean by their exit codes.
_SYSEXITS = {code: name for name, code in vars(os).items() if name.startswith("EX_") and 64 <= code <= 78}
#: srun's words that are a cause of their own.
_OUT_OF_MEMORY = "Out Of Memory"
#: The launcher's last stage.
_TRAINING = "Training"


def _telling(record: ExitRecord) -> int:
    return _TELLING.get(record.origin, 9)


def merge_exits(records: Sequence[ExitRecord], attempt: AttemptFacts, nodes: Sequence[str]) -> tuple[ExitRecord, ...]:
    """One record per rank, the one that says most (a signal before a code), in order of rank. Where a task has several
    ranks, srun's word is about the task: it is left out beside torchrun's, and has no rank otherwise."""
    several = several_per_task(attempt)
    best: dict[tuple[int | None, str | None], ExitRecord] = {}
    told = {r.rank for r in records if r.worker is not None and not r.victim} if several else set()
    for record in sorted(records, key=_telling):
        if record.rank is None and record.host is None:
            continue
        if several and record.worker is None and record.rank in told:
            continue
        rank = record.worker if several else record.rank
        best.setdefault((rank, record.host if rank is None else None), record)
    first_bad = {record.worker if several else record.rank for record in records if record.first_bad}
    result = []
    for (rank, _), record in sorted(best.items(), key=lambda i: (i[0][0] is None, i[0][0] or 0)):
        host = record.host if record.host and "," not in record.host and "[" not in record.host else None
        host = short_name(host, nodes) if host else node_of(record.rank, attempt, nodes)
        result.append(replace(record, rank=rank, host=host, first_bad=rank in first_bad))
    return tuple(result)


def exit_findings(attempt: AttemptFacts, nodes: Sequence[str]) -> tuple[Finding, ...]:
    """One finding per rank that ended badly and was not merely stopped. Victims give no finding."""
    findings: dict[tuple[int | None, str | None], Finding] = {}
    several = several_per_task(attempt)
    # torchrun knows which of a task's ranks failed, srun only that the task did.
    for record in sorted(attempt.exits, key=lambda r: -1 if several and r.worker is not None else _telling(r)):
        if record.code == 0 or record.victim:
            continue
        key = (record.rank, record.host if record.rank is None else None)
        known = findings.get(key)
        finding = _finding(record, attempt, nodes)
        if known is None or (known.cls in OUTCOMES and finding.cls not in OUTCOMES):
            findings[key] = finding
    return tuple(findings.values())


def _finding(record: ExitRecord, attempt: AttemptFacts, nodes: Sequence[str]) -> Finding:
    node = short_name(record.host, nodes) if record.host and "[" not in record.host else None
    node = node or node_of(record.rank, attempt, nodes)
    place = record.place or Place(0, max(record.seq, 0), record.text)
    code = {"code": str(record.code)} if record.code is not None else {}
    who = "the task" if record.worker is None else f"the worker of global rank {record.worker}"
    match = Match(
        "exit-status", record.rank, node, 1, place, place, record.seq, record.seq, captures=code, worker=record.worker
    )
    if _OUT_OF_MEMORY in record.text:
        cls, title = "oom-host", "Slurm reports Out Of Memory for the task"
    elif record.signal in _LIMITS:
        cls, title = "ulimit-exhausted", f"{who} was killed by {signal_name(record.signal)} ({_LIMITS[record.signal]})"
    elif record.signal is not None:
        cls, title = "signal-kill", f"{who} was killed by {signal_name(record.signal)}"
    else:
        # Before training it is no training process that fails, but the launcher's own work in that stage.
        early = any(s.result == "failed" and s.name != _TRAINING for s in attempt.stages)
        cls = "stage-fail" if early else "subprocess-fail"
        meaning = f" ({_SYSEXITS[record.code]} in sysexits.h)" if record.code in _SYSEXITS else ""
        title = f"{who} exited with code {record.code}{meaning}"
    return Finding(cls, "root", "exit-status", title, record.rank, node, match=match)


def accounting_findings(job: Job) -> tuple[Finding, ...]:
    """What only accounting knows: an OOM kill that printed nothing, a lost node, a launch that failed."""
    findings: list[Finding] = []
    if job.state == "OUT_OF_MEMORY" or any(s.state == "OUT_OF_MEMORY" for s in job.steps) or job.exit_signal == 125:
        findings.append(Finding("oom-host", "root", "accounting-state", "Slurm recorded an out-of-memory kill"))
    if job.state in {"NODE_FAIL", "BOOT_FAIL"}:
        node = job.failed_node
        findings.append(
            Finding(
                "node-fail", "root", "accounting-state", f"Slurm lost {'node ' + node if node else 'a node'}", node=node
            )
        )
    if job.state == "FAILED" and job.exit_signal == _SIGKILL:
        findings.append(
            Finding("signal-kill", "root", "accounting-state", "the batch script was killed by SIGKILL (exit code 0:9)")
        )
    if job.state == "FAILED" and job.reason in {"JobHeldAdmin", "launch_failed_requeued_held"}:
        findings.append(Finding("launch-fail", "root", "accounting-state", "Slurm could not launch the job"))
    return tuple(findings)
