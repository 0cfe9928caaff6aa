"""What a job's owner, or anybody who can write into the spool, may try."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.service import outcome
from slurm_triage.service.outcome import BadOutcomeError
from slurm_triage.service.privilege import PrivilegeError, drop
from tests.service.conftest import ended_job
from tests.service.fake_site import FAILED_LOG, FakeSite

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to lose")


@pytest.fixture
def job_dir(site: FakeSite) -> Path:
    """The directory of job 801 in launcher layout, the owner's, with its log beside it."""
    outputs = site.home / "outputs"
    directory = outputs / "801-JAX-llama2-70b-x"
    directory.mkdir(parents=True)
    log = outputs / "801-JAX-llama2-70b-x.log"
    log.write_bytes(b"JOB_ID=801\n" + FAILED_LOG)
    for path in (outputs, directory, log):
        os.chown(path, site.uid, site.uid)
    site.add(ended_job(site, "801", name="JAX-llama2-70b-x", stdout=str(log)), None)
    return directory


@pytest.fixture
def treasure(place: Path) -> Path:
    """Root's own file, which must not change."""
    path = place / "treasure"
    path.write_text("root's")
    path.chmod(0o600)
    return path


@root_only
def test_links_in_the_way_are_not_followed(site: FakeSite, job_dir: Path, treasure: Path) -> None:
    def lay() -> None:
        (job_dir / "triage.json").symlink_to(treasure)
        (job_dir / "TRIAGE.md").symlink_to(treasure)

    site.as_owner(lay)
    site.work()
    assert treasure.read_text() == "root's"
    assert site.records("801")[0].cls == "python-exception", "the verdict is recorded all the same"
    assert site.records("801")[0].report_path is None


@root_only
def test_directory_that_is_a_link(site: FakeSite, job_dir: Path, place: Path) -> None:
    elsewhere = place / "elsewhere"
    elsewhere.mkdir(mode=0o755)

    def lay() -> None:
        job_dir.rmdir()
        job_dir.symlink_to(elsewhere)

    site.as_owner(lay)
    site.work()
    assert list(elsewhere.iterdir()) == [], "the owner may not write there, so neither do we"
    assert len(site.records("801")) == 1


@root_only
def test_log_that_is_a_link_to_a_secret(site: FakeSite, treasure: Path) -> None:
    treasure.write_text("Traceback (most recent call last):\nValueError: secret-of-root\n")
    log = site.home / "slurm-802.out"
    site.as_owner(lambda: log.symlink_to(treasure))
    site.add(ended_job(site, "802", stdout=str(log)), None)
    site.work()
    reports = [path.read_text() for path in site.home.rglob("triage.json")]
    assert all("secret-of-root" not in text for text in reports)
    assert len(site.records("802")) == 1


def test_hard_link_to_another_file(site: FakeSite, job_dir: Path) -> None:
    kept = site.home / "kept"

    def lay() -> None:
        kept.write_text("precious")
        os.link(kept, job_dir / "triage.json")

    site.as_owner(lay)
    site.work()
    assert kept.read_text() == "precious"
    assert json.loads((job_dir / "triage.json").read_bytes())["job"]["id"] == "801"


@pytest.mark.parametrize("name", ["triage.json", "TRIAGE.md"])
def test_directory_instead_of_the_report(site: FakeSite, job_dir: Path, name: str) -> None:
    site.as_owner((job_dir / name).mkdir)
    site.work()
    assert site.records("801")[0].report_path is None
    assert site.waiting() == []


def test_pipes_and_sockets_do_not_block(site: FakeSite, job_dir: Path) -> None:
    def lay() -> None:
        for name in ("triage.json", "rank-1.log", "kernel-dmesg.txt", "x.log"):
            os.mkfifo(job_dir / name)
        os.chdir(job_dir)
        socket.socket(socket.AF_UNIX).bind("TRIAGE.md")

    site.as_owner(lay)
    began = time.monotonic()
    site.work()
    assert time.monotonic() - began < 15.0
    assert len(site.records("801")) == 1


def test_log_that_is_a_pipe(site: FakeSite) -> None:
    log = site.home / "slurm-803.out"
    site.as_owner(lambda: os.mkfifo(log))
    site.add(ended_job(site, "803", stdout=str(log)), None)
    site.work()
    assert len(site.records("803")) == 1


