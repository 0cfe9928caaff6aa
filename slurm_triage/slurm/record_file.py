"""The accounting record of a job from a JSON file (``--accounting``), for machines that cannot ask Slurm.

The file holds one object. Every key is optional, unknown keys are ignored:

    job_id array_job_id array_task_id het_job_id name user account partition qos reservation cluster reason work_dir
    stdout stderr submit_line comment admin_comment requested_nodes excluded_nodes failed_node     text
    uid gid restarts node_count gpus                                                               whole numbers
    state          as Slurm prints it: "FAILED", "CANCELLED by 2001", "CA"
    exit_code      "1:0" (code:signal), a number 0-255, or a raw wait status above; likewise derived_exit_code
    exit_signal    a number, if exit_code does not hold it
    submit start end        ISO 8601 (without offset: local time) or seconds since the epoch
    elapsed                 "1-02:03:04" or seconds (also elapsed_s)
    time_limit              "1-02:00:00", "UNLIMITED", or minutes as Slurm counts them; time_limit_s in seconds
    nodes                   "chi[2801-2802]" or a list of names
    steps                   list of {step_id, name, state, exit_code, start, end, nodes, max_rss_bytes}
    earlier                 list of such records: earlier attempts of the same job, oldest first

The ``job`` object of a ``triage.json`` is such a record too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from slurm_triage.errors import NotFoundError, UsageError
from slurm_triage.model import duration, exit_status, nodelist
from slurm_triage.model.job import TERMINAL_STATES, Job, JobStep
from slurm_triage.model.state_names import STATE_NAMES
from slurm_triage.slurm import fields

#: A record with thousands of steps takes less than a megabyte.
MAX_RECORD_BYTES = 16 << 20

#: Year 9999: datetime ends there.
_LAST_SECOND = 253_402_300_799

#: Words that Slurm's tools print where there is no value.
_NO_VALUE = frozenset({"", "unknown", "none", "n/a", "(null)", "null", "none assigned"})
_NO_LIMIT = frozenset({"unlimited", "infinite", "partition_limit", "partitionlimit", "not_set"})

_STATE = re.compile(r"[A-Za-z_]+")
_EXIT = re.compile(r"[0-9]{1,5}:[0-9]{1,5}")

#: No number or duration is written longer; int() refuses texts of thousands of digits with an exception.
_LONGEST_NUMBER = 64

_T = TypeVar("_T")


def load_record(path: str) -> Job:
    """The job that the JSON file describes.

    Raises NotFoundError if the file cannot be read, UsageError if it is not JSON or not a job record.
    """
    import orjson

    try:
        with open(path, "rb") as file:
            text = file.read(MAX_RECORD_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise NotFoundError(f"cannot read the accounting record {path!r}: {reason}; check --accounting") from error
    if len(text) > MAX_RECORD_BYTES:
        raise UsageError(f"the accounting record {path!r} is larger than 16 MiB: give the record of one job only")
    try:
        record = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UsageError(
            f"the accounting record {path!r} is not valid JSON ({error.msg}, line {error.lineno}): "
            'give an object such as {"state": "FAILED", "exit_code": "1:0"}'
        ) from error
    if isinstance(record, list) and len(record) == 1:
        record = record[0]
    try:
        return job_from_record(record)
    except UsageError as error:
        raise UsageError(f"the accounting record {path!r} cannot be used: {error}") from error


def job_from_record(record: Mapping[str, object]) -> Job:
    """The typed job; see the top of this file for the keys.

    Planned times are dropped: a pending job has no start or end, a running one no end, and a job that was cancelled
    before it got a node no start, whatever the record says. Raises UsageError naming the key that is wrong.
    """
    return _job(record, depth=0)


def _job(record: object, depth: int) -> Job:
    if not isinstance(record, Mapping):
        raise UsageError(f"a job record must be a JSON object, not {_kind(record)}")
    code, signal = _exit(record, "exit_code")
    derived_code, derived_signal = _exit(record, "derived_exit_code")
    nodes = _nodes(record, "nodes")
    job = Job(
        job_id=_id(record, "job_id") or _id(record, "id"),
        array_job_id=_id(record, "array_job_id"),
        array_task_id=_id(record, "array_task_id"),
        het_job_id=_id(record, "het_job_id"),
        restarts=_count(record, "restarts"),
        name=_free_text(record, "name"),
        user=_text(record, "user"),
        uid=_count(record, "uid"),
        gid=_count(record, "gid"),
        account=_text(record, "account"),
        partition=_text(record, "partition"),
        qos=_text(record, "qos"),
        reservation=_text(record, "reservation"),
        cluster=_text(record, "cluster"),
        state=_state(record, "state"),
        reason=_text(record, "reason"),
        exit_code=code,
        exit_signal=_first(_count(record, "exit_signal"), signal),
        derived_exit_code=derived_code,
        derived_exit_signal=_first(_count(record, "derived_exit_signal"), derived_signal),
        submit=_time(record, "submit"),
        start=_time(record, "start"),
        end=_time(record, "end"),
        elapsed_s=_first(_seconds(record, "elapsed_s", 1), _seconds(record, "elapsed", 1)),
        time_limit_s=_first(_seconds(record, "time_limit_s", 1), _seconds(record, "time_limit", 60)),
        nodes=nodes,
        node_count=_first(_count(record, "node_count"), len(nodes) or None),
        failed_node=_text(record, "failed_node"),
        gpus=_count(record, "gpus"),
        work_dir=_free_text(record, "work_dir"),
        stdout=_free_text(record, "stdout"),
        stderr=_free_text(record, "stderr"),
        submit_line=_free_text(record, "submit_line"),
        comment=_free_text(record, "comment"),
        admin_comment=_free_text(record, "admin_comment"),
        requested_nodes=_text(record, "requested_nodes"),
        excluded_nodes=_text(record, "excluded_nodes"),
        steps=_list(record, "steps", _step),
        source="file",
        earlier=() if depth else _list(record, "earlier", lambda item: _job(item, depth + 1)),
        cancelled_by_uid=_cancelled_by(record.get("state")),
    )
    if job.time_limit_s == fields.NO_LIMIT_S:
        job = replace(job, time_limit_s=None)
    return _without_plans(job)


def _without_plans(job: Job) -> Job:
    """The job with only those times that have happened (Slurm shows planned ones for jobs that have not ended)."""
    if job.state == "PENDING":
        return replace(job, start=None, end=None, elapsed_s=None)
    ended = job.state is None or job.state in TERMINAL_STATES or job.state == "COMPLETING"
    if not ended:
        return replace(job, end=None)
    if job.state in TERMINAL_STATES and not job.nodes and job.start is not None and job.start == job.end:
        # sacct prints Start = End for a job that was cancelled while it was pending.
        job = replace(job, start=None)
    if job.never_started and not job.elapsed_s:
        job = replace(job, elapsed_s=None)
    if job.elapsed_s is None and job.start is not None and job.end is not None and job.end >= job.start:
        job = replace(job, elapsed_s=job.end - job.start)
    return replace(job, final=job.is_terminal and job.end is not None)


def _step(record: object) -> JobStep:
    if not isinstance(record, Mapping):
        raise UsageError(f"each of 'steps' must be a JSON object, not {_kind(record)}")
    code, signal = _exit(record, "exit_code")
    step_id = _id(record, "step_id") or _id(record, "id")
    if step_id is None:
        raise UsageError("each of 'steps' needs a 'step_id' such as \"batch\" or \"0\"")
    return JobStep(
        step_id=step_id,
        name=_free_text(record, "name"),
        state=_state(record, "state"),
        exit_code=code,
        exit_signal=_first(_count(record, "exit_signal"), signal),
        start=_time(record, "start"),
        end=_time(record, "end"),
        nodes=_nodes(record, "nodes"),
        max_rss_bytes=_count(record, "max_rss_bytes"),
    )


def _first(*values: _T | None) -> _T | None:
    return next((v for v in values if v is not None), None)


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    names = ((int | float, "a number"), (str, "a text"), (list | tuple, "a list"), (Mapping, "an object"))
    return next((name for kind, name in names if isinstance(value, kind)), type(value).__name__)


def _wrong(key: str, expected: str, value: object) -> UsageError:
    shown = repr(value) if isinstance(value, str | int | float) else _kind(value)
    return UsageError(f"{key!r} must be {expected}, not {shown[:80]}")


def _text(record: Mapping[str, object], key: str) -> str | None:
    value = record.get(key)
    if value is None:
        return None
    if isinstance(value, str):
        return None if value.strip().lower() in _NO_VALUE else value
    raise _wrong(key, "a text", value)


def _free_text(record: Mapping[str, object], key: str) -> str | None:
    """A text that people choose: a job may be called "none"."""
    value = record.get(key)
    if value is None or isinstance(value, str):
        return None if value in {"", "(null)", None} else value
    raise _wrong(key, "a text", value)


def _id(record: Mapping[str, object], key: str) -> str | None:
    value = record.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return str(value)
    if isinstance(value, str | None):
        return _text(record, key)
    raise _wrong(key, "an id", value)


def _number(value: object) -> float | None:
    """A finite number, also when it is written as a text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,18}(\.[0-9]{1,9})?\s*", value):
        return float(value)
    if isinstance(value, int) and abs(value) < 1 << 63:
        return float(value)
    return value if isinstance(value, float) and math.isfinite(value) else None


