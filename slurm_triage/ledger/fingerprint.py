"""A short name for a failure that is the same whenever the same thing breaks, wherever and whenever it does."""

from __future__ import annotations

import hashlib
import re

from slurm_triage.model.diagnosis import Diagnosis, Finding
from slurm_triage.model.exit_status import decode_signal
from slurm_triage.model.job import NO_JOB, Job
from slurm_triage.model.same_text import normalise

_FRAME = re.compile(r'File "(?:[^"]*/)?([^"/]+)", line \d+(?:, in (\S+))?')
_MAX_FRAMES = 5


def traceback_frames(block: tuple[str, ...]) -> tuple[str, ...]:
    """``file:function`` of the innermost Python frames, outermost first. Directories and line numbers are left out:
    they differ between installations and versions of the same code."""
    found = [f"{m[1]}:{m[2] or '?'}" for line in block for m in _FRAME.finditer(line)]
    return tuple(found[-_MAX_FRAMES:])


def fingerprint(diagnosis: Diagnosis, nodes: tuple[str, ...] = (), job: Job = NO_JOB) -> str | None:
    """16 hex digits over class, rule, normalised title and traceback frames; None for a job without a failure:
    being cancelled is none. Where nothing tells why a job failed, its end has to do: jobs that a signal ended may have
    met the same thing, but two programs that only ended with a status of their own have nothing in common."""
    primary = diagnosis.primary
    if primary is None or primary.cls == "cancelled":
        return None
    cause = _cause(diagnosis)
    parts = [primary.cls, cause.rule if cause is not None else ""]
    frames: tuple[str, ...] = ()
    if cause is not None and cause.match is not None:
        frames = traceback_frames(cause.match.block)
        if frames:
            # The last line of a traceback names the exception; its message may quote data, so only the name counts.
            parts.append(_exception_name(cause.match.block))
    parts.append(normalise(primary.title, nodes))
    if primary.cls == "unknown-death":
        signal = job.exit_signal or decode_signal(job.exit_code)
        parts.append(
            f"signal {signal}" if signal or job.state == "NODE_FAIL" else f"{job.exit_code} of {job.user}'s {job.name}"
        )
    parts.extend(frames)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def cause_rule(diagnosis: Diagnosis) -> str | None:
    """The rule behind the primary cause."""
    cause = _cause(diagnosis)
    return cause.rule if cause is not None else None


def _cause(diagnosis: Diagnosis) -> Finding | None:
    primary = diagnosis.primary
    if primary is None:
        return None
    same_class = [f for f in diagnosis.findings if f.cls == primary.cls]
    roots = [f for f in same_class if f.role == "root"]
    at_culprit = [f for f in roots if f.said_by == primary.rank]
    return next(iter(at_culprit or roots or same_class), None)


def _exception_name(block: tuple[str, ...]) -> str:
    for line in reversed(block):
        match = re.match(r"\s*([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning))\b", line)
        if match is not None:
            return match[1].rpartition(".")[2]
    return ""
