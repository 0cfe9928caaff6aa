"""A line of Slurm's log of ended jobs is anybody's word: what the worker makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.errors import AccountingError
from slurm_triage.model.job import Job
from slurm_triage.service import build, worker
from tests.service.conftest import ended_job
from tests.service.fake_site import FakeSite
from tests.service.test_completion_log import LINE


def test_what_is_said_of_roots_running_job_is_hearsay_too(site: FakeSite) -> None:
    """The event's file is root's, but the word anybody's: nobody asks about that job for two days."""
    site.add(ended_job(site, "901", uid=0, user="root", state="RUNNING", end=None, final=False), event=False)
    site.event("901", kind="completion")
    site.work()
    assert site.waiting() == []
    assert site.records("901") == []


def test_a_job_of_long_ago_is_not_reported_again_because_somebody_names_it(site: FakeSite) -> None:
    """Nobody remembers its report any more, or it was to have none. Accounting was asked for all ends since."""
    old = ended_job(site, "902")
    assert old.end is not None
    site.add(replace(old, submit=old.end - 9e5, start=old.end - 9e5 + 10, end=old.end - 8e5), event=False)
    site.add(ended_job(site, "903"), event=False)
    for job_id in ("902", "903"):
        site.event(job_id, kind="completion")
    site.work(settings=replace(site.settings, reconcile_s=600.0))
    assert [len(site.records(job_id)) for job_id in ("902", "903")] == [0, 1]
    assert site.waiting() == []


def test_a_late_line_about_a_job_that_accounting_has_named_as_well(site: FakeSite) -> None:
    """After a week without a worker both come at once, and the job must not fall between them."""
    old = ended_job(site, "904")
    assert old.end is not None
    site.add(replace(old, submit=old.end - 9e5, start=old.end - 9e5 + 10, end=old.end - 8e5), event=False)
    site.settings.state.mkdir()
    (site.settings.state / "reconciled").write_text(f"{old.end - 8.1e5:.0f}\n")
    site.event("904", kind="completion")
    site.work(settings=replace(site.settings, reconcile_s=0.2, settle_s=0.3))
    assert len(site.records("904")) == 1


def test_a_log_waits_where_the_spool_is_full_enough(
    site: FakeSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "jobs.log"
    log.touch()
    settings = replace(site.settings, completion_log=str(log))
    monkeypatch.setattr(worker, "MAX_WAITING", 3)
    # Accounting knows none of these yet.
    site.publish()
    for job_id in ("905", "906", "907"):
        site.event(job_id)
    with build.worker(settings, site.accounting, site.engine) as at_work:
        at_work.poll_s = 0.0
        at_work.step()
        with open(log, "a") as file:
            file.writelines(LINE.format(number, "train") for number in range(910, 920))
        for _ in range(5):
            at_work.step()
        assert len(site.waiting()) == 3
        monkeypatch.setattr(worker, "MAX_WAITING", 4)
        at_work.step()
        assert len(site.waiting()) == 3 + 1, "one file with all ten"
        assert at_work.spool.waiting == 13
        at_work.drain()


@pytest.mark.parametrize("switched", [{"off_accounts": ("test",)}, {"off_partitions": ("debug",)}])
def test_a_running_job_that_is_to_have_no_report_is_not_asked_about_for_days(
    site: FakeSite, switched: dict[str, tuple[str, ...]]
) -> None:
    site.add(ended_job(site, "921", state="RUNNING", end=None, final=False), event=False)
    path = site.event("921", kind="completion")
    site.work(settings=replace(site.settings, **switched))  # type: ignore[arg-type]
    assert not path.exists()


def test_a_number_that_no_job_has_does_not_spoil_the_question_for_others(
    site: FakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sacct of 26.05: "Bad job/step specified: 4294967295: JobID larger than acceptable range", and no answer at all."""
    asked: list[str] = []
    real = site.accounting.jobs

    def jobs(ids: Sequence[str], *, since: float | None = None, until: float | None = None) -> dict[str, Job]:
        asked.extend(ids)
        if not ids or any(int(job_id) >= 0xFFFFFFF0 for job_id in ids):
            raise AccountingError("sacct failed: fatal: Bad job/step specified")
        return real(ids, since=since, until=until)

    monkeypatch.setattr(site.accounting, "jobs", jobs)
    for number in ("4294967280", "4294967295", "9999999999"):
        site.event(number)
    site.publish()
    site.steps(5)
    assert asked == []
    site.add(ended_job(site, "930"))
    site.steps(100)
    assert set(asked) == {"930"}
    assert len(site.records("930")) == 1


def test_a_mark_of_the_reconcilers_that_is_none(site: FakeSite) -> None:
    """After a crash of the disk: the worker ended with UnicodeDecodeError."""
    site.settings.state.mkdir()
    (site.settings.state / "reconciled").write_bytes(b"\xff\xfe\n")
    site.add(ended_job(site, "931"))
    site.work()
    assert len(site.records("931")) == 1
