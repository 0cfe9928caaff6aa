"""A short name for a failure that is the same whenever the same thing breaks, wherever and whenever it does."""

from __future__ import annotations

import hashlib
import re

from slurm_triage.model.diagnosis import Diagnosis, Finding

# Replaced in this order: the longest and most specific first. What goes: who (rank, node, user's paths), when (times,
# steps), where in memory (addresses, hex), how much (numbers). What stays: the words, the file and function names.
_FRAME = re.compile(r'File "(?:[^"]*/)?([^"/]+)", line \d+(?:, in (\S+))?')
_REPLACEMENTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b"), "<time>"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\b(?:[0-9a-f]{1,4}:){2,7}:?[0-9a-f]{1,4}(?:\.[0-9a-f])?\b", re.IGNORECASE), "<address>"),
    (re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}(?:[:<]\d+>?)?"), "<address>"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE), "<hex>"),
    (re.compile(r"(?:/[\w.@%+=:~-]+)+/([\w.@%+=:~-]+)"), r"\1"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,}\b", re.IGNORECASE), "<hex>"),
    (re.compile(r"[-+]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?", re.IGNORECASE), "<n>"),
    (re.compile(r"\s+"), " "),
)
_MAX_FRAMES = 5
_ANY_NODE = "<node>"


def normalise(text: str, nodes: tuple[str, ...] = ()) -> str:
    """``text`` without anything that differs between two occurrences of the same failure."""
    for node in sorted(set(nodes), key=len, reverse=True):
        if len(node) > 2:
            text = re.sub(rf"(?<![\w-]){re.escape(node)}(?:\.[\w.-]+)?(?![\w-])", _ANY_NODE, text)
    for pattern, replacement in _REPLACEMENTS:
        text = pattern.sub(replacement, text)
    return text.strip().lower()


def traceback_frames(block: tuple[str, ...]) -> tuple[str, ...]:
    """``file:function`` of the innermost Python frames, outermost first. Directories and line numbers are left out:
    they differ between installations and versions of the same code."""
    found = [f"{m[1]}:{m[2] or '?'}" for line in block for m in _FRAME.finditer(line)]
    return tuple(found[-_MAX_FRAMES:])


def fingerprint(diagnosis: Diagnosis, nodes: tuple[str, ...] = ()) -> str | None:
    """16 hex digits over class, rule, normalised title and traceback frames; None for a job without a failure:
    being cancelled is none."""
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
