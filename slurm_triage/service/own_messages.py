"""Which of a node's kernel messages are about this job. Nodes are shared, and the kernel's buffer reaches back days."""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurm_triage.model.job import Job
from slurm_triage.service.spool_event import KernelMessage

#: Clocks of node, controller and kernel differ by seconds.
SLACK_S = 10.0

#: ``task_memcg=/slurm/uid_2001/job_23/step_0``: Slurm's cgroups name the job that was hit.
_JOB = re.compile(r"/job_(\d+)(?=[/,\s]|$)")
_OWNER = re.compile(r"(?:\bUID:|\buid=|/uid_)(\d+)\b")
_VICTIM = re.compile(r"\bpid=(\d+)\b")
#: The lines that go with an ``oom-kill:`` line name the same process.
_PROCESS = re.compile(r"(?:Killed process |reaped process |\bpid=)(\d+)\b")


def own_messages(messages: Iterable[KernelMessage], job: Job, now: float) -> list[str]:
    """The texts that fall into the job's time and do not name another job, or another user, as the one hit. Messages
    without a time are left out: nobody knows which job they belong to."""
    since = (job.start or job.submit or now) - SLACK_S
    until = (job.end or now) + SLACK_S
    timely = [m.text for m in messages if m.time is not None and since <= m.time <= until]
    foreign = [text for text in timely if _is_foreign(text, job)]
    victims = {match[1] for text in foreign for match in _VICTIM.finditer(text)}
    own_victims = {m[1] for text in timely if text not in foreign for m in _VICTIM.finditer(text)}
    dropped = victims - own_victims
    return [text for text in timely if text not in foreign and not _speaks_of(text, dropped)]


def _is_foreign(text: str, job: Job) -> bool:
    jobs, owners = set(_JOB.findall(text)), set(_OWNER.findall(text))
    if jobs and job.job_id not in jobs:
        return True
    return bool(owners) and job.uid is not None and str(job.uid) not in owners


def _speaks_of(text: str, processes: set[str]) -> bool:
    match = _PROCESS.search(text)
    return match is not None and match[1] in processes
