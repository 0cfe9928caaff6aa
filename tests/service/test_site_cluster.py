"""slurm-triage installed by install.sh on a real cluster: jobs end in many ways, and each has its report."""

from __future__ import annotations

import json
import re
import stat
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.layout import USERS
from tests.service.launcher_jobs import BODIES, JOBS, STEPS, script
from tests.service.site import QUICK, Site, installed

ALICE, BOB = USERS

#: Jobs of the other tests on this cluster go on while ours do.
WAIT_S = 120.0


@pytest.fixture(scope="module")
def site(host_cluster: Cluster) -> Iterator[Site]:
    with installed(host_cluster, "site", **QUICK) as site:
        yield site


@pytest.fixture(scope="module")
def ended(site: Site) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Job id and ledger record by kind of job; all submitted together."""
    cluster = site.cluster
    directory = site.outputs(ALICE, f"jobs-{time.time_ns()}")
    ids = {name: site.submit(job, ALICE, directory) for name, job in JOBS.items()}
    plain = cluster.workdir(BOB, f"plain-{time.time_ns()}")
    ids["plain"] = cluster.submit(BOB, 'echo one; python3 -c "raise KeyError(5)"', cwd=plain)
    ids["pending"] = cluster.submit(ALICE, "true", "--hold", cwd=plain.parent)
    ids["exit-137"] = cluster.submit(BOB, "exit 137", cwd=plain)
    ids["off"] = cluster.submit(BOB, "exit 1", "--comment=triage=off", cwd=plain)
    ids["hostile"] = cluster.submit(BOB, "exit 1", "-J", 'a|b;$(touch /tmp/x) "c"\nd é%j', cwd=plain)
    ids["array"] = cluster.submit(BOB, "exit $SLURM_ARRAY_TASK_ID", "-a", "0-2", cwd=plain)
    cluster.scancel(ids["pending"])
    for name, job in JOBS.items():
        if job.cancel:
            cluster.wait_state(ids[name], "RUNNING")
            time.sleep(3.0)
            cluster.scancel(ids[name])
    awaited = [job_id for name, job_id in ids.items() if name not in ("off", "array")]
    site.wait_for_reports(*awaited, timeout_s=WAIT_S)
    return {name: (job_id, (site.records(job_id)[job_id] or [{}])[-1]) for name, job_id in ids.items()}


@pytest.mark.parametrize("name", JOBS)
def test_launcher_jobs(site: Site, ended: Mapping[str, tuple[str, Mapping[str, Any]]], name: str) -> None:
    job_id, record = ended[name]
    assert record["status"] in JOBS[name].statuses
    assert record.get("class") in JOBS[name].classes
    report = Path(record["report_path"])
    document = json.loads(report.read_bytes())
    assert document["job"]["id"] == job_id
    assert document["accounting"]["final"] is True
    for path in (report, report.with_name("TRIAGE.md")):
        found = path.stat()
        assert found.st_uid == site.cluster.uid(ALICE)
        assert stat.S_IMODE(found.st_mode) == 0o644


def test_job_without_directory_has_its_report_beside_the_log(
    ended: Mapping[str, tuple[str, Mapping[str, Any]]],
) -> None:
    job_id, record = ended["plain"]
    assert record["class"] == "python-exception"
    assert Path(record["report_path"]).name == f"slurm-{job_id}.triage.json"


def test_cancelled_while_pending_is_seen(ended: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
    assert ended["pending"][1]["status"] == "cancelled"


def test_true_exit_code_comes_from_the_hook(ended: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
    document = json.loads(Path(ended["exit-137"][1]["report_path"]).read_bytes())
    assert document["job"]["exit_code"] == 137


def test_switched_off_job_has_nothing(ended: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
    assert ended["off"][1] == {}


def test_array_tasks_have_a_report_each(site: Site, ended: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
    tasks = [f"{ended['array'][0]}_{n}" for n in range(3)]
    found = site.wait_for_reports(*tasks, timeout_s=WAIT_S)
    assert {found[task]["status"] for task in tasks} == {"completed", "failed"}
    assert len({found[task]["report_path"] for task in tasks}) == 3


def test_admin_comment_shows_the_class(site: Site, ended: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
    job_id = ended["exception"][0]

    def comment() -> str:
        return site.cluster.sacct("-nPX", "-j", job_id, "-o", "admincomment").strip()

    site.cluster.wait_for("AdminComment", lambda: bool(comment()), 30.0)
    assert comment().startswith("python-exception:")


def test_nothing_was_drained_and_the_spool_is_empty(
    site: Site, ended: Mapping[str, tuple[str, Mapping[str, Any]]]
) -> None:
    del ended
    assert site.cluster.drained() == {}
    new = site.prefix / "spool/new"
    site.cluster.wait_for("empty spool", lambda: not list(new.iterdir()), 30.0)


def test_owner_sees_it_with_one_command(site: Site, ended: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
    shown = site.command("show", ended["exception"][0], user=ALICE).stdout
    assert "python-exception" in shown
    assert "shard 7 is empty" in shown
    listed = site.command("list", "-P", "-n", "-o", "jobid,class", user=ALICE).stdout.splitlines()
    assert f"{ended['exception'][0]}|python-exception" in listed


def test_job_without_report_is_triaged_now(site: Site, ended: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
    shown = site.command("show", ended["off"][0], "--json", user=BOB).stdout
    assert json.loads(shown)["job"]["id"] == ended["off"][0]


def test_requeued_job_has_two_records(site: Site) -> None:
    cluster = site.cluster
    directory = site.outputs(ALICE, f"requeue-{time.time_ns()}")
    text = script("success").replace("\nNAME=", "\n[ ${SLURM_RESTART_COUNT:-0} -gt 0 ] || sleep 300\nNAME=", 1)
    job_id = cluster.submit(
        ALICE, text, "-N2", "-n2", "-J", "JAX-llama2-70b-again", "-o", "outputs/%j-%x.log", "--requeue", cwd=directory
    )
    cluster.wait_state(job_id, "RUNNING")
    time.sleep(1.0)
    cluster.scontrol("requeue", job_id)
    cluster.wait_state(job_id, "PENDING")
    # slurmd refuses the credential of a run that begins in the second in which the last one ended.
    time.sleep(2.0)
    cluster.scontrol("update", f"jobid={job_id}", "StartTime=now")
    cluster.wait(job_id)

    def states() -> list[object]:
        return [record["state"] for record in site.records(job_id)[job_id]]

    cluster.wait_for("two records", lambda: states() == ["REQUEUED", "COMPLETED"], WAIT_S)


#: Steps on until the step that somebody has written into "last", however long anything else on this machine takes.
STEPS_ON = r"""s=0
until [ -s last ] && [ "$(cat last)" -lt $s ]; do
    printf '%s' "$(date -u '+I%m%d %H:%M:%S.000000 140 max_logging.py:49] ')"
    step $s
    sleep 0.4
    s=$((s + 1))
