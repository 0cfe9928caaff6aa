"""The only program that imports pyslurm. Runs as a child process and answers one JSON line with one JSON line.

``import pyslurm`` loads libslurm, which ends the process when there is no usable slurm.conf and can wait for a minute
before that; here it can do no harm. This file imports nothing of slurm_triage, so that any Python that has pyslurm can
run it, and works with pyslurm 22.5 to 25.11 (attributes that a version lacks are left out).

    -> {"ids": ["7877", "7878"], "since": 1750000000, "until": null, "clusters": []}
    <- {"rows": [{"jobid": "7877", "jobidraw": "7877", "state": "FAILED", ...}, ...]}
    <- {"error": "Connection refused"}

The first line, before any question: {"pyslurm": "25.11.2", "slurm": "25.11.2"}. Rows are named as sacct names its
columns (record.py), all values are text.
"""

import json
import os
import pwd
import sys
from typing import Any

#: libslurm's "no value" and "infinite".
_NO_VALUE = {4294967294, 4294967295}


def main() -> None:
    # libslurm and pyslurm write messages wherever they like; the answers need a channel that is only theirs.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    import pyslurm

    say(answers, {"pyslurm": str(pyslurm.__version__), "slurm": slurm_version(pyslurm)})
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer: dict[str, Any] = {"rows": rows(pyslurm, question)}
        except Exception as error:
            # Whatever it is, the other side has to know, and the next question may fare better.
            answer = {"error": str(error) or type(error).__name__}
        say(answers, answer)


def say(answers: Any, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


def slurm_version(pyslurm: Any) -> str:
    """Version of libslurm, ``25.11.2``."""
    version = pyslurm.slurm_api_version()
    return ".".join(str(part) for part in version) if isinstance(version, tuple | list) else str(version)


def rows(pyslurm: Any, question: dict[str, Any]) -> list[dict[str, str]]:
    """Rows of the jobs asked for, each followed by the rows of its steps. Unknown ids give no rows."""
    condition: dict[str, Any] = {}
    if question.get("ids"):
        condition["ids"] = [int(job_id) for job_id in question["ids"]]
    if question.get("clusters"):
        condition["clusters"] = question["clusters"]
    for ours, theirs in (("since", "start_time"), ("until", "end_time")):
        if question.get(ours) is not None:
            condition[theirs] = int(question[ours])
    result: list[dict[str, str]] = []
    for job in pyslurm.db.Jobs.load(pyslurm.db.JobFilter(**condition)).values():
        result.append(job_row(job))
        result.extend(step_row(job, step) for step in job.steps.values())
    return result


def job_row(job: Any) -> dict[str, str]:
    by = get(job, "cancelled_by")
    state = text(get(job, "state"))
    return {
        "jobid": shown_id(job),
        "jobidraw": text(job.id),
        "jobname": text(get(job, "name")),
        "user": text(get(job, "user_name")),
        "uid": text(get(job, "user_id")),
        "gid": text(get(job, "group_id")),
        "account": text(get(job, "account")),
        "partition": text(get(job, "partition")),
        "qos": text(get(job, "qos")),
        "reservation": text(get(job, "reservation")),
        "cluster": text(get(job, "cluster")),
        "state": f"{state} by {uid(by)}" if state == "CANCELLED" and uid(by) else state,
        "reason": text(get(job, "state_reason")),
        "exitcode": exit_code(job, "exit_code"),
        "derivedexitcode": exit_code(job, "derived_exit_code"),
        "submit": text(get(job, "submit_time")),
        "start": text(get(job, "start_time")),
        "end": text(get(job, "end_time")),
        "elapsedraw": text(get(job, "elapsed_time")),
        "timelimitraw": text(get(job, "time_limit")),
        "nodelist": text(get(job, "nodelist")),
        "failednode": text(get(job, "failed_node")),
        "alloctres": gpus(job),
        "workdir": text(get(job, "working_directory")),
        "stdout": text(get(job, "standard_output")),
        "stderr": text(get(job, "standard_error")),
        "submitline": text(get(job, "submit_command")),
        "comment": text(get(job, "comment")),
        "admincomment": text(get(job, "admin_comment")),
        "restarts": text(get(job, "requeue_count")),
    }


def step_row(job: Any, step: Any) -> dict[str, str]:
    memory = get(get(step, "stats"), "max_resident_memory")
    return {
        "jobid": f"{shown_id(job)}.{step.id}",
        "jobidraw": f"{job.id}.{step.id}",
        "jobname": text(get(step, "name")),
        "state": text(get(step, "state")),
        "exitcode": exit_code(step, "exit_code"),
        "start": text(get(step, "start_time")),
        "end": text(get(step, "end_time")),
        "nodelist": text(get(step, "nodelist")),
        "maxrss": text(memory),
    }


def get(thing: Any, name: str) -> Any:
    """An attribute, or None where this version has none. Some are methods in one version and properties in another."""
    value = getattr(thing, name, None)
    return value() if callable(value) else value


def text(value: Any) -> str:
    return "" if value is None or value in _NO_VALUE else str(value)


def shown_id(job: Any) -> str:
    """``25_3`` for array tasks, ``29+1`` for parts of het jobs."""
    array_id = get(job, "array_id")
    if array_id:
        task = get(job, "array_task_id")
        if task is None:
            # pyslurm takes task 0 for none; tasks that have not been started share one record.
            waiting = get(job, "array_tasks_waiting")
            return f"{array_id}_[{waiting}]" if waiting else f"{array_id}_0"
        return f"{array_id}_{task}"
    leader = get(job, "heterogeneous_id")
    return f"{leader}+{job.id - leader}" if leader else str(job.id)


def exit_code(thing: Any, name: str) -> str:
    """``1:0``; nothing where libslurm has no value, which pyslurm shows as signal 126 (4294967294 & 127)."""
    code, signal = get(thing, name), get(thing, f"{name}_signal")
    if code is None or signal == 126:
        return ""
    return f"{code}:{signal or 0}"


def uid(name: Any) -> str:
    """Who cancelled it: pyslurm gives a name, accounting knows a number."""
    if name is None:
        return ""
    try:
        return str(pwd.getpwnam(str(name)).pw_uid)
    except KeyError:
        return str(name) if str(name).isdigit() else ""


def gpus(job: Any) -> str:
    """As sacct's AllocTRES shows it. Newer versions have a dictionary of types, older ones nothing."""
    types = get(job, "gpus")
    counts: list[int] = [int(gpu.count) for gpu in types.values()] if isinstance(types, dict) else []
    return f"gres/gpu={sum(counts)}" if counts else ""


if __name__ == "__main__":
    main()
