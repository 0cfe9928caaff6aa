"""What accounting's state means for the status, whatever the log says beside it."""

from __future__ import annotations

import pytest

from slurm_triage.model.files import JobFiles
from slurm_triage.model.job import TERMINAL_STATES
from slurm_triage.pipeline import Engine, triage
from slurm_triage.slurm import record
from slurm_triage.slurm.record_file import job_from_record
from tests.conftest import Triage

STEPS = "".join(
    f"0: completed step: {n}, seconds: 3.0, TFLOP/s/device: 4.6, Tokens/s/device: 10.0, loss: 1.0\n" for n in range(5)
)
XID = "[ 1234.5] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.\n"
ECC = "Uncorrectable ECC error encountered\n"
AMD = "Memory access fault by GPU node-1 (Agent handle: 0x1) on address 0x7f. Reason: Unknown.\n"
KILLED = "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0. Some of your processes may have been killed\n"
RUN = {"start": 1796000000, "end": 1796000600, "nodes": ["node01"]}
COMPLETED = {**RUN, "state": "COMPLETED", "exit_code": "0:0"}
FAILURES = {"FAILED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY"}


@pytest.mark.parametrize("state", sorted(TERMINAL_STATES - {"COMPLETED"}))
@pytest.mark.parametrize("log", [None, STEPS], ids=["no log", "steps"])
def test_a_stop_by_slurm_is_no_failure(triage_text: Triage, engine: Engine, state: str, log: str | None) -> None:
    accounting = {**RUN, "state": state, "exit_code": "0:0"}
    if log is None:
        report = triage(job_from_record(accounting), JobFiles(job_id="7"), engine)
    else:
        report = triage_text(log, accounting=accounting)
    assert report.diagnosis.status == ("failed" if state in FAILURES else "cancelled")


#: As sacct of 22.05 prints jobs that never started: cancelled by the scheduler for their deadline while they waited and
#: when they were about to start, and given a cloud node that did not come up.
ROWS = """\
2|DEADLINE|1:0|1796064559|None|1796064575|0|None assigned|/home/alice
3|DEADLINE|1:0|1796064559|1796064562|1796064562|0|None assigned|/home/alice
6|NODE_FAIL|0:0|1796064559|1796064562|1796064569|7|cloud01|/home/alice
7|BOOT_FAIL|0:0|1796064559|1796064562|1796064569|7|cloud01|/home/alice
"""
COLUMNS = ("jobid", "state", "exitcode", "submit", "start", "end", "elapsedraw", "nodelist", "workdir")


@pytest.mark.parametrize("line", ROWS.splitlines())
def test_jobs_that_never_began(engine: Engine, line: str) -> None:
    row = dict(zip(COLUMNS, line.split("|"), strict=True))
    job = record.build([{**row, "jobidraw": row["jobid"]}], "sacct")[row["jobid"]]
    diagnosis = triage(job, JobFiles(job_id=job.job_id), engine).diagnosis
    assert job.final
    assert diagnosis.primary is not None
    found = (diagnosis.status, diagnosis.primary.cls, "deadline" in diagnosis.narrative)
    late = row["state"] == "DEADLINE"
    assert found == (("cancelled", "time-limit", True) if late else ("failed", "node-fail", False))
    assert "--time limit" not in diagnosis.narrative


@pytest.mark.parametrize("state", ["REQUEUED", "CANCELLED by 0"])
def test_a_run_that_its_node_could_not_start_has_failed(engine: Engine, state: str) -> None:
    batch = {"step_id": "batch", "state": "CANCELLED", "end": RUN["end"]}
    job = job_from_record({**RUN, "state": state, "exit_code": "0:0", "steps": [batch]})
    diagnosis = triage(job, JobFiles(job_id="7"), engine).diagnosis
    assert diagnosis.primary is not None
    assert (diagnosis.status, diagnosis.primary.cls) == ("failed", "prolog-fail")


def test_a_requeued_job_that_waits_was_stopped_not_broken(triage_text: Triage) -> None:
    line = "slurmstepd: error: *** JOB 7 ON node01 CANCELLED AT 2026-11-30T18:00:00 DUE TO JOB REQUEUE ***\n"
    diagnosis = triage_text(STEPS + line, accounting={"state": "REQUEUE_HOLD"}).diagnosis
    assert diagnosis.primary is not None
    assert (diagnosis.status, diagnosis.primary.cls) == ("cancelled", "requeued")


@pytest.mark.parametrize("line", [XID, ECC, AMD, KILLED], ids=["xid", "ecc", "amd", "oom-kill"])
@pytest.mark.parametrize("log", ["start\n", STEPS, "Config param steps: 5\n" + STEPS], ids=["no step", "steps", "all"])
def test_a_line_about_the_hardware_does_not_fail_a_completed_job(triage_text: Triage, log: str, line: str) -> None:
    diagnosis = triage_text(log + line, accounting=COMPLETED).diagnosis
    assert (diagnosis.status, diagnosis.primary, diagnosis.resubmit.action) == ("completed", None, "none")
    assert any("completed all the same, but its log says" in note for note in diagnosis.notes)


def test_a_program_that_says_it_is_done_may_stop_early(triage_text: Triage) -> None:
    done = "`Trainer.fit` stopped: `max_epochs=3` reached.\n"
    log = "Config param steps: 50\n" + STEPS + XID + done
    assert triage_text(log, accounting=COMPLETED).diagnosis.status == "completed"


def test_exit_0_in_the_middle_of_training_hides_a_fault(triage_text: Triage) -> None:
    diagnosis = triage_text("Config param steps: 50\n" + STEPS + XID, accounting=COMPLETED).diagnosis
    assert diagnosis.primary is not None
    assert (diagnosis.status, diagnosis.primary.cls) == ("failed", "gpu-hw-fault")
