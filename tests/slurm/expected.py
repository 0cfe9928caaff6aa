"""What every source must say about the jobs of tests/cluster/scenarios.py. One table for live clusters and recordings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_triage.model.job import Job
from slurm_triage.slurm.sacct import TRUE_EXIT_CODES_SINCE, version_number

#: Scenario -> attributes of the job; ``earlier`` gives the states of the runs before, ``steps`` those of some steps.
EXPECTED: Mapping[str, Mapping[str, Any]] = {
    "success": {
        "state": "COMPLETED",
        "exit_code": 0,
        "nodes": ("node01",),
        "user": "alice",
        "uid": 2001,
        "restarts": 0,
    },
    "two-nodes": {"state": "COMPLETED", "nodes": ("node01", "node06"), "node_count": 2, "steps": {"0": "COMPLETED"}},
    "gpus": {"state": "COMPLETED", "gpus": 2, "comment": "two words", "time_limit_s": 26 * 3600.0},
    "exit-3": {"state": "FAILED", "exit_code": 3, "exit_signal": None},
    "exit-200": {"state": "FAILED", "exit_code": 200, "exit_signal": None},
    "exit-137": {"state": "FAILED", "exit_code": 137, "exit_signal": None, "user": "bob"},
    "batch-killed": {"state": "FAILED", "exit_code": 0, "exit_signal": 11},
    "batch-terminated": {"state": "FAILED", "exit_code": 0, "exit_signal": 15},
    "step-killed": {"state": "FAILED", "exit_code": 139, "derived_exit_signal": 11, "steps": {"0": "CANCELLED"}},
    "step-fails-script-goes-on": {
        "state": "COMPLETED",
        "exit_code": 0,
        "derived_exit_code": 5,
        "steps": {"0": "FAILED"},
    },
    "output-name-too-long": {"state": "FAILED", "exit_code": 0, "exit_signal": 53},
    "bad-interpreter": {"state": "FAILED", "exit_code": 2},
    "work-dir-missing": {"state": "COMPLETED", "work_dir": "/no/such/directory"},
    "time-limit": {"state": "TIMEOUT", "exit_code": 0, "steps": {"batch": "CANCELLED"}},
    "cancelled": {"state": "CANCELLED", "cancelled_by_uid": 0, "steps": {"batch": "CANCELLED"}},
    "cancelled-term-trapped": {"state": "CANCELLED", "cancelled_by_uid": 0},
    "cancelled-pending": {"state": "CANCELLED", "start": None, "nodes": (), "never_started": True, "steps": {}},
    "node-lost": {"state": "NODE_FAIL", "nodes": ("node04",), "exit_signal": None},
    "requeued": {"state": "COMPLETED", "restarts": 1, "earlier": ["REQUEUED"]},
    "preempted": {"state": "COMPLETED", "restarts": 1, "earlier": ["PREEMPTED"]},
    "oom-step": {"state": "FAILED", "exit_code": 7, "steps": {"0": "OUT_OF_MEMORY"}},
    "oom-batch": {"state": "OUT_OF_MEMORY", "exit_signal": 125, "steps": {"batch": "OUT_OF_MEMORY"}},
    "hostile-name": {"state": "FAILED", "exit_code": 1, "name": "a|b;$(touch /tmp/x) `c`\nd é%j"},
    "prolog-fails": {"state": "CANCELLED", "cancelled_by_uid": 0},
    "prolog-slurmctld-fails": {"state": "CANCELLED", "cancelled_by_uid": 0, "steps": {}},
    "het": {"state": "COMPLETED", "time_limit_s": 300.0},
}


def check(name: str, job: Job, *, version: str, exit_codes_true: bool) -> None:
    """Assert that the job is what the scenario makes. ``exit_codes_true``: somebody who knows was asked about exit
    codes of 128 and above."""
    wanted = dict(EXPECTED[name])
    if not exit_codes_true and version_number(version) < TRUE_EXIT_CODES_SINCE and wanted.get("exit_code", 0) >= 128:
        wanted["exit_code"] -= 128
    steps = wanted.pop("steps", None)
    earlier = wanted.pop("earlier", [])
    found = {key: getattr(job, key) for key in wanted}
    assert found == wanted, name
    assert [run.state for run in job.earlier] == earlier, name
    if steps == {}:
        assert job.steps == (), name
    for step_id, state in (steps or {}).items():
        assert {step.step_id: step.state for step in job.steps}[step_id] == state, name
    assert job.is_terminal, name
    assert job.final, name
    assert job.end is not None, name
    assert job.submit is not None, name
    assert job.end >= job.submit, name
    if job.start is not None:
        assert job.elapsed_s == job.end - job.start, name


def check_held(job: Job) -> None:
    """A job held after a failed launch, seen through slurmctld. Accounting alone shows only the first run, until it
    gets a row for the second one at some time."""
    assert (job.state, job.reason, job.final) == ("PENDING", "launch_failed_requeued_held", False)
    assert (job.start, job.end, job.nodes, job.restarts) == (None, None, (), 1)
    assert [(run.state, run.nodes, run.final) for run in job.earlier] == [("REQUEUED", ("node05",), True)]
