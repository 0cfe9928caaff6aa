"""A line that slurmctld writes about each ended job, and no process that it starts: install.sh --completion-log, and
when it is chosen unasked."""

from __future__ import annotations

import os
import socket
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
    place.run("--jobcomp-script", "--edit-slurm-conf")
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


# ---- unasked ------------------------------------------------------------------------------------------------------

SHORT = socket.gethostname().partition(".")[0]
DBD = "AccountingStorageType=accounting_storage/slurmdbd\n"
HERE = f"SlurmctldHost={SHORT}\n"


@pytest.mark.parametrize(
    "said",
    [
        HERE + DBD,
        f"slurmctldhost = {SHORT}(10.0.0.1)\nAccountingStorageType = slurmdbd\nJobCompType=none\n",
        f"ControlMachine={SHORT}.cluster.example\n{DBD}JobCompType=jobcomp/none\n",
        "SlurmctldHost=localhost\n" + DBD,
    ],
)
def test_where_it_can_be_had_it_is_taken(place: Place, said: str) -> None:
    with open(place.conf, "a") as conf:
        conf.write(said)
    before = place.conf.read_text()
    output = place.run("--edit-slurm-conf").stdout
    assert f"slurmctld writes a line about each ended job into {completion_log(place)}" in output
    added = place.conf.read_text().removeprefix(before).splitlines()
    assert added[-3:-1] == ["JobCompType=jobcomp/filetxt", f"JobCompLoc={completion_log(place)}"]
    # The nodes tell of their kernels as with hooks.
    assert (place.epilog_d / "50-slurm-triage").exists()
    after = place.snapshot()
    again = place.run("--edit-slurm-conf").stdout
    assert "slurm.conf is as before: Slurm needs nothing." in again
    assert place.snapshot() == after


def test_the_sites_own_log_is_taken_as_it_is(place: Place) -> None:
    with open(place.conf, "a") as conf:
        conf.write(HERE + DBD + "JobCompType=jobcomp/filetxt\nJobCompLoc=/var/log/slurm/jobs.log\n")
    before = place.conf.read_text()
    place.run("--edit-slurm-conf")
    assert place.conf.read_text() == before
    assert completion_log(place) == "/var/log/slurm/jobs.log"


@pytest.mark.parametrize(
    ("said", "options"),
    [
        (HERE, ""),
        (DBD, ""),
        ("SlurmctldHost=elsewhere\n" + DBD, ""),
        (f"SlurmctldHost={SHORT}x\n" + DBD, ""),
        (HERE + "SlurmctldHost=second\n" + DBD, ""),
        (f"ControlMachine={SHORT}\nBackupController=second\n" + DBD, ""),
        (HERE + DBD + "JobCompType=jobcomp/mysql\n", ""),
        (HERE + DBD + "JobCompType=jobcomp/filetxt\nJobCompLoc=relative.log\n", ""),
        (HERE + DBD, "--jobcomp-script"),
        (HERE + DBD + "EpilogSlurmctld = LIBEXEC/epilog-slurmctld\n", ""),
        (HERE + DBD + "JobCompType=jobcomp/script\nJobCompLoc=LIBEXEC/jobcomp\n", ""),
    ],
)
def test_where_it_cannot_be_had_a_script_is_started(place: Place, said: str, options: str) -> None:
    with open(place.conf, "a") as conf:
        conf.write(said.replace("LIBEXEC", str(place.path("libexec"))))
    output = place.run("--edit-slurm-conf", *options.split()).stdout
    assert "slurmctld starts a script" in output
    assert completion_log(place) == ""
    assert "filetxt" not in place.conf.read_text().removeprefix(said) or "filetxt" in said
    assert f"={place.path('libexec')}/" in place.conf.read_text().replace(" ", "")


def test_an_upgrade_changes_nothing_about_it(place: Place) -> None:
    with open(place.conf, "a") as conf:
        conf.write(HERE + DBD)
    place.run("--jobcomp-script", "--edit-slurm-conf")
    before = place.snapshot()
    assert "slurmctld starts a script" in place.run("--edit-slurm-conf").stdout
    assert place.snapshot() == before
