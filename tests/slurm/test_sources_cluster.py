"""Every source of accounting says the same, and the right thing, about jobs that really ran."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import pytest

from slurm_triage.errors import AccountingError
from slurm_triage.model.job import Job, JobStep
from slurm_triage.slurm import admin_comment
from slurm_triage.slurm.accounting import Accounting, select
from slurm_triage.slurm.controller import MAX_SINGLE, Controller, merge
from slurm_triage.slurm.pyslurm_source import PyslurmAccounting
from slurm_triage.slurm.sacct import SacctAccounting
from tests.cluster.cluster import Cluster
from tests.cluster.layout import CLUSTER_NAME
from tests.cluster.rootfs import RootCluster
from tests.cluster.scenarios import SCENARIOS
from tests.slurm.expected import EXPECTED, check, check_held
from tests.slurm.played import Played, accounting


@pytest.fixture(autouse=True)
def slurm_conf(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", str(played.cluster.layout.slurm_conf))


def pyslurm(lane: RootCluster, *, sacct: SacctAccounting | None = None, **more: Any) -> PyslurmAccounting:
    child = lane.checkout / "slurm_triage/slurm/pyslurm_child.py"
    return PyslurmAccounting(lane.python, child=child, sacct=sacct, **more)


@pytest.fixture
def sources(played: Played) -> Iterator[list[Accounting]]:
    found: list[Accounting] = [accounting(played.cluster)]
    if isinstance(played.cluster, RootCluster):
        found.append(pyslurm(played.cluster, sacct=accounting(played.cluster)))
    yield found
    for source in found:
        source.close()


def test_every_scenario_ended_as_it_was_meant_to(played: Played) -> None:
    wanted = {name: SCENARIOS[name].state for name in played.ids if SCENARIOS[name].state}
    assert {name: played.states[name] for name in wanted} == wanted


def test_each_source_says_what_happened(played: Played, sources: list[Accounting]) -> None:
    for source in sources:
        jobs = source.jobs(list(played.ids.values()), since=time.time() - 3600)
        for name in set(EXPECTED) & set(played.ids):
            job = jobs[played.ids[name]]
            assert job.source == source.name
            check(name, job, version=played.cluster.version, exit_codes_true=False)


def test_sources_agree_on_every_attribute(played: Played, sources: list[Accounting]) -> None:
    first, *others = (source.jobs(list(played.ids.values()), since=time.time() - 3600) for source in sources)
    for other in others:
        assert set(first) == set(other)
        for raw, job in first.items():
            assert differences(job, other[raw]) == [], job.name


def differences(one: Job | JobStep, other: Job | JobStep) -> list[tuple[str, object, object]]:
    """Attributes that differ, earlier runs and steps included; the source's name is meant to differ."""
    found: list[tuple[str, object, object]] = []
    for field in fields(one):
        ours, theirs = getattr(one, field.name), getattr(other, field.name)
        if field.name in ("earlier", "steps") and len(ours) == len(theirs):
            for pair in zip(ours, theirs, strict=True):
                found += differences(*pair)
        elif field.name != "source" and ours != theirs:
            found.append((field.name, ours, theirs))
    return found


def test_small_questions_are_completed_by_the_controller(played: Played) -> None:
    source = accounting(played.cluster, controller=True)
    for name in ("exit-200", "exit-137", "step-killed", "hostile-name"):
        (job,) = source.jobs([played.ids[name]]).values()
        check(name, job, version=played.cluster.version, exit_codes_true=True)
        assert job.reason == "NonZeroExitCode"
        assert job.stdout == f"{job.work_dir}/slurm-{job.job_id}.out"
        assert played.cluster.path(job.stdout).exists()
    check_held(source.jobs([played.ids["launch-failed-held"]])[played.ids["launch-failed-held"]])


def test_many_jobs_are_completed_by_the_controller_at_once(played: Played) -> None:
    """By squeue, which says the same as scontrol of each job."""
    controller = Controller(played.cluster.prefix)
    # Other tests leave jobs here whose names forge what scontrol prints of them.
    ours = set(played.ids.values())
    together = {raw: view for raw, view in controller.ended().items() if raw in ours}
    assert len(together) > MAX_SINGLE
    jobs = accounting(played.cluster).jobs(list(together))
    for raw, view in together.items():
        alone = controller.show(raw)
        assert alone is not None
        assert (view.state, view.reason, view.comment) == (alone.state, alone.reason, alone.comment), raw
        assert merge(jobs[raw], view).exit_code == merge(jobs[raw], alone).exit_code, raw
    source = accounting(played.cluster, controller=True)
    found = source.jobs(list(together))
    for raw, job in found.items():
        assert job.stdout == source.jobs([raw])[raw].stdout, raw
    for name in ("exit-200", "exit-137", "step-killed", "hostile-name"):
        job = found[played.ids[name]]
        check(name, job, version=played.cluster.version, exit_codes_true=True)
        assert (job.reason, job.stdout) == ("NonZeroExitCode", f"{job.work_dir}/slurm-{job.job_id}.out")


