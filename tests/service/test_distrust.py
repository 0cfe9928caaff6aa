"""What anybody who can write into the spool may try, and what a child of the worker may try."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.service import outcome, spool
from slurm_triage.service.outcome import BadOutcomeError
from slurm_triage.service.privilege import PrivilegeError, drop
from slurm_triage.service.rates import FairQueue
from tests.service.conftest import ended_job
from tests.service.fake_site import FakeSite

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to lose")


def test_garbage_in_the_spool(site: FakeSite, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    treasure = place / "treasure"
    treasure.write_text("root's")
    new = site.settings.spool / "new"
    (new / "empty").touch()
    (new / "binary").write_bytes(os.urandom(5000))
    (new / "huge").write_bytes(b"slurm-triage-event=1\n" + b"A=1\n" * 200_000)
    (new / "half").write_text("slurm-triage-event=1\nkind=epilog\nhost=n\ntime=1\nSLURM_JOB_ID=7\n")
    (new / "link").symlink_to(treasure)
    os.mkfifo(new / "fifo")
    (new / "directory").mkdir()
    (new / ("n" * 250)).write_text("kind=epilog\nend=1\n")
    site.add(ended_job(site, "805"))
    site.work()
    assert len(site.records("805")) == 1
    assert [name for name in site.waiting() if name != "directory"] == ["empty", "half"], "they may become whole"
    monkeypatch.setattr(spool, "PATIENCE_S", 0.0)
    site.work()
    assert [name for name in site.waiting() if name != "directory"] == []
    assert treasure.read_text() == "root's"


def test_flood_of_garbage_does_not_fill_the_disk(site: FakeSite) -> None:
    for number in range(500):
        (site.settings.spool / "new" / f"junk-{number}").write_bytes(b"x" * 1000)
    site.publish()
    site.work()
    assert len(list((site.settings.spool / "bad").iterdir())) <= 100
    assert site.waiting() == []


@root_only
def test_forged_event_changes_nothing_but_a_look(site: FakeSite) -> None:
    """A user writes an event about another's job, with other paths, exit code and kernel messages."""
    site.add(ended_job(site, "806", state="COMPLETED", exit_code=0), b"all is well\n", event=False)
    path = site.event(
        "806",
        SLURM_JOB_STDOUT="/etc/shadow",
        SLURM_JOB_WORK_DIR="/root",
        SLURM_JOB_UID="0",
        SLURM_JOB_EXIT_CODE2="200:0",
    )
    text = path.read_text().replace(
        "end=1\n", "kernel=NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\nend=1\n"
    )
    path.write_text(text)
    os.chown(path, 12345, 12345)
    site.work()
    (record,) = site.records("806")
    assert (record.status, record.cls, record.node_evidence) == ("completed", None, ())
    document = json.loads((site.home / "slurm-806.triage.json").read_bytes())
    assert document["job"]["exit_code"] == 0
    assert document["job"]["work_dir"] == str(site.home)


@root_only
def test_child_is_the_owner_and_stays_so(site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    report = site.home / "who"

    def who(task: object, *rest: object) -> bytes:
        del task, rest
        lines = [f"{os.getresuid()} {os.getresgid()} {os.getgroups()}"]
        status = Path("/proc/self/status").read_text()
        lines += [line for line in status.splitlines() if line.startswith(("NoNewPrivs", "CapEff", "CapPrm"))]
        descriptors = [path for path in Path("/proc/self/fd").iterdir() if path.exists()]
        lines.append(str([path.readlink() for path in descriptors]))
        report.write_text("\n".join(lines))
        return b"{}"

    monkeypatch.setattr("slurm_triage.service.build.report_on", who)
    monkeypatch.setattr("slurm_triage.service.making.TRIES", 1)
    site.add(ended_job(site, "807"))
    site.work()
    text = report.read_text()
    assert f"({site.uid}, {site.uid}, {site.uid})" in text
    assert "NoNewPrivs:\t1" in text
    assert "CapEff:\t0000000000000000" in text
    assert "CapPrm:\t0000000000000000" in text
    assert "ledger" not in text, "no file of the worker is open in the child"


@root_only
def test_becoming_root_or_nobody_at_all_is_refused() -> None:
    for uid in (0, 2_000_000_001):
        with pytest.raises(PrivilegeError):
            drop(uid, os.getppid())
    assert os.geteuid() == 0


def test_answers_of_children_are_checked(site: FakeSite) -> None:
    job = ended_job(site, "808")
    lie = {
        "record": {
            "job_id": "1", "user": "root", "state": "COMPLETED", "cluster": "other", "status": "splendid",
            "class": "<b>x</b>", "rule": 7, "gpu_hours": 1e300, "last_step": "many", "nodes": "node[01-99]",
            "node_evidence": [["node99", "fault"], ["node01", "fault"], ["node01"], 5],
            "report_path": "relative", "versions": {"A": "1\x1b", "bad name": "x"}, "revision": 1,
        },
        "headline": "a\nb" * 1000, "problem": 5,
    }  # fmt: skip
    result = outcome.decode(json.dumps(lie).encode(), job, now=1000.0)
    record = result.record
    assert (record.job_id, record.user, record.state, record.cluster) == ("808", job.user, "FAILED", "fake")
    assert (record.status, record.cls, record.rule, record.gpu_hours, record.last_step) == (
        "unknown",
        None,
        None,
        None,
        None,
    )
    assert record.nodes == "node01"
    assert record.node_evidence == (("node01", "fault"),)
    assert (record.report_path, dict(record.versions), record.revision) == (None, {"A": "1?"}, 1_000_000)
    assert "\n" not in result.headline
    assert len(result.headline) <= 300
    for data in (b"", b"[]", b"{", b'{"record": 5}', b"x" * (outcome.MAX_BYTES + 1)):
        with pytest.raises(BadOutcomeError):
            outcome.decode(data, job, now=0.0)


def test_one_users_flood_does_not_keep_others_waiting() -> None:
    queue: FairQueue[str] = FairQueue(per_minute=60.0)
    for number in range(1000):
        queue.put("flood", f"flood-{number}")
    queue.put("other", "other-0")
    assert "other-0" in [*queue.take(0.0), *queue.take(0.0)]
    taken = 0
    while queue.take(1.0):
        taken += 1
    assert 50 <= taken <= 70, "a burst of a minute's worth, then the rate"
    assert queue.take(2.1)


def test_removed_event_is_no_problem(site: FakeSite) -> None:
    site.add(ended_job(site, "809"), event=False)
    settings = replace(site.settings, settle_s=0.3)
    path = site.event("809")
    threading.Timer(0.2, path.unlink).start()
    site.work(settings=settings)
    assert len(site.records("809")) == 1
