"""install.sh --completion-log: a line that slurmctld writes, and no process that it starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_triage.settings import load_settings
from tests.installer.place import Place

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="installing needs root")


def completion_log(place: Place) -> str:
    return load_settings(place.path("etc/config.toml"), {}).completion_log


def test_slurmctld_writes_into_a_file_of_ours(place: Place) -> None:
    before = place.conf.read_text()
    output = place.run("--completion-log", "--edit-slurm-conf").stdout
    ours = completion_log(place)
    assert "restart slurmctld" in output
    added = place.conf.read_text().removeprefix(before).splitlines()
    assert added[-3:-1] == ["JobCompType=jobcomp/filetxt", f"JobCompLoc={ours}"]
    assert "libexec" not in "".join(added)
    found = Path(ours).parent.stat()
    assert (oct(found.st_mode & 0o777), Path(ours).parent.owner()) == ("0o750", "nobody")
    assert not (place.epilog_d / "50-slurm-triage").exists()

    again = place.run("--completion-log", "--edit-slurm-conf").stdout
    assert "slurm.conf is as before: Slurm needs nothing." in again
    assert "WARNING" not in again
    Path(ours).write_text("JobId=7 \n")
    place.run("--uninstall")
    assert place.conf.read_text() == before
    assert Path(ours).exists()
    place.run("--uninstall", "--purge")
    assert not Path(ours).parent.exists()


def test_with_the_nodes_events_as_well(place: Place) -> None:
    place.run("--completion-log", "--epilog", "--edit-slurm-conf")
    assert (place.epilog_d / "50-slurm-triage").exists()
    assert "JobCompType=jobcomp/filetxt" in place.conf.read_text()


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("JobCompType=jobcomp/filetxt\nJobCompLoc=/var/log/slurm/jobs.log\n", "/var/log/slurm/jobs.log"),
        ("JobCompType=jobcomp/filetxt\n", "/var/log/slurm_jobcomp.log"),
    ],
)
def test_a_log_that_the_site_has_is_read(place: Place, said: str, read: str) -> None:
    with open(place.conf, "a") as conf:
        conf.write(said)
    before = place.conf.read_text()
    output = place.run("--completion-log", "--edit-slurm-conf").stdout
    assert completion_log(place) == read
    assert "slurm.conf is as before: Slurm needs nothing." in output
    assert place.conf.read_text() == before
    assert not place.path("var/completed").exists()


@pytest.mark.parametrize(
    ("said", "refusal"),
    [
        ("JobCompType=jobcomp/elasticsearch\n", "JobCompType is jobcomp/elasticsearch already"),
        ("JobCompType=jobcomp/script\nJobCompLoc=/site/script\n", "JobCompType is jobcomp/script already"),
        ("JobCompType=jobcomp/filetxt\nJobCompLoc=jobs.log\n", "no absolute path"),
        ('JobCompType=jobcomp/filetxt\nJobCompLoc=/var/log/a"b\n', "only letters, digits"),
    ],
)
def test_what_the_site_does_with_its_jobs_is_not_changed(place: Place, said: str, refusal: str) -> None:
    with open(place.conf, "a") as conf:
        conf.write(said)
    before = place.snapshot()
    result = place.run("--completion-log", "--edit-slurm-conf", check=False)
    assert (result.returncode, refusal in result.stderr) == (1, True)
    assert place.snapshot() == before


def test_hooks_may_take_its_place(place: Place) -> None:
    place.run("--completion-log", "--edit-slurm-conf")
    place.run("--edit-slurm-conf")
    assert "filetxt" not in place.conf.read_text()
    assert "JobCompType=jobcomp/script" in place.conf.read_text()


def test_slurmctld_never_finds_its_logs_directory_gone(place: Place) -> None:
    """It would not start: lines that the admin has put in by hand must go first."""
    place.run("--completion-log")
    with open(place.conf, "a") as conf:
        conf.write(f"JobCompType=jobcomp/filetxt\nJobCompLoc={completion_log(place)}\n")
    again = place.run("--completion-log").stdout
    assert "slurm.conf is as before: Slurm needs nothing." in again
    result = place.run("--uninstall", "--purge", check=False)
    assert (result.returncode, "remove these lines" in result.stderr) == (1, True)
    assert Path(completion_log(place)).parent.exists()


@pytest.mark.parametrize("option", ["--spank", "--no-hooks --epilog"])
def test_what_does_not_go_together(place: Place, option: str) -> None:
    result = place.run("--completion-log", *option.split(), check=False)
    assert (result.returncode, "goes with" in result.stderr) == (1, True)
