"""Slurm's own daemons fail while jobs end: every run keeps its one report, and it is the right one."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.layout import USERS
from tests.service.site import QUICK, Site, installed

ALICE, BOB = USERS
WAIT_S = 180.0

#: A minute without slurmdbd, restarts, lost nodes: six minutes in all.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(host_cluster: Cluster) -> Iterator[Site]:
    with installed(host_cluster, "outages", **QUICK) as site:
        yield site


def submit_tasks(site: Site, name: str, script: str, count: int, *args: str) -> list[str]:
    """An array of ``count`` tasks; the ids of its tasks."""
    directory = site.cluster.workdir(BOB, name)
    job_id = site.cluster.submit(BOB, script, "-a", f"0-{count - 1}", "--mem=10", *args, cwd=directory)
    return [f"{job_id}_{n}" for n in range(count)]


def one_right_report_each(site: Site, tasks: list[str], forgotten: frozenset[str] = frozenset()) -> None:
    """Tasks end with their own number modulo 2: each has one final record that says so, no other, and a report that
    agrees with it. Of those ``forgotten`` by Slurm the record says what Slurm says."""
    found = site.wait_for_reports(*tasks, timeout_s=WAIT_S)
    runs = site.records(*tasks)
    assert {task: len(runs[task]) for task in tasks} == dict.fromkeys(tasks, 1)
    for number, task in enumerate(tasks):
        if task in forgotten:
            assert found[task]["state"] == "NODE_FAIL", task
            continue
        assert found[task]["state"] == ("FAILED" if number % 2 else "COMPLETED"), task
        document = json.loads(Path(str(found[task]["report_path"])).read_bytes())
        assert document["accounting"]["final"] is True
        assert document["job"]["exit_code"] == number % 2
    assert site.cluster.drained() == {}
    new = site.prefix / "spool/new"
    site.cluster.wait_for("empty spool", lambda: not list(new.iterdir()), 60.0)


ENDS_IN_TURN = "sleep $((1 + SLURM_ARRAY_TASK_ID / 4)); echo here; exit $((SLURM_ARRAY_TASK_ID % 2))"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_slurmctld_is_restarted_while_jobs_end(site: Site, number: signal.Signals) -> None:
    cluster = site.cluster
    tasks = submit_tasks(site, "ctld", ENDS_IN_TURN, 40)
    cluster.wait_for("first record", lambda: any(site.records(*tasks).values()), 60.0)
    for _ in range(2):
        cluster.processes.stop(["slurmctld"], number)
        time.sleep(1.0)
        cluster.ctld_up()
        time.sleep(1.5)
    site.wait_for_reports(*tasks, timeout_s=WAIT_S)
    # Killed, slurmctld may not know any more what ended just before, and takes it for lost with its node (one task of
    # 40, seen with 22.05).
    lost = cluster.output("sacct", "-n", "-X", "-P", "-j", ",".join(tasks), "-s", "NODE_FAIL", "-o", "JobID").split()
    assert len(lost) <= (4 if number == signal.SIGKILL else 0)
    one_right_report_each(site, tasks, frozenset(lost))
    # What slurmctld sends again after its start, and what the reconciler asks for, must not make second reports.
    time.sleep(float(QUICK["reconcile_lag_s"]) + 2 * float(QUICK["reconcile_s"]))
    one_right_report_each(site, tasks, frozenset(lost))


def test_a_job_cancelled_around_a_restart_of_slurmctld_stays_cancelled(site: Site) -> None:
    """slurmctld rewrites such records: `CANCELLED by 2001` with exit code 0:0 becomes CANCELLED with 0:15."""
    cluster = site.cluster
    job_id = cluster.submit(ALICE, "echo here; sleep 300", cwd=cluster.workdir(ALICE, "rewritten"))
    cluster.wait_state(job_id, "RUNNING")
    time.sleep(1.0)
    cluster.run(["scancel", job_id], user=ALICE)
    cluster.ctld_restart()
    record = site.wait_for_reports(job_id, timeout_s=WAIT_S)[job_id]
    assert (record["state"], record["status"]) == ("CANCELLED", "cancelled")
    assert len(site.records(job_id)[job_id]) == 1


# ---- slurmdbd -----------------------------------------------------------------------------------------------------


def test_slurmdbd_is_away_for_a_minute(site: Site) -> None:
    cluster = site.cluster
    directory = cluster.workdir(BOB, "outage")
    began = time.monotonic()
    cluster.dbd_down()
    try:
        ids = {
            "fails": cluster.submit(BOB, "exit 4", cwd=directory),
            "high": cluster.submit(BOB, "exit 137", cwd=directory),
            "good": cluster.submit(BOB, "exit 0", cwd=directory),
            "cancelled": cluster.submit(BOB, "sleep 300", cwd=directory),
        }
        tasks = submit_tasks(site, "outage-array", ENDS_IN_TURN, 10)
        cluster.wait_state(ids["cancelled"], "RUNNING")
        cluster.scancel(ids["cancelled"])
        # Longer than final_wait_s: a report from what the hook said.
        early = cluster.path(directory) / f"slurm-{ids['fails']}.triage.json"
        cluster.wait_for("report without accounting", early.exists, 60.0)
        assert json.loads(early.read_bytes())["accounting"] == {"source": "hook", "final": False}
        time.sleep(max(0.0, began + 60.0 - time.monotonic()))
    finally:
        cluster.dbd_up()
    found = site.wait_for_reports(*ids.values(), timeout_s=WAIT_S)
    states = {name: found[job_id]["state"] for name, job_id in ids.items()}
    assert states == {"fails": "FAILED", "high": "FAILED", "good": "COMPLETED", "cancelled": "CANCELLED"}
    assert read(found[ids["high"]])["job"]["exit_code"] == 137
    assert read(found[ids["fails"]])["accounting"] == {"source": "sacct", "final": True}
    one_right_report_each(site, tasks)


def read(record: Mapping[str, object]) -> Any:
    return json.loads(Path(str(record["report_path"])).read_bytes())


def test_slurmdbd_is_slow(site: Site) -> None:
    """Answers take seconds: the database is stopped and continued in turn, nine tenths of the time stopped."""
    cluster = site.cluster
    over = threading.Event()

    def slow() -> None:
        while not over.is_set():
            cluster.processes.kill("mariadb", signal.SIGSTOP)
            over.wait(1.8)
            cluster.processes.kill("mariadb", signal.SIGCONT)
            over.wait(0.2)

    tormentor = threading.Thread(target=slow)
    tormentor.start()
    try:
        tasks = submit_tasks(site, "slow", ENDS_IN_TURN, 20)
        began = time.monotonic()
        cluster.sacct("-X", "-j", tasks[0].partition("_")[0])
        assert time.monotonic() - began > 0.5, "the test itself: slurmdbd is not slow"
        one_right_report_each(site, tasks)
    finally:
        over.set()
        tormentor.join()
        cluster.processes.kill("mariadb", signal.SIGCONT)


# ---- nodes --------------------------------------------------------------------------------------------------------


def test_slurmd_is_killed_and_its_job_ends_without_it(site: Site) -> None:
    cluster = site.cluster
    directory = cluster.workdir(ALICE, "no-slurmd")
    job_id = cluster.submit(ALICE, "echo here; sleep 4; exit 6", "-w", "node04", cwd=directory)
    cluster.wait_state(job_id, "RUNNING")
    time.sleep(1.0)
    cluster.slurmd_down("node04")
    try:
        time.sleep(6.0)
    finally:
        cluster.slurmd_up("node04")
    record = site.wait_for_reports(job_id, timeout_s=WAIT_S)[job_id]
    assert (record["state"], record["status"]) == ("FAILED", "failed")
    assert read(record)["job"]["exit_code"] == 6
    cluster.wait_for("all nodes idle", cluster.all_idle, 60.0)
    assert len(site.records(job_id)[job_id]) == 1


def test_slurmstepd_is_killed_with_its_job(site: Site) -> None:
    cluster = site.cluster
    directory = cluster.workdir(ALICE, "no-stepd")
    job_id = cluster.submit(ALICE, "echo here; sleep 300", "--no-requeue", "-w", "node05", cwd=directory)
    cluster.wait_state(job_id, "RUNNING")
    time.sleep(1.0)
    cluster.on_node("node05", "pkill", "-KILL", "-x", "slurmstepd")
    cluster.on_node("node05", "pkill", "-KILL", "-x", "sleep", "-u", ALICE)
    record = site.wait_for_reports(job_id, timeout_s=WAIT_S)[job_id]
    assert record["status"] == "failed"
    assert record["state"] in {"NODE_FAIL", "FAILED"}
    cluster.wait_for("all nodes idle", cluster.all_idle, 60.0)


def test_a_node_is_lost_and_the_job_runs_again_elsewhere(site: Site) -> None:
    cluster = site.cluster
    directory = cluster.workdir(ALICE, "lost-again")
    script = "[ ${SLURM_RESTART_COUNT:-0} -gt 0 ] || sleep 300; echo here"
    job_id = cluster.submit(ALICE, script, "--requeue", "-w", "node04", cwd=directory)
    cluster.wait_state(job_id, "RUNNING")
    time.sleep(1.0)
    cluster.crash("node04")
    try:
        cluster.wait_state(job_id, "PENDING", timeout_s=90.0)
        cluster.scontrol("update", f"jobid={job_id}", "ReqNodeList=", "StartTime=now")
        cluster.wait(job_id)
    finally:
        cluster.restore("node04")
    cluster.wait_for(
        "a record of each run",
        lambda: [record["state"] for record in site.records(job_id)[job_id]] == ["NODE_FAIL", "COMPLETED"],
        WAIT_S,
    )
    cluster.wait_for("all nodes idle", cluster.all_idle, 60.0)


# ---- our own ------------------------------------------------------------------------------------------------------


def test_the_worker_is_killed_and_started_again(site: Site) -> None:
    tasks = submit_tasks(site, "killed", ENDS_IN_TURN, 20)
    site.cluster.wait_for("first record", lambda: any(site.records(*tasks).values()), 60.0)
    site.kill_worker()
    site.start_worker(**QUICK)
    one_right_report_each(site, tasks)
