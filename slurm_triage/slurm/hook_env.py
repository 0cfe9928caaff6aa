"""What a hook's environment says about a job: less than accounting, but at once and, for exit codes, truer.

slurmctld's and slurmd's hooks have SLURM_ names; jobcomp/script has names of its own. Read off real hooks on Slurm
22.05 and 26.05.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from slurm_triage.errors import AccountingError
from slurm_triage.model import duration, nodelist
from slurm_triage.model.exit_status import decode_wait_status, parse_slurm_exit
from slurm_triage.model.job import TERMINAL_STATES, AccountingSource, Job
from slurm_triage.slurm import expand, fields
from slurm_triage.slurm.controller import with_true_exit

Env = Mapping[str, str]

#: slurmctld gives a job that died with its node the raw status 1, which reads as "killed by SIGHUP" (24.11 and later).
LOST_NODE_SIGNAL = 1
#: Slurm's own mark for a job that was killed for its memory.
OUT_OF_MEMORY_SIGNAL = 125

#: Hooks that are called before the job's end; their end is the planned one.
_BEFORE_THE_END = ("prolog", "epilog_task")

#: Our field -> (name in SLURM_ environments, name in jobcomp's)
_TEXTS = {
    "name": ("SLURM_JOB_NAME", "JOBNAME"),
    "user": ("SLURM_JOB_USER", "USERNAME"),
    "account": ("SLURM_JOB_ACCOUNT", "ACCOUNT"),
    "partition": ("SLURM_JOB_PARTITION", "PARTITION"),
    "qos": ("SLURM_JOB_QOS", "QOS"),
    "reservation": ("SLURM_JOB_RESERVATION", "RESERVATION"),
    "cluster": ("SLURM_CLUSTER_NAME", "CLUSTER"),
    "work_dir": ("SLURM_JOB_WORK_DIR", "WORK_DIR"),
    "comment": ("SLURM_JOB_COMMENT", "COMMENT"),
}
_NUMBERS = {
    "uid": ("SLURM_JOB_UID", "UID"),
    "gid": ("SLURM_JOB_GID", "GID"),
    "node_count": ("SLURM_JOB_NUM_NODES", "NODECNT"),
    "restarts": ("SLURM_JOB_RESTART_COUNT", "RESTARTCNT"),
}
_TIMES = {
    "submit": ("SLURM_JOB_SUBMIT_TIME", "SUBMIT"),
    "start": ("SLURM_JOB_START_TIME", "START"),
    "end": ("SLURM_JOB_END_TIME", "END"),
}

#: ``Slurm Job_id=30 Name=...``, MailProg's subject; on 22.05 its environment does not name the job.
_MAIL_SUBJECT = re.compile(r"Slurm (?:Array )?Job_id=(?:\d+_\S+ \()?(\d+)", re.ASCII)


def job_id(env: Env) -> str | None:
    """The raw job id, if the environment names one."""
    for name in ("SLURM_JOB_ID", "SLURM_JOBID", "JOBID"):
        if fields.number(env.get(name)):
            return env[name]
    match = _MAIL_SUBJECT.search(env.get("SUBJECT", ""))
    return match[1] if match else None


def job(env: Env) -> Job:
    """The partial job. ``final`` is never set, and ``state`` only where the hook states it or the exit code leaves no
    other: cancelled jobs and lost nodes have exit code 0:0 here."""
    code, signal = _exit(env)
    derived_code, derived_signal = _derived(env)
    nodes = nodelist.expand(_either(env, ("SLURM_JOB_NODELIST", "NODES")) or env.get("SLURM_NODELIST"))
    state = _state(env, code, signal, has_run=bool(nodes))
    if signal == LOST_NODE_SIGNAL and state != "FAILED":
        code = signal = None
    times = {name: fields.epoch(_either(env, keys)) for name, keys in _TIMES.items()}
    if not nodes and state in TERMINAL_STATES:
        times["start"] = None
    if env.get("SLURM_SCRIPT_CONTEXT", "").startswith(_BEFORE_THE_END):
        times["end"] = None
    texts = {name: fields.text(_either(env, keys)) for name, keys in _TEXTS.items()}
    numbers = {name: fields.number(_either(env, keys)) for name, keys in _NUMBERS.items()}
    if numbers["uid"] and not numbers["gid"]:
        # Task epilogs are told group 0, whatever the user's group is.
        numbers["gid"] = None
    numbers["node_count"] = numbers["node_count"] or None
    task = _either(env, ("SLURM_ARRAY_TASK_ID", "ARRAYTASKID"))
    is_task = task not in (None, expand.NO_TASK)
    limit_s = duration.parse_slurm(env.get("LIMIT"))
    found = Job(
        job_id=job_id(env),
        array_job_id=_either(env, ("SLURM_ARRAY_JOB_ID", "ARRAYJOBID")) if is_task else None,
        array_task_id=task if is_task else None,
        het_job_id=_either(env, ("SLURM_HET_JOB_ID", "HETJOBID")),
        state=state,
        exit_code=code,
        exit_signal=signal,
        derived_exit_code=derived_code,
        derived_exit_signal=derived_signal,
        time_limit_s=None if limit_s == fields.NO_LIMIT_S else limit_s,
        nodes=nodes,
        source="hook",
        **texts,  # type: ignore[arg-type]
        **numbers,  # type: ignore[arg-type]
        **times,  # type: ignore[arg-type]
    )
    return found if _node_side(env) else replace(found, stdout=stdout(env, found))


def stdout(env: Env, job: Job) -> str | None:
    """The output file of a job whose array ids are known, from the pattern in the environment. 22.05 leaves the
    pattern out when the user gave none."""
    pattern = _either(env, ("SLURM_JOB_STDOUT", "STDOUT"))
    return expand.path(pattern or expand.default_pattern(job), job)


def refine(job: Job, env: Env) -> Job:
    """Accounting's record with what only the hook knows: exit codes of 128 and above (sacct before 26.05 and pyslurm
    subtract 128) and the output file. Give it only environments of events that root or SlurmUser wrote."""
    code, signal = _exit(env)
    better = with_true_exit(job, code, signal)
    if job.restarts and fields.number(_either(env, _NUMBERS["restarts"])) == 0:
        # The event is of an earlier run.
        better = job
    return replace(
        better,
        stdout=job.stdout or stdout(env, job),
        comment=job.comment or fields.text(_either(env, _TEXTS["comment"])),
    )


class HookAccounting:
    """The last resort: no accounting can be asked, only the hooks' words are there. Nothing is ever final."""

    name: AccountingSource = "hook"

    def __init__(self, environments: Iterable[Env] = ()) -> None:
        self._jobs = {found.job_id: found for found in map(job, environments) if found.job_id is not None}

    def version(self) -> str:
        return "unknown"

    def jobs(self, ids: Sequence[str], *, since: float | None = None, until: float | None = None) -> dict[str, Job]:
        del since, until
        return {job_id: self._jobs[job_id] for job_id in ids if job_id in self._jobs}

    def recent(self, since: float, until: float) -> Iterable[Job]:
        del since, until
        raise AccountingError("hooks alone cannot tell which jobs were missed; set up sacct or pyslurm on this host")

    def close(self) -> None:
        """Nothing is open."""