def test_huge_directory(site: FakeSite, job_dir: Path) -> None:
    def lay() -> None:
        for number in range(20_000):
            os.mknod(job_dir / f"file-{number}")

    site.as_owner(lay)
    site.work(timeout_s=60.0)
    assert (job_dir / "triage.json").exists()


def test_directory_that_vanishes_and_comes_back(site: FakeSite, job_dir: Path) -> None:
    """The owner removes and makes the directory as fast as he can while we write into it."""
    stop = threading.Event()

    def flicker() -> None:
        while not stop.is_set():
            for name in ("triage.json", "TRIAGE.md"):
                (job_dir / name).unlink(missing_ok=True)
            try:
                job_dir.rmdir()
            except OSError:
                continue
            job_dir.mkdir(exist_ok=True)
            os.chown(job_dir, site.uid, site.uid)

    thread = threading.Thread(target=flicker)
    thread.start()
    try:
        site.work()
    finally:
        stop.set()
        thread.join()
    assert len(site.records("801")) == 1
    assert site.waiting() == []


def test_directory_that_may_not_be_written(site: FakeSite, job_dir: Path) -> None:
    job_dir.chmod(0o555)
    site.work()
    assert site.records("801")[0].report_path is None
    assert site.waiting() == []
    job_dir.chmod(0o755)


@root_only
def test_directory_of_somebody_else(site: FakeSite, job_dir: Path) -> None:
    os.chown(job_dir, 0, 0)
    site.work()
    assert list(job_dir.iterdir()) == []
    assert site.records("801")[0].report_path is None


def test_terminal_escapes_and_markup_in_names_and_logs(site: FakeSite) -> None:
    name = 'x"; $(touch /tmp/pwned)\n# Big\x1b[2J<script>'
    log = b"\x1b]0;title\x07<img src=x onerror=alert(1)>\n" + FAILED_LOG.replace(b"boom", b"\x1b[31mboom `<b>`")
    site.add(ended_job(site, "804", name=name), log)
    site.work()
    for report in ("slurm-804.triage.json", "slurm-804.TRIAGE.md"):
        data = (site.home / report).read_bytes()
        assert b"\x1b" not in data
        assert b"\x07" not in data
    assert "\n" not in (site.records("804")[0].name or "")


def test_garbage_in_the_spool(site: FakeSite, treasure: Path) -> None:
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

    def who(task: object, engine: object) -> bytes:
        del task, engine
        lines = [f"{os.getresuid()} {os.getresgid()} {os.getgroups()}"]
        status = Path("/proc/self/status").read_text()
        lines += [line for line in status.splitlines() if line.startswith(("NoNewPrivs", "CapEff", "CapPrm"))]
        descriptors = [path for path in Path("/proc/self/fd").iterdir() if path.exists()]
        lines.append(str([path.readlink() for path in descriptors]))
        report.write_text("\n".join(lines))
        return b"{}"

    monkeypatch.setattr("slurm_triage.service.build.report_on", who)
    monkeypatch.setattr("slurm_triage.service.worker.TRIES", 1)
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


def test_one_users_flood_does_not_keep_others_waiting(site: FakeSite) -> None:
    from slurm_triage.service.rates import FairQueue

    queue: FairQueue[str] = FairQueue(per_minute=60.0)
    for number in range(1000):
        queue.put("flood", f"flood-{number}")
    queue.put("other", "other-0")
    assert "other-0" in [queue.take(0.0) for _ in range(3)]
    taken = 0
    while queue.take(1.0) is not None:
        taken += 1
    assert 50 <= taken <= 70, "a burst of a minute's worth, then the rate"
    assert queue.take(2.1) is not None
    assert stat.S_ISDIR(site.home.stat().st_mode)


def test_removed_event_is_no_problem(site: FakeSite) -> None:
    site.add(ended_job(site, "809"), event=False)
    settings = replace(site.settings, settle_s=0.3)
    path = site.event("809")
    threading.Timer(0.2, path.unlink).start()
    site.work(settings=settings)
    assert len(site.records("809")) == 1
