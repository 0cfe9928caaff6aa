"""What a job's owner may try: what lies in the report's way, and what his logs and names hold."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.cli.main import main
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


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "/dev/null", "/dev/tty", "/proc/kmsg", "/proc/self/mem"])
def test_log_that_is_a_device(site: FakeSite, device: str) -> None:
    log = site.home / "slurm-811.out"
    site.as_owner(lambda: log.symlink_to(device))
    site.add(ended_job(site, "810", stdout=device), None)
    site.add(ended_job(site, "811", stdout=str(log)), None)
    site.work()
    assert sorted(record.job_id for record in site.all_records()) == ["810", "811"]


@root_only
def test_devices_among_the_files(site: FakeSite, job_dir: Path) -> None:
    """A container whose root is root here may leave such; the one in the report's place is not written to."""
    for name in ("triage.json", "rank-1.log", "x.log"):
        os.mknod(job_dir / name, 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    site.work()
    (record,) = site.records("801")
    assert (record.cls, record.report_path) == ("python-exception", None)
    assert stat.S_ISCHR((job_dir / "triage.json").stat().st_mode)


def test_deep_tree(site: FakeSite, job_dir: Path) -> None:
    """Deeper than a path can name."""

    def lay() -> None:
        os.chdir(job_dir)
        for _ in range(2100):
            os.mkdir("d")  # noqa: PTH102 (the whole path is too long for one call)
            os.chdir("d")

    site.as_owner(lay)
    site.work()
    assert (job_dir / "triage.json").exists()
    while (job_dir / "d").exists():
        # Too deep for rmtree: taken down level by level.
        bottom = job_dir / "d"
        inner = bottom / "d"
        if inner.exists():
            inner.rename(job_dir / "next")
        bottom.rmdir()
        if (job_dir / "next").exists():
            (job_dir / "next").rename(bottom)


def test_log_without_end(site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file costs its owner nothing and a reader hours: it is given up, and jobs beside it have their reports."""
    monkeypatch.setattr("slurm_triage.service.making.TRIES", 1)
    site.add(ended_job(site, "812"))
    os.truncate(site.home / "slurm-812.out", 8 << 40)
    for number in range(5):
        site.add(ended_job(site, str(813 + number)))
    site.work(settings=replace(site.settings, child_wall_s=2.0))
    found = {record.job_id: record.status for record in site.all_records()}
    assert found == {"812": "unknown"} | {str(813 + number): "failed" for number in range(5)}


def test_names_that_are_no_text(site: FakeSite) -> None:
    """Bytes of another encoding in paths and names."""
    odd = os.fsdecode(b"\xff\xfe-odd")
    outputs = site.home / odd / "outputs"
    log = outputs / f"818-JAX-{odd}.log"
    outputs.mkdir(parents=True)
    log.write_bytes(FAILED_LOG)
    for path in (site.home / odd, outputs, log):
        os.chown(path, site.uid, site.uid)
    site.add(ended_job(site, "818", name=f"JAX-{odd}", stdout=str(log), work_dir=str(site.home / odd)), None)
    site.work()
    assert site.records("818")[0].cls == "python-exception"
    assert json.loads((log.with_suffix("") / "triage.json").read_bytes())["job"]["id"] == "818"


def test_terminal_escapes_and_markup_in_names_and_logs(
    site: FakeSite, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the log and the job's name into reports, ledger, AdminComment and onto a terminal."""
    pwned, said = place / "pwned", place / "said"
    said.touch()
    sacctmgr = place / "sacctmgr"
    sacctmgr.write_text(f"#!/bin/sh\nprintf '%s\\0' \"$@\" >> {said}\n")
    sacctmgr.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    name = f'x"; $(touch {pwned}) `touch {pwned}`\n# Big\x1b[2J<script>'
    log = b"\x1b]0;title\x07<img src=x onerror=alert(1)>\n" + FAILED_LOG.replace(
        b"boom", b"\x1b[31mboom `<b>` $(touch %s) [x](javascript:1)" % os.fsencode(pwned)
    )
    site.add(ended_job(site, "804", name=name), log)
    site.work(settings=replace(site.settings, admin_comment="all"))
    report, page = ((site.home / f"slurm-804.{kind}").read_text() for kind in ("triage.json", "TRIAGE.md"))
    monkeypatch.setenv("SLURM_TRIAGE_LEDGER", str(site.settings.ledger))
    assert main(["show", "804"]) == 0
    shown = capsys.readouterr().out
    for text in (report, page, shown, said.read_text(), str(site.records("804"))):
        assert set(re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)) <= {"\0", "\t"}
    assert re.search(r"^# Big", page, re.MULTILINE) is None
    assert re.search(r"(?<!\\)<(img|script|b)", _outside_code(page)) is None
    comments = [word for word in said.read_text().split("\0") if word.startswith("AdminComment=")]
    assert len(comments) == 1
    assert "\n" not in comments[0]
    assert " - fix first: " in comments[0], "what to do is not cut off"
    assert "804" not in comments[0]
    assert not pwned.exists()
    assert "\n" not in (site.records("804")[0].name or "")


def _outside_code(page: str) -> str:
    """Markdown without fenced blocks and code spans, where nothing has a meaning."""
    return re.sub(r"(`+).+?\1", "", re.sub(r"^(`{3,}).*?^\1`*$", "", page, flags=re.MULTILINE | re.DOTALL))