def _either(env: Env, names: tuple[str, str]) -> str | None:
    return next((env[name] for name in names if env.get(name)), None)


def _node_side(env: Env) -> bool:
    """slurmd's epilog does not say whether the job is an array task."""
    return env.get("SLURM_SCRIPT_CONTEXT", "").endswith("_slurmd")


def _state(env: Env, code: int | None, signal: int | None, *, has_run: bool) -> str | None:
    """What the hook states, or the one state that the exit code leaves."""
    stated = fields.state(_either(env, ("SLURM_JOB_STATE", "JOBSTATE")))[0]
    if stated == "PENDING" and has_run:
        return "REQUEUED"
    if stated is not None or signal == LOST_NODE_SIGNAL:
        return stated
    if signal == OUT_OF_MEMORY_SIGNAL:
        return "OUT_OF_MEMORY"
    return "FAILED" if code or signal else None


def _exit(env: Env) -> tuple[int | None, int | None]:
    """EXIT_CODE2 is ``137:0``; EXIT_CODE is the raw wait status."""
    code, signal = parse_slurm_exit(_either(env, ("SLURM_JOB_EXIT_CODE2", "EXITCODE")))
    if code is None:
        raw = fields.number(env.get("SLURM_JOB_EXIT_CODE"))
        code, signal = (None, None) if raw is None else decode_wait_status(raw)
    # 4021, the raw status of a job whose output file could not be opened, has bits in both halves: the signal counts.
    return (0, signal) if signal else (code, None)


def _derived(env: Env) -> tuple[int | None, int | None]:
    code, signal = parse_slurm_exit(env.get("DERIVED_EC"))
    raw = fields.number(env.get("SLURM_JOB_DERIVED_EC"))
    if code is None and raw is not None:
        code, signal = decode_wait_status(raw)
    return code, signal