def _absent(value: object) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in _NO_VALUE)


def _count(record: Mapping[str, object], key: str) -> int | None:
    value = record.get(key)
    if _absent(value):
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63:
        return value
    number = _number(value)
    if number is None or number < 0 or not number.is_integer():
        raise _wrong(key, "a whole number", value)
    return int(number)


def _time(record: Mapping[str, object], key: str) -> float | None:
    value = record.get(key)
    if _absent(value):
        return None
    number = _number(value)
    if number is None and isinstance(value, str):
        number = duration.parse_time(value.strip())
    if number is None or not 0 <= number <= _LAST_SECOND:
        raise _wrong(key, 'a time such as "2026-11-30T01:53:33" or seconds since the epoch', value)
    # Slurm writes 0 for "not yet".
    return number or None


def _seconds(record: Mapping[str, object], key: str, unit_s: int) -> float | None:
    """Seconds in Slurm's notation; a bare number counts ``unit_s`` seconds each."""
    value = record.get(key)
    if _absent(value) or (isinstance(value, str) and value.strip().lower() in _NO_LIMIT):
        return None
    number = _number(value)
    seconds = number * unit_s if number is not None else None
    if seconds is None and isinstance(value, str) and len(value) < _LONGEST_NUMBER:
        seconds = duration.parse_slurm(value.strip())
    if seconds is None or not 0 <= seconds <= _LAST_SECOND:
        raise _wrong(key, 'a duration such as "1-02:03:04"', value)
    return seconds


