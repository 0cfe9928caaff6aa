"""Kernel messages of a node that several jobs share."""

from __future__ import annotations

import pytest

from slurm_triage.model.job import Job
from slurm_triage.service.own_messages import own_messages
from slurm_triage.service.spool_event import KernelMessage

JOB = Job(job_id="23", uid=2001, start=1000.0, end=1100.0)
OURS = "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/slurm/uid_2001/job_23,task_memcg=/slurm/uid_2001/job_23,task=python3,pid=77,uid=2001"


def kept(*texts: str, at: float | None = 1050.0) -> list[str]:
    return own_messages([KernelMessage(at, text) for text in texts], JOB, 2000.0)


@pytest.mark.parametrize(
    "text",
    [
        OURS,
        "Memory cgroup out of memory: Killed process 77 (python3) total-vm:1kB, UID:2001 pgtables:1kB",
        "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.",
        "nfs: server filer not responding, still trying",
    ],
)
def test_own_and_nobodys_are_kept(text: str) -> None:
    assert kept(text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        OURS.replace("job_23", "job_24"),
        OURS.replace("job_23", "job_231"),
        OURS.replace("2001", "2002"),
        "Out of memory: Killed process 9 (java) total-vm:1kB, UID:2002 pgtables:1kB",
    ],
)
def test_others_are_not(text: str) -> None:
    assert kept(text) == []


def test_lines_that_go_with_anothers_kill_go_too() -> None:
    other = OURS.replace("job_23", "job_24").replace("pid=77", "pid=78")
    killed = "Memory cgroup out of memory: Killed process 78 (python3) total-vm:1kB, UID:2001"
    reaped = "oom_reaper: reaped process 78 (python3), now anon-rss:0kB"
    assert kept(OURS, other, killed, reaped) == [OURS]


@pytest.mark.parametrize("at", [980.0, 1120.0, None])
def test_outside_of_the_jobs_time(at: float | None) -> None:
    assert kept(OURS, at=at) == []
