"""What a child tells the worker about one job: a small JSON text that is checked before a word of it is used.

The child runs as the job's owner, so identity, owner, state, times and nodes are taken from accounting here, whatever
the child says. It may only choose among classes, numbers and names that have the form of ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from slurm_triage.errors import TriageError
from slurm_triage.ledger.record import MAX_ARG_CHARS, MAX_ARGS, LedgerRecord, attempt_key, exit_text
from slurm_triage.model.job import Job
from slurm_triage.model.nodelist import fold

#: A record has 1 to 3 KiB; node lists are not the child's to tell.
MAX_BYTES = 64 << 10

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+/-]{0,127}")
_STATUSES = frozenset({"completed", "failed", "cancelled", "running", "hanging", "unknown"})
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

#: Record fields that the child supplies: short words of ours, free names, numbers.
_WORDS = ("rule", "fingerprint", "confidence", "domain", "stage", "throughput_unit", "args_digest", "rules_digest")
_NAMES = ("model", "image", "name")
_PATHS = ("job_dir", "report_path")
_NUMBERS = ("gpu_hours", "gpu_hours_lost", "step_time_s", "setup_s", "throughput")
_INTEGERS = ("steps_this_run", "last_step", "gpus")
_MAX_VERSIONS = 32


class BadOutcomeError(TriageError):
    """The child's answer is not one that our code gives."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """``headline``: the one line for AdminComment. ``problem``: why the report is not on disk, if it is not;
    ``passing``: that may be over in a while (a full disk). ``scan``: what it says of its work, for the tallies."""

    record: LedgerRecord
    headline: str
    problem: str | None = None
    passing: bool = False
    scan: Any = None


def encode(record: Mapping[str, Any], headline: str, problem: str | None, passing: bool, scan: Any = None) -> bytes:
    """The child's side: one line."""
    answer = {"record": dict(record), "headline": headline, "problem": problem, "passing": passing, "scan": scan}
    # Not orjson, which refuses texts that are no Unicode: a path may have bytes of another encoding.
    return json.dumps(answer, default=str, ensure_ascii=False).encode("utf-8", "replace")


def decode(data: bytes, job: Job, *, now: float) -> Outcome:
    """The worker's side. Raises BadOutcomeError."""
    if len(data) > MAX_BYTES:
        raise BadOutcomeError(f"the answer about job {job.job_id} has more than {MAX_BYTES} bytes")
    try:
        answer = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BadOutcomeError(f"the answer about job {job.job_id} is not whole") from error
    said = answer.get("record") if isinstance(answer, dict) else None
    if not isinstance(said, dict):
        raise BadOutcomeError(f"the answer about job {job.job_id} holds no record")
    headline, problem = answer.get("headline"), answer.get("problem")
    values: dict[str, Any] = {"cls": _word(said.get("class"))} | {key: _word(said.get(key)) for key in _WORDS}
    values |= {key: _text(said.get(key), 255) for key in _NAMES} | {key: _path(said.get(key)) for key in _PATHS}
    values |= {key: _number(said.get(key)) for key in _NUMBERS}
    values |= {key: int(number) for key in _INTEGERS if (number := _number(said.get(key))) is not None}
    status, passing = said.get("status"), answer.get("passing") is True
    record = replace(
        minimal_record(job, now=now),
        **{key: value for key, value in values.items() if value is not None},
        status=status if status in _STATUSES else "unknown",
        degraded=said.get("degraded") is True,
        versions=_versions(said.get("versions")),
        args=_arguments(said.get("args")),
        node_evidence=_evidence(said.get("node_evidence"), job),
        provisional=passing or not job.final,
    )
    return Outcome(record, _text(headline, 300) or record.status, _text(problem, 500), passing, answer.get("scan"))


def minimal_record(job: Job, *, now: float) -> LedgerRecord:
    """What accounting alone says; also the record of a job whose triage failed for good."""
    return LedgerRecord(
        job_id=job.job_id or "unknown",
        attempt=attempt_key(job.start, job.restarts),
        revision=int(now * 1000),
        status="unknown",
        cluster=job.cluster,
        array_job_id=job.array_job_id,
        array_task_id=job.array_task_id,
        het_job_id=job.het_job_id,
        restarts=job.restarts,
        user=job.user,
        account=job.account,
        partition=job.partition,
        name=_text(job.name, 255),
        state=job.state,
        exit_code=exit_text(job),
        nodes=fold(job.nodes),
        node_count=job.node_count or len(job.nodes) or None,
        submit=job.submit,
        start=job.start,
        end=job.end,
        elapsed_s=job.elapsed_s,
        gpus=job.gpus,
        generated_at=now,
        provisional=not job.final,
    )


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and _WORD.fullmatch(value) else None


def _text(value: Any, longest: int) -> str | None:
    return _CONTROL.sub("?", value)[:longest] if isinstance(value, str) and value else None


def _path(value: Any) -> str | None:
    plain = isinstance(value, str) and value.startswith("/") and len(value) <= 4096 and not _CONTROL.search(value)
    return value if plain else None


def _number(value: Any) -> float | None:
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if plain and abs(value) < 1e15 else None


def _versions(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    pairs = [(_word(name), _text(text, 64)) for name, text in list(value.items())[:_MAX_VERSIONS]]
    return {name: text for name, text in pairs if name is not None and text is not None}


def _arguments(value: Any) -> dict[str, str]:
    """Names of launch arguments with digests of their values, see ``ledger/record.py``."""
    if not isinstance(value, dict):
        return {}
    pairs = [(_text(name, MAX_ARG_CHARS), _word(digest)) for name, digest in list(value.items())[:MAX_ARGS]]
    return {name: digest[:4] for name, digest in pairs if name is not None and digest is not None}


def _evidence(value: Any, job: Job) -> tuple[tuple[str, str], ...]:
    """Only nodes that accounting gave to the job can be blamed by it."""
    if not isinstance(value, list):
        return ()
    own = {node.partition(".")[0] for node in job.nodes}
    kept = []
    for item in value[: len(own) * 8]:
        if isinstance(item, list) and len(item) == 2 and _word(item[0]) and _word(item[1]):
            node = item[0].partition(".")[0]
            if node in own:
                kept.append((node, item[1]))
    return tuple(dict.fromkeys(kept))