def test_ids_as_people_write_them(played: Played, sources: list[Accounting]) -> None:
    array, leader = played.ids["array"], played.ids["het"]
    for source in sources:
        assert [job.exit_code for job in source.jobs([f"{array}_1"]).values()] == [1]
        assert [job.array_task_id for job in select(source.jobs([array]), array)] == ["2", "0", "1"]
        assert list(source.jobs([f"{leader}+1"])) == [str(int(leader) + 1)]
        assert set(source.jobs([leader])) == {leader, str(int(leader) + 1)}
        assert source.jobs(["4000000"]) == {}


def test_recent_finds_every_job_that_ended(played: Played, sources: list[Accounting]) -> None:
    for source in sources:
        found = {job.job_id: job for job in source.recent(time.time() - 3600, time.time() + 60)}
        assert set(played.ids.values()) - set(found) == set()
        assert [run.state for run in found[played.ids["preempted"]].earlier] == ["PREEMPTED"]
        assert list(source.recent(100.0, 200.0)) == []


def test_another_cluster_of_the_same_slurmdbd(played: Played) -> None:
    """It has a job of the same number, which ended otherwise."""
    cluster, job_id = played.cluster, played.ids["exit-3"]
    cluster.output("sacctmgr", "-iQ", "add", "cluster", "elsewhere")
    try:
        table = "elsewhere_job_table"
        statements = f"insert into {table} select * from {CLUSTER_NAME}_job_table where id_job = {job_id};"
        statements += f"update {table} set exit_code = 4 << 8;"
        socket = f"--socket={cluster.layout.inside}/db/mysqld.sock"
        cluster.run(["mariadb", "--no-defaults", socket, "slurm_acct_db", "-e", statements])
        sacct = SacctAccounting([*cluster.prefix, "sacct", "-M", "elsewhere"])
        found: list[Accounting] = [sacct]
        if isinstance(cluster, RootCluster):
            found.append(pyslurm(cluster, cluster="elsewhere"))
        for source in found:
            job = source.jobs([job_id])[job_id]
            assert (job.cluster, job.state, job.exit_code) == ("elsewhere", "FAILED", 4)
            assert source.jobs([played.ids["success"]]) == {}
            source.close()
    finally:
        cluster.output("sacctmgr", "-iQ", "delete", "cluster", "elsewhere")


def test_one_query_for_all(played: Played, sources: list[Accounting]) -> None:
    sacct = sources[0]
    assert isinstance(sacct, SacctAccounting)
    sacct.jobs(list(played.ids.values()), since=time.time() - 3600)
    assert sacct.queries == 1


def test_a_running_job_is_not_final(played: Played, sources: list[Accounting]) -> None:
    job_id = played.cluster.submit("alice", "sleep 60")
    played.cluster.wait_state(job_id, "RUNNING")
    for source in sources:
        played.cluster.wait_for("job in accounting", lambda source=source: job_id in source.jobs([job_id]), 20.0)
        job = source.jobs([job_id])[job_id]
        assert (job.state in ("RUNNING", "PENDING"), job.final, job.end) == (True, False, None)
    played.cluster.scancel(job_id)
    played.cluster.wait(job_id)


def test_the_admin_comment_is_of_one_job_only(played: Played) -> None:
    cluster = played.cluster
    sacct = accounting(cluster)
    jobs = sacct.jobs([played.ids["array"], played.ids["het"], played.ids["requeued"]])
    task = select(jobs, f"{played.ids['array']}_2")[0]
    leader = select(jobs, played.ids["het"])[0]
    requeued = jobs[played.ids["requeued"]]
    sacctmgr = [*cluster.prefix, "sacctmgr"]
    for job in (task, leader, requeued):
        admin_comment.write(job, 'oom-gpu: rank 3, "n01"\n100% a=b $(x) é', sacctmgr)
    marked = {job.job_id: job.admin_comment for job in sacct.jobs(list(jobs)).values()}
    written = admin_comment.plain('oom-gpu: rank 3, "n01"\n100% a=b $(x) é')
    assert written == "oom-gpu: rank 3; n01 100% a:b $(x) ?"
    assert {raw for raw, comment in marked.items() if comment == written} == {
        task.job_id, leader.job_id, requeued.job_id
    }  # fmt: skip
    assert len(marked) > 3
    with pytest.raises(AccountingError, match="failed"):
        admin_comment.write(replace(requeued, job_id="4000000"), "x", sacctmgr)


# ---- outages ------------------------------------------------------------------------------------------------------


def test_slurmdbd_down_is_an_error_that_says_so_and_passes(played: Played, sources: list[Accounting]) -> None:
    cluster: Cluster = played.cluster
    job_id = played.ids["success"]
    cluster.dbd_down()
    try:
        for source in sources:
            with pytest.raises(AccountingError, match=r"(?i)connection|refused|database|slurmdbd"):
                source.jobs([job_id])
    finally:
        cluster.dbd_up()
    for source in sources:
        assert source.jobs([job_id])[job_id].state == "COMPLETED"


def test_slurmctld_down_leaves_accounting_alone(played: Played) -> None:
    cluster: Cluster = played.cluster
    source = accounting(cluster, controller=True)
    cluster.ctld_down()
    try:
        started = time.monotonic()
        assert source.jobs([played.ids["exit-3"]])[played.ids["exit-3"]].exit_code == 3
        assert time.monotonic() - started < 10.0
    finally:
        cluster.ctld_up()
