"""From event to report: what is made, for whom, once."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.model.job import Job
from slurm_triage.service.lookup import Lookup
from slurm_triage.service.pending import Pending
from slurm_triage.service.spool_event import COMPLETION_KIND
from slurm_triage.settings import Settings
from tests.service.conftest import ended_job
from tests.service.fake_site import FakeSite, TableAccounting


def test_report_ledger_and_empty_spool(site: FakeSite) -> None:
    job = site.add(ended_job(site, "101"))
    site.work()
    assert site.waiting() == []
    (record,) = site.records("101")
    assert (record.status, record.cls, record.user) == ("failed", "python-exception", job.user)
    assert not record.provisional
    report = site.home / "slurm-101.triage.json"
    assert record.report_path == str(report)
    document = json.loads(report.read_bytes())
    assert document["job"]["id"] == "101"
    assert document["primary"]["class"] == "python-exception"
    found = report.stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (site.uid, 0o644)
    assert (site.home / "slurm-101.TRIAGE.md").exists()


def test_many_events_of_one_job_make_one_report(site: FakeSite) -> None:
    site.add(ended_job(site, "102"))
    for kind in ("epilog", "jobcomp", "node", "mail"):
        site.event("102", kind)
    worker = site.work()
    assert worker.counts.reports == 1
    assert site.lines() == 1
    site.event("102", "jobcomp")
    assert site.work().counts.reports == 0
    assert site.waiting() == []


def test_unfinished_record_is_reported_provisionally_and_again_when_final(site: FakeSite) -> None:
    job = site.add(ended_job(site, "103", final=False))
    settings = replace(site.settings, final_wait_s=0.0)
    site.steps(40, settings)
    (record,) = site.records("103")
    assert record.provisional
    assert site.waiting(), "the event must stay until the record is final"
    assert json.loads((site.home / "slurm-103.triage.json").read_bytes())["accounting"]["final"] is False
    site.table["103"] = replace(job, final=True)
    site.publish()
    site.work()
    (record,) = site.records("103")
    assert not record.provisional
    assert site.waiting() == []
    assert json.loads((site.home / "slurm-103.triage.json").read_bytes())["accounting"]["final"] is True


def test_a_running_job_waits(site: FakeSite) -> None:
    site.add(ended_job(site, "104", state="RUNNING", end=None, final=False))
    site.steps(20, replace(site.settings, final_wait_s=0.0))
    assert site.records("104") == []
    assert len(site.waiting()) == 1


def test_anybodys_word_that_a_running_job_has_ended_is_soon_forgotten(site: FakeSite) -> None:
    """When it does end, accounting tells."""
    job = site.add(ended_job(site, "104", state="RUNNING", end=None, final=False), event=False)
    site.event("104", COMPLETION_KIND)
    site.steps(20, replace(site.settings, final_wait_s=0.0))
    assert (site.records("104"), site.waiting()) == ([], [])
    now = time.time()
    site.table["104"] = replace(job, state="FAILED", end=now, final=True)
    site.publish()
    site.work(settings=replace(site.settings, reconcile_s=0.1, reconcile_lag_s=0.0))
    assert len(site.records("104")) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="files of two users take root")
def test_what_the_owner_says_while_the_job_runs_is_kept(site: FakeSite) -> None:
    """TaskEpilog of the first step, in the middle of a job for which no report is wanted."""
    job = site.add(ended_job(site, "107", state="RUNNING", end=None, final=False), event=False)
    said = site.event("107", "task-epilog", SLURM_TRIAGE="off")
    os.chown(said, site.uid, site.uid)
    site.steps(20, replace(site.settings, final_wait_s=0.0))
    assert site.waiting() == [said.name]
    site.table["107"] = replace(job, state="FAILED", end=time.time(), final=True)
    site.publish()
    site.work(settings=replace(site.settings, reconcile_s=0.1, reconcile_lag_s=0.0))
    assert (site.records("107"), site.waiting()) == ([], [])


def test_accounting_down_keeps_events_and_asks_seldom(site: FakeSite) -> None:
    site.add(ended_job(site, "105"))
    site.publish(down=True)
    site.steps(30)
    assert site.records("105") == []
    assert len(site.waiting()) == 1
    assert site.queries <= 3
    site.publish()
    site.work()
    assert len(site.records("105")) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's hooks are believed by root's worker")
def test_accounting_away_for_long_gives_a_report_from_the_hook(site: FakeSite) -> None:
    job = site.add(ended_job(site, "106"), event=False)
    site.event(
        "106", SLURM_JOB_UID=str(site.uid), SLURM_JOB_WORK_DIR=str(site.home), SLURM_JOB_EXIT_CODE2="1:0",
        SLURM_JOB_USER=str(job.user),
    )  # fmt: skip
    site.publish(down=True)
    site.steps(30, replace(site.settings, final_wait_s=0.0))
    document = json.loads((site.home / "slurm-106.triage.json").read_bytes())
    assert document["accounting"] == {"source": "hook", "final": False}
    assert site.records("106") == []
    site.publish()
    site.work()
    assert json.loads((site.home / "slurm-106.triage.json").read_bytes())["accounting"]["final"] is True
    assert len(site.records("106")) == 1


def test_unknown_job_costs_one_look_and_is_dropped(site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurm_triage.service.pending.UNKNOWN_WAIT_S", -1.0)
    site.publish()
    site.event("999999")
    worker = site.work()
    assert worker.counts.dropped == 1
    assert site.queries == 1
    assert site.waiting() == []


def test_requeued_job_has_a_report_of_each_run(site: FakeSite) -> None:
    now = float(int(time.time()))
    first = ended_job(site, "107", state="PREEMPTED", start=now - 300, end=now - 200, submit=now - 400)
    waiting = replace(
        first,
        state="PENDING",
        restarts=1,
        start=None,
        end=None,
        nodes=(),
        final=False,
        submit=now - 200,
        earlier=(first,),
    )
    site.add(waiting, event=False)
    path = site.event("107")
    path.write_text(path.read_text().replace(f"time={int(now)}", f"time={int(now - 200)}"))
    site.work()
    (record,) = site.records("107")
    assert (record.state, record.status, record.restarts) == ("PREEMPTED", "failed", 0) or record.state == "PREEMPTED"
    second = replace(
        waiting, state="COMPLETED", exit_code=0, start=now - 100, end=now - 5, final=True, nodes=("node01",)
    )
    site.add(second, b"done\n")
    site.work()
    assert [r.state for r in site.records("107")] == ["PREEMPTED", "COMPLETED"]
    assert site.waiting() == []


def test_off_switches(site: FakeSite) -> None:
    site.add(ended_job(site, "108", comment="triage=off please"))
    site.add(ended_job(site, "109", partition="quiet"))
    site.add(ended_job(site, "110", submit_line="sbatch --export=ALL,SLURM_TRIAGE=off job.sh"))
    site.add(ended_job(site, "111"), event=False)
    site.event("111", SPANK_SLURM_TRIAGE="off")
    site.add(ended_job(site, "112", comment="we triage=offline"))
    worker = site.work(settings=replace(site.settings, off_partitions=("quiet",)))
    assert worker.counts.off == 4
    assert [r.job_id for r in site.all_records()] == ["112"]
    assert site.waiting() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's worker sees jobs of others")
def test_jobs_of_root_are_left_alone(site: FakeSite) -> None:
    site.add(ended_job(site, "113", uid=0, user="root"))
    assert site.work().counts.off == 1
    assert not (site.home / "slurm-113.triage.json").exists()


def test_launcher_layout_gets_its_directory(site: FakeSite) -> None:
    outputs = site.home / "outputs"
    outputs.mkdir()
    os.chown(outputs, site.uid, site.uid)
    log = outputs / "114-JAX-llama2-70b-x.log"
    job = ended_job(site, "114", name="JAX-llama2-70b-x", stdout=str(log))
    site.add(job, None)
    log.write_bytes(b"JOB_ID=114\nValueError: boom\n")
    os.chown(log, site.uid, site.uid)
    site.work()
    assert (outputs / "114-JAX-llama2-70b-x" / "triage.json").exists()
    assert site.records("114")[0].job_dir == str(outputs / "114-JAX-llama2-70b-x")


def test_prolog_kill_without_any_log(site: FakeSite) -> None:
    outputs = site.home / "outputs"
    outputs.mkdir()
    os.chown(outputs, site.uid, site.uid)
    name = "JAX-llama2-70b-" + "y" * 100
    job = ended_job(
        site, "115", name=name, exit_code=0, exit_signal=53, elapsed_s=0.0, stdout=str(outputs / f"115-{name}.log")
    )
    site.add(job, None)
    site.work()
    (record,) = site.records("115")
    assert record.cls == "prolog-kill-no-log"
    assert (outputs / f"115-{name}" / "TRIAGE.md").exists()


def test_cancelled_while_pending_leaves_a_record_and_no_litter(site: FakeSite) -> None:
    job = ended_job(site, "116", state="CANCELLED", exit_code=0, start=None, nodes=(), node_count=None, elapsed_s=None)
    site.add(job, None)
    before = sorted(site.home.iterdir())
    site.work()
    (record,) = site.records("116")
    assert record.status == "cancelled"
    assert sorted(site.home.iterdir()) == before


def test_directory_pattern(site: FakeSite) -> None:
    site.add(ended_job(site, "117"))
    site.work(settings=replace(site.settings, report_dir="%WORKDIR/reports/%J"))
    assert (site.home / "reports/117/triage.json").exists()


def test_private_log_makes_a_private_report(site: FakeSite) -> None:
    site.add(ended_job(site, "118"), event=False)
    (site.home / "slurm-118.out").chmod(0o600)
    site.event("118")
    site.work()
    assert stat.S_IMODE((site.home / "slurm-118.triage.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((site.home / "slurm-118.TRIAGE.md").stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="kernel messages are believed from root's files only")
def test_kernel_messages_of_a_node_reach_the_report(site: FakeSite) -> None:
    job = site.add(ended_job(site, "119", state="FAILED", exit_code=137), b"step 1\n")
    site.work()
    uptime, boot = 1000.0, int(time.time()) - 1000
    stamp = (job.end or 0.0) - boot - 2
    path = site.event("119", "node")
    line = f"[{stamp:12.6f}] oom-kill:constraint=CONSTRAINT_MEMCG,task=python3,pid=77"
    old = "[    1.000000] Out of memory: Killed process 5 (other)"
    text = path.read_text().replace("end=1\n", f"uptime={uptime}\nkernel={line}\nkernel={old}\nend=1\n")
    path.write_text(text)
    worker = site.work()
    assert worker.counts.reports == 1, "a report that now knows more"
    snapshot = next(site.home.glob("slurm-119.triage/node-*.txt"))
    assert "oom-kill" in snapshot.read_text()
    assert "other" not in snapshot.read_text(), "that was before the job"
    assert site.records("119")[0].cls == "oom-host"


def test_reconciler_finds_what_no_hook_reported(site: FakeSite) -> None:
    now = time.time()
    site.add(ended_job(site, "120", end=now - 400, start=now - 500), event=False)
    site.add(ended_job(site, "121", end=now - 400, start=now - 500), event=False)
    site.settings.state.mkdir()
    (site.settings.state / "reconciled").write_text(f"{int(now - 600)}\n")
    settings = replace(site.settings, reconcile_s=600.0)
    worker = site.work(settings=settings)
    assert worker.counts.reports == 2
    mark = float((site.settings.state / "reconciled").read_text())
    assert now - 200 <= mark <= now
    assert site.work(settings=settings).counts.reports == 0


def test_first_start_does_not_look_back(site: FakeSite) -> None:
    now = time.time()
    site.add(ended_job(site, "122", end=now - 4000, start=now - 5000), event=False)
    assert site.work(settings=replace(site.settings, reconcile_s=600.0)).counts.reports == 0


def test_ten_thousand_jobs_cost_few_queries(site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 10_000
    done = ended_job(site, "1", partition="quiet")
    for number in range(count):
        site.table[str(5000 + number)] = replace(done, job_id=str(5000 + number))
    site.publish()
    for number in range(count):
        site.event(str(5000 + number))
    # Time for the questions to wait for each other is not spent here.
    monkeypatch.setattr("slurm_triage.service.lookup.LONGEST_WINDOW_S", 0.0)
    worker = site.work(timeout_s=60.0, settings=replace(site.settings, off_partitions=("quiet",)))
    assert worker.counts.off == count
    assert site.queries <= 25
    assert site.waiting() == []


def test_jobs_that_end_one_after_another_share_questions() -> None:
    """40 jobs/s for 250 s; then a single one, which does not wait."""
    now = [1000.0]
    asked: list[int] = []

    class Counting(TableAccounting):
        def jobs(self, ids: Sequence[str], *, since: float | None = None, until: float | None = None) -> dict[str, Job]:
            del since, until
            asked.append(len(ids))
            return {}

    lookup = Lookup(Counting(Path("/none")), lambda: now[0], lambda: now[0])
    waiting: list[Pending] = []
    while now[0] < 1250.0:
        waiting += [Pending(str(len(waiting)), now[0], now[0] + 2.0) for _ in range(4)]
        due = lookup.due(waiting)
        if due:
            lookup.ask(due)
            waiting = [pending for pending in waiting if pending not in due]
        now[0] += 0.1
    assert len(asked) <= 25
    assert sum(asked) >= 9000
    now[0] += 60.0
    lookup.ask(lookup.due(waiting))
    late = Pending("late", now[0] + 30.0, now[0] + 30.0)
    now[0] += 30.6
    assert lookup.due([late]) == [late]


def test_settings_reach_the_worker(site: FakeSite) -> None:
    assert isinstance(site.settings, Settings)
    site.add(ended_job(site, "130"))
    assert site.work(settings=replace(site.settings, off_users=(site.table["130"].user or "",))).counts.off == 1