def _nodes(record: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = record.get(key)
    if value is None:
        return ()
    if isinstance(value, str):
        return nodelist.expand(value.strip())
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return tuple(name for entry in value for name in nodelist.expand(entry))[: nodelist.MAX_NODES]
    raise _wrong(key, 'a node list such as "chi[2801-2802]" or a list of names', value)


def _exit(record: Mapping[str, object], key: str) -> tuple[int | None, int | None]:
    """(exit code, signal)."""
    value = record.get(key)
    if _absent(value):
        return None, None
    if isinstance(value, str) and _EXIT.fullmatch(value.strip()):
        return exit_status.parse_slurm_exit(value.strip())
    number = _number(value)
    if number is None or not number.is_integer() or not 0 <= number <= 0xFFFF:
        raise _wrong(key, 'code:signal such as "1:0"', value)
    return (int(number), None) if number <= 0xFF else exit_status.decode_wait_status(int(number))


def _state(record: Mapping[str, object], key: str) -> str | None:
    value = record.get(key)
    if isinstance(value, list) and value:
        # sacct --json: the base state comes first, flags follow.
        value = value[0]
    if _absent(value):
        return None
    # "CANCELLED by 2001", "CANCELLED+" (cut by sacct), "FAILED,REQUEUED": the first word is the state.
    word = _STATE.match(value.strip()) if isinstance(value, str) else None
    if word is None:
        raise _wrong(key, 'a Slurm job state such as "FAILED"', value)
    state = word[0].upper()
    return STATE_NAMES.get(state, state)


def _cancelled_by(state: object) -> int | None:
    return fields.state(state)[1] if isinstance(state, str) else None


def _list(record: Mapping[str, object], key: str, make: Callable[[object], _T]) -> tuple[_T, ...]:
    value = record.get(key)
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise _wrong(key, "a list", value)
    return tuple(make(item) for item in value)