done
sleep 600 & wait $!"""


def test_watching_a_running_job(site: Site) -> None:
    cluster = site.cluster
    directory = site.outputs(ALICE, f"watch-{time.time_ns()}")
    here = cluster.path(directory)
    text = script("hang").replace(BODIES["hang"], STEPS_ON).replace(f"steps={STEPS}", "steps=1000")
    text = text.replace(f"param steps: {STEPS}", "param steps: 1000")
    job_id = site.submit(replace(JOBS["hang"], script=text), ALICE, directory)
    log = here / f"outputs/{job_id}-{JOBS['hang'].job_name}.log"

    def steps() -> int:
        """Finished by both ranks."""
        return log.read_text().count("completed step: ") // 2 if log.exists() else 0

    cluster.wait_for("step 6", lambda: steps() > 6, 60.0)
    cluster.wait_for("RUNNING in accounting", lambda: "RUNNING" in cluster.sacct("-nX", "-j", job_id), 60.0)
    assert re.search(rf"^{job_id} running: step \d+/999", site.command("watch", job_id, user=ALICE).stdout)
    said = here / "said"
    said.touch()
    uid = cluster.uid(ALICE)
    watch = [
        "setpriv",
        f"--reuid={uid}",
        f"--regid={uid}",
        "--clear-groups",
        site.python,
        "-m",
        "slurm_triage",
        "watch",
        job_id,
    ]
    argv = [
        "sh",
        "-c",
        'exec "$@" >"$0"',
        str(said),
        *watch,
        "--limit",
        "4",
        "--follow",
        "--interval",
        "0.5",
        "--exit-code",
    ]
    env = {**site.env, "HOME": str(cluster.home(ALICE))}
    with ThreadPoolExecutor(1) as pool:
        followed = pool.submit(cluster.run, argv, env=env, check=False, timeout_s=120.0)
        try:
            cluster.wait_for("running", lambda: f"{job_id} running: step" in said.read_text(), 60.0)
            last = steps() + 5
            (here / "last.new").write_text(str(last))
            (here / "last.new").rename(here / "last")
            hangs = f"{job_id} hanging: step {last}/999"
            cluster.wait_for(hangs, lambda: hangs in said.read_text(), 60.0)
            assert f"all 2 ranks stopped after step {last}" in said.read_text()
        finally:
            cluster.scancel(job_id)
        assert followed.result().returncode == 1
    assert f"{job_id} has ended (CANCELLED)" in said.read_text().partition(hangs)[2]


def test_lost_node(site: Site) -> None:
    cluster = site.cluster
    directory = cluster.workdir(ALICE, f"lost-{time.time_ns()}")
    job_id = cluster.submit(ALICE, "echo here; sleep 300", "--no-requeue", "-w", "node04", cwd=directory)
    cluster.wait_state(job_id, "RUNNING")
    cluster.crash("node04")
    try:
        record = site.wait_for_reports(job_id, timeout_s=WAIT_S)[job_id]
    finally:
        cluster.restore("node04")
        cluster.wait_for("all nodes idle", cluster.all_idle, 60.0)
    assert (record["state"], record["class"]) == ("NODE_FAIL", "node-fail")


def test_jobs_that_no_hook_reported(site: Site) -> None:
    cluster = site.cluster
    directory = cluster.workdir(BOB, f"missed-{time.time_ns()}")
    spool = site.prefix / "spool/new"
    spool.rename(spool.with_name("gone"))
    try:
        job_id = cluster.submit(BOB, "exit 9", cwd=directory)
        cluster.wait(job_id)
        assert cluster.drained() == {}
    finally:
        spool.with_name("gone").rename(spool)
    assert site.wait_for_reports(job_id, timeout_s=60.0)[job_id]["state"] == "FAILED"


def test_installing_again_changes_nothing(site: Site) -> None:
    conf = site.cluster.path(site.cluster.layout.slurm_conf)
    before = {
        path: path.read_bytes() for path in (conf, site.prefix / "etc/config.toml", site.prefix / "libexec/jobcomp")
    }
    output = site.install("--edit-slurm-conf").stdout
    assert {path: path.read_bytes() for path in before} == before
    assert "Slurm needs nothing" in output
    assert "\nfile " not in output


def test_dry_run_changes_nothing(site: Site, tmp_path: Path) -> None:
    other = Site(site.cluster, tmp_path / "dry")
    output = other.install("--dry-run").stdout
    assert "dry run: nothing was changed" in output
    assert list((tmp_path / "dry").iterdir()) == []


def test_failed_installation_leaves_no_trace(site: Site, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text('#!/bin/sh\ncase "$*" in *log*) exit 1;; esac\nexit 0\n')
    broken.chmod(0o755)
    other = Site(site.cluster, tmp_path / "broken", str(broken))
    result = other.install(check=False)
    assert result.returncode != 0
    assert "undoing" in result.stderr
    assert list((tmp_path / "broken").rglob("*")) == []


def test_doctor_is_content(site: Site) -> None:
    result = site.command("doctor", check=False)
    assert result.returncode == 0, result.stdout
    assert "sacct is used" in result.stdout
    assert "slurmctld calls us" in result.stdout
    assert "one is at work" in result.stdout
