"""The readers of accounting, on what real clusters said (recorded by record.py)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_triage.errors import AccountingError
from slurm_triage.model.job import Job
from slurm_triage.slurm import controller, hook_env, record
from slurm_triage.slurm.accounting import display_id, select
from slurm_triage.slurm.fields import rows
from tests.slurm.expected import EXPECTED, check, check_held

RECORDINGS = {path.stem: json.loads(path.read_text()) for path in Path(__file__).with_name("recorded").glob("*.json")}


def jobs_of(recording: dict[str, Any]) -> dict[str, Job]:
    return record.build(rows(recording["sacct"], recording["delimiter"], recording["columns"]), "sacct")


@pytest.fixture(params=sorted(RECORDINGS))
def recording(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(RECORDINGS[request.param])


def test_old_and_new_versions_are_recorded() -> None:
    assert {"22.05.8", "24.11.5", "26.05.5"} <= set(RECORDINGS)


@pytest.mark.parametrize("name", EXPECTED)
def test_sacct_row_means(name: str, recording: dict[str, Any]) -> None:
    job = jobs_of(recording)[recording["ids"][name]]
    check(name, job, version=recording["version"], exit_codes_true=False)
    assert job.source == "sacct"


@pytest.mark.parametrize("name", EXPECTED)
def test_the_controllers_hook_restores_true_exit_codes(name: str, recording: dict[str, Any]) -> None:
    job = jobs_of(recording)[recording["ids"][name]]
    env = recording["events"][name].get("epilog-slurmctld") or recording["events"][name]["jobcomp"]
    refined = hook_env.refine(job, env)
    check(name, refined, version=recording["version"], exit_codes_true=True)


@pytest.mark.parametrize("kind", ["epilog-slurmctld", "jobcomp"])
@pytest.mark.parametrize("name", EXPECTED)
def test_the_hook_alone_agrees_where_it_speaks(name: str, kind: str, recording: dict[str, Any]) -> None:
    if kind == "epilog-slurmctld" and name == "cancelled-pending":
        assert kind not in recording["events"][name], "a job that never started has no epilog"
        return
    partial = hook_env.job(recording["events"][name][kind])
    job = jobs_of(recording)[recording["ids"][name]]
    assert partial.job_id == job.job_id
    assert partial.uid == job.uid
    assert partial.user == job.user
    assert partial.work_dir == job.work_dir
    assert partial.account == job.account
    assert partial.source == "hook"
    assert not partial.final
    # The hook's view of a run that is sent back to the queue has lost its nodes already in some versions.
    if partial.nodes:
        assert partial.nodes == job.nodes
    wanted = EXPECTED[name]
    if partial.exit_code and partial.state != "CANCELLED":
        assert partial.exit_code == wanted.get("exit_code", partial.exit_code)
        assert partial.state in {"FAILED", "NODE_FAIL"}
    if name == "node-lost":
        assert partial.state in {None, "NODE_FAIL"}
        assert partial.exit_signal in {None, hook_env.LOST_NODE_SIGNAL}
    elif "exit_signal" in wanted:
        assert partial.exit_signal == wanted["exit_signal"]


def test_jobcomp_states_how_the_job_ended(recording: dict[str, Any]) -> None:
    for name in ("success", "exit-3", "time-limit", "cancelled", "cancelled-pending", "node-lost", "oom-batch"):
        partial = hook_env.job(recording["events"][name]["jobcomp"])
        assert partial.state == EXPECTED[name]["state"], name
        assert partial.never_started == (name == "cancelled-pending")


def test_raw_wait_status_is_read_where_the_decoded_one_is_missing(recording: dict[str, Any]) -> None:
    for name, code, signal in (("exit-137", 137, None), ("batch-killed", 0, 11), ("output-name-too-long", 0, 53)):
        env = dict(recording["events"][name]["epilog-slurmctld"])
        del env["SLURM_JOB_EXIT_CODE2"]
        partial = hook_env.job(env)
        assert (partial.exit_code, partial.exit_signal) == (code, signal), name


def test_array_tasks_have_raw_and_shown_ids(recording: dict[str, Any]) -> None:
    jobs = jobs_of(recording)
    array = recording["ids"]["array"]
    tasks = [job for job in select(jobs, array) if job.array_job_id == array]
    by_task = sorted(tasks, key=lambda job: job.array_task_id or "")
    assert [job.array_task_id for job in by_task] == ["0", "1", "2"]
    assert [job.exit_code for job in by_task] == [0, 1, 2]
    assert [display_id(job) for job in by_task] == [f"{array}_{task}" for task in range(3)]
    assert array in {job.job_id for job in by_task}, "one task carries the array's own id"
    assert select(jobs, f"{array}_1") == [by_task[1]]
    assert hook_env.job(recording["events"]["array"]["epilog-slurmctld"]).array_job_id == array


def test_het_components_are_found_by_leader_and_offset(recording: dict[str, Any]) -> None:
    jobs = jobs_of(recording)
    leader = recording["ids"]["het"]
    parts = select(jobs, leader)
    assert [job.job_id for job in parts] == [leader, str(int(leader) + 1)]
    assert {job.het_job_id for job in parts} == {leader}
    assert select(jobs, f"{leader}+1") == parts[1:]
    assert [display_id(job) for job in parts] == [f"{leader}+0", f"{leader}+1"]


def test_earlier_runs_keep_their_own_nodes_times_and_steps(recording: dict[str, Any]) -> None:
    job = jobs_of(recording)[recording["ids"]["requeued"]]
    (first,) = job.earlier
    assert first.restarts == 0
    assert first.end is not None
    assert job.start is not None
    assert first.end <= job.start
    assert {step.step_id: step.exit_signal for step in first.steps}["batch"] == 15
    assert {step.step_id: step.exit_signal for step in job.steps}["batch"] is None


def test_stdout_is_expanded_where_sacct_knows_the_pattern(recording: dict[str, Any]) -> None:
    jobs = jobs_of(recording)
    job = select(jobs, f"{recording['ids']['array']}_1")[0]
    expected = f"{job.work_dir}/array-{job.array_job_id}_1.out"
    if "stdout" in recording["columns"]:
        assert job.stdout == expected
    else:
        assert job.stdout is None
        env = {**recording["events"]["array"]["epilog-slurmctld"], "SLURM_ARRAY_TASK_ID": "1"}
        assert hook_env.refine(job, env).stdout == expected


def test_a_missing_pattern_is_the_default_pattern(recording: dict[str, Any]) -> None:
    job = jobs_of(recording)[recording["ids"]["exit-3"]]
    env = recording["events"]["exit-3"]["epilog-slurmctld"]
    assert hook_env.refine(job, env).stdout == f"{job.work_dir}/slurm-{job.job_id}.out"


def test_slurmds_epilog_alone_does_not_guess_the_output_of_an_array_task(recording: dict[str, Any]) -> None:
    assert hook_env.job(recording["events"]["array"]["epilog"]).stdout is None


# ---- slurmctld's view ---------------------------------------------------------------------------------------------


def view_of(recording: dict[str, Any], name: str) -> tuple[Job, controller.ControllerView]:
    job_id = recording["ids"][name]
    view = controller.parse(recording["scontrol"][name], job_id)
    assert view is not None
    return jobs_of(recording)[job_id], view


@pytest.mark.parametrize("name", ["exit-200", "exit-137", "step-killed"])
def test_slurmctld_knows_the_true_exit_code(name: str, recording: dict[str, Any]) -> None:
    job = controller.merge(*view_of(recording, name))
    check(name, job, version=recording["version"], exit_codes_true=True)
    assert job.reason == "NonZeroExitCode"
    assert {step.exit_code for step in job.steps if step.step_id == "batch"} == {job.exit_code}


def test_slurmctld_shows_the_signal_of_scancel_as_exit_code_which_is_not_taken(recording: dict[str, Any]) -> None:
    job, view = view_of(recording, "cancelled")
    assert view.exit_signal == 15
    assert controller.merge(job, view).exit_signal is None


def test_slurmctld_says_why_and_where(recording: dict[str, Any]) -> None:
    lost = controller.merge(*view_of(recording, "node-lost"))
    assert lost.reason == "NodeDown"
    assert lost.requested_nodes == "node04"
    long = controller.merge(*view_of(recording, "output-name-too-long"))
    assert long.reason == "JobLaunchFailure" or "RaisedSignal" in (long.reason or "")
    named = controller.merge(*view_of(recording, "hostile-name"))
    assert named.stdout == f"{named.work_dir}/slurm-{named.job_id}.out"


def test_one_task_is_found_in_the_answer_about_a_whole_array(recording: dict[str, Any]) -> None:
    job, view = view_of(recording, "array")
    assert view.exit_code == job.exit_code
    assert controller.parse(recording["scontrol"]["array"], "999999") is None


def test_a_job_held_after_a_failed_launch_is_a_new_run_that_waits(recording: dict[str, Any]) -> None:
    job, view = view_of(recording, "launch-failed-held")
    check_held(controller.merge(job, view))
    if job.earlier:
        check_held(controller.merge(job.earlier[0], view))


def test_a_view_of_another_state_changes_nothing(recording: dict[str, Any]) -> None:
    job, view = view_of(recording, "exit-137")
    assert controller.merge(job, replace(view, state="RUNNING")) == job


# ---- damage and deceit --------------------------------------------------------------------------------------------


def test_every_cut_of_the_answer_is_noticed_or_ends_a_row(recording: dict[str, Any]) -> None:
    text, delimiter = recording["sacct"], recording["delimiter"]
    whole = len(jobs_of(recording))
    noticed = 0
    for cut in range(len(text) - 1, 0, -97):
        try:
            jobs = record.build(rows(text[:cut], delimiter, recording["columns"]), "sacct")
        except AccountingError:
            noticed += 1
        else:
            assert len(jobs) <= whole
            assert text[:cut].endswith((delimiter, delimiter + "\n"))
    assert noticed


def test_a_job_name_cannot_look_like_another_jobs_row() -> None:
    """The delimiter of a real query is random: whatever a name holds stays within its field."""
    columns = ("jobid", "jobidraw", "jobname", "state")
    row = ["7", "7", "x\n8|8|forged|FAILED|\n9\x1f9\x1fforged\x1fFAILED\x1f", "COMPLETED"]
    jobs = record.build(rows("".join(f"{value}<?>" for value in row) + "\n", "<?>", columns), "sacct")
    assert list(jobs) == ["7"]
    assert jobs["7"].name == row[2]


@pytest.fixture
def row() -> Callable[..., dict[str, str]]:
    def make(**values: str) -> dict[str, str]:
        base = {"jobid": "7", "jobidraw": "7", "uid": "2001", "state": "COMPLETED", "exitcode": "0:0"}
        return {**base, "submit": "100", "start": "110", "end": "120", "nodelist": "n1", "workdir": "/w", **values}

    return make


def test_an_old_job_with_the_same_id_is_not_an_earlier_run(row: Callable[..., dict[str, str]]) -> None:
    later = row(submit=str(100 + 3 * 365 * 86400), start=str(3 * 365 * 86400 + 200), end=str(3 * 365 * 86400 + 300))
    assert record.build([row(), later], "sacct")["7"].earlier == ()
    other_user = row(uid="2002", submit="130", start="140", end="150")
    assert record.build([row(state="REQUEUED"), other_user], "sacct")["7"].earlier == ()
    again = row(submit="121", start="240", end="250")
    assert [run.state for run in record.build([again, row(state="REQUEUED")], "sacct")["7"].earlier] == ["REQUEUED"]


@pytest.mark.parametrize(
    "job_values, step_values",
    [
        ({"end": "Unknown"}, {}),
        ({"state": "RUNNING", "end": "Unknown"}, {"state": "RUNNING", "end": "Unknown"}),
        ({"state": "PENDING", "start": "Unknown", "end": "Unknown", "nodelist": "None assigned"}, {}),
        ({"state": "CANCELLED by 2001"}, {"state": "RUNNING", "end": "Unknown"}),
        ({"state": "COMPLETING"}, {}),
        ({"state": "FAILED", "end": "Unknown"}, {}),
        ({"workdir": ""}, {}),
    ],
)
def test_unfinished_records_are_not_final(
    row: Callable[..., dict[str, str]], job_values: dict[str, str], step_values: dict[str, str]
) -> None:
    step = row(jobid="7.batch", jobidraw="7.batch", **step_values)
    job = record.build([row(**job_values), step], "sacct")["7"]
    assert not job.final
    assert not job.never_started


def test_steps_of_a_row_that_is_missing_are_not_given_to_another_job(row: Callable[..., dict[str, str]]) -> None:
    stray = row(jobid="8.batch", jobidraw="8.batch")
    assert record.build([stray, row(), stray], "sacct")["7"].steps == ()
