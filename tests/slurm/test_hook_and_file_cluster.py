"""The hooks' own words, and a file with what a person copies from Slurm's commands, agree with accounting about jobs that
really ran."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from slurm_triage.model.job import Job, JobStep
from slurm_triage.service.spool_event import Event
from slurm_triage.slurm import hook_env
from slurm_triage.slurm.record_file import job_from_record
from tests.slurm.played import Played, accounting


@pytest.fixture(scope="module", autouse=True)
def slurm_conf(played: Played) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(played.cluster.layout.slurm_conf))
        yield


# ---- hooks --------------------------------------------------------------------------------------------------------

#: What a hook cannot know, or is told before it is so.
NOT_COMPARED = frozenset(
    {
        "source",
        "final",
        "earlier",
        "steps",
        # Counted up already when a run is sent back to the queue, on some versions.
        "restarts",
    }
)


def run_of(event: Event, partial: Job, job: Job) -> Job:
    """The run that an event speaks of. A node's epilog, which may be late, is about one that was on that node."""
    runs = [run for run in (*job.earlier, job) if run.start is not None]
    if event.kind == "epilog":
        runs = [run for run in runs if event.host in run.nodes]
    if partial.start is not None:
        return next(run for run in runs if run.start == partial.start)
    return [run for run in runs if run.start is not None and run.start <= event.time + 1][-1] if runs else job


def differences(partial: Job, run: Job) -> dict[str, tuple[object, object]]:
    """Where the hook says something and accounting something else."""
    found = {}
    for name in {field.name for field in fields(Job)} - NOT_COMPARED:
        ours, theirs = getattr(partial, name), getattr(run, name)
        if name == "name":
            # Accounting stores no double quotes.
            ours = ours and ours.replace('"', "`")
        if ours not in (None, (), theirs) and not (name == "stdout" and theirs is None):
            found[name] = (ours, theirs)
    return found


def test_every_hook_agrees_with_accounting_in_all_it_says(played: Played) -> None:
    # Asked one by one, so that slurmctld puts exit codes of 128 and above right.
    source = accounting(played.cluster, controller=True)
    truth: dict[str, Job] = {}
    for job_id in played.ids.values():
        truth.update(source.jobs([job_id]))
    compared = 0
    for event in played.events:
        partial = hook_env.job(event.env)
        job = truth.get(partial.job_id or "")
        if job is None or (event.kind == "mail" and not event.env.get("SLURM_JOB_ID")):
            continue
        compared += 1
        assert differences(partial, run_of(event, partial, job)) == {}, (event.kind, job.name)
    assert compared > 3 * len(played.ids)


# ---- a file -------------------------------------------------------------------------------------------------------

#: sacct's column -> the key in the file.
KEYS = {
    "jobidraw": "job_id",
    "jobname": "name",
    "user": "user",
    "uid": "uid",
    "gid": "gid",
    "account": "account",
    "partition": "partition",
    "qos": "qos",
    "cluster": "cluster",
    "state": "state",
    "exitcode": "exit_code",
    "derivedexitcode": "derived_exit_code",
    "submit": "submit",
    "start": "start",
    "end": "end",
    "elapsed": "elapsed",
    "timelimit": "time_limit",
    "nodelist": "nodes",
    "workdir": "work_dir",
    "comment": "comment",
}
NUMBERS = ("uid", "gid")
SEPARATOR = "\x1e"


def copied(played: Played, job_id: str) -> list[dict[str, Any]]:
    """What sacct prints for people about every run of a job and its steps, as the objects of such a file."""
    argv = ["sacct", "-n", "-P", "-D", f"--delimiter={SEPARATOR}", "-j", job_id, "-o", ",".join(["jobid", *KEYS])]
    output = played.cluster.run(argv, env={"TZ": "UTC"}).stdout
    values = [line.split(SEPARATOR) for line in output.replace("\n", "\0").split("\0") if line]
    runs: list[dict[str, Any]] = []
    for shown, *row in values:
        record: dict[str, Any] = dict(zip(KEYS.values(), row, strict=True))
        for key in ("submit", "start", "end"):
            record[key] += "Z" if record[key][:1].isdigit() else ""
        for key in NUMBERS:
            record[key] = int(record[key]) if record[key] else None
        if "." in record["job_id"]:
            record["step_id"] = record.pop("job_id").partition(".")[2]
            runs[-1]["steps"].append(record)
            continue
        array, underscore, task = shown.partition("_")
        if underscore:
            record.update(array_job_id=array, array_task_id=task)
        runs.append({**record, "het_job_id": shown.partition("+")[0] if "+" in shown else None, "steps": []})
    return runs


def test_a_file_with_the_words_of_sacct_says_what_accounting_says(played: Played) -> None:
    source = accounting(played.cluster)
    names = {*KEYS.values(), "exit_signal", "derived_exit_signal", "cancelled_by_uid", "array_job_id", "array_task_id"}
    names = (names | {"het_job_id", "elapsed_s", "time_limit_s", "node_count"}) - {"elapsed", "time_limit"}
    for name, job_id in played.ids.items():
        # A name with a newline cannot be told from a row in what sacct prints for people.
        if name in ("hostile-name", "array", "het"):
            continue
        job = source.jobs([job_id])[job_id]
        *earlier, last = copied(played, job_id)
        told = job_from_record({**last, "earlier": earlier})
        for ours, theirs in zip((*told.earlier, told), (*job.earlier, job), strict=True):
            assert {key: getattr(ours, key) for key in names} == {key: getattr(theirs, key) for key in names}, name
            assert [same(step) for step in ours.steps] == [same(step) for step in theirs.steps], name
            assert ours.is_terminal == theirs.is_terminal
            assert ours.never_started == theirs.never_started


def same(step: JobStep) -> tuple[object, ...]:
    return step.step_id, step.name, step.state, step.exit_code, step.exit_signal, step.start, step.end, step.nodes


def test_a_file_about_parts_of_arrays_and_het_jobs(played: Played) -> None:
    source = accounting(played.cluster)
    for job_id in (f"{played.ids['array']}_1", f"{played.ids['het']}+1"):
        (job,) = source.jobs([job_id]).values()
        (last,) = copied(played, job_id)
        told = job_from_record(last)
        for key in ("job_id", "array_job_id", "array_task_id", "het_job_id", "state", "exit_code", "nodes", "end"):
            assert getattr(told, key) == getattr(job, key), (job_id, key)
