"""slurmctld's log of ended jobs: what was chosen stays, and slurmctld never ends for want of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.installer.place import Place
from tests.installer.test_completion_log import DBD, HERE, SHORT, completion_log, pytestmark  # noqa: F401


def say(place: Place, text: str) -> None:
    with open(place.conf, "a") as conf:
        conf.write(text)


@contextmanager
def writing(place: Place, log: str) -> Iterator[None]:
    """A process of slurmctld's name that has the log open."""
    program = shutil.copy("/bin/sleep", place.directory / "slurmctld")
    with open(log, "a") as file, subprocess.Popen([program, "600"], stdout=file) as process:
        yield
        process.kill()


def run_as_before(place: Place) -> str:
    before = place.snapshot()
    output = place.run("--edit-slurm-conf").stdout
    assert place.snapshot() == before
    return output


def test_an_upgrade_of_what_was_asked_for(place: Place) -> None:
    """Where it would not be chosen unasked: without slurmdbd, with another controller. The nodes are left alone, too."""
    place.run("--completion-log", "--edit-slurm-conf")
    assert "slurmctld writes a line" in run_as_before(place)


def test_the_nodes_epilog_stays(place: Place) -> None:
    say(place, HERE + DBD)
    place.run("--edit-slurm-conf")
    (place.epilog_d / "50-slurm-triage").write_text("#!/bin/sh\n# slurm-triage of an earlier version\n")
    place.run("--completion-log", "--edit-slurm-conf")
    assert "earlier" not in (place.epilog_d / "50-slurm-triage").read_text()


def test_an_upgrade_without_hooks(place: Place) -> None:
    say(place, HERE + DBD)
    place.run("--no-hooks")
    assert "accounting is asked every 15 s" in run_as_before(place)


def test_an_upgrade_where_the_sites_own_script_calls_ours(place: Place) -> None:
    say(place, HERE + DBD + "EpilogSlurmctld=/site/epilog\n")
    place.run("--jobcomp-script")
    assert "slurmctld starts a script" in place.run().stdout
    assert "WARNING" not in place.run().stdout
    assert completion_log(place) == ""


def test_a_place_with_a_plus_in_its_name(place: Place) -> None:
    libexec = place.path("c++/libexec")
    say(place, HERE + DBD + f'EpilogSlurmctld="{libexec}/epilog-slurmctld"\n')
    assert "slurmctld starts a script" in place.run("--libexec", str(libexec)).stdout


@pytest.mark.parametrize(
    "said",
    [
        f'SlurmctldHost="{SHORT}"\nAccountingStorageType="accounting_storage/slurmdbd"\nJobCompType="jobcomp/none"\n',
        HERE + DBD + "JobCompType=jobcomp/mysql\nJobCompType=jobcomp/none\n",
        "Include more.conf\n",
    ],
)
def test_ways_to_say_it(place: Place, said: str) -> None:
    (place.slurm / "more.conf").write_text(HERE + DBD)
    say(place, said)
    assert "slurmctld writes a line" in place.run().stdout


@pytest.mark.parametrize("host", [f"{SHORT}[1-2]", f"{SHORT},second", f"x{SHORT}", f"{SHORT} second"])
def test_another_controller(place: Place, host: str) -> None:
    say(place, f"SlurmctldHost={host}\n" + DBD)
    assert "slurmctld starts a script" in place.run().stdout


@pytest.mark.parametrize("make", [lambda log: log.symlink_to("/dev/null"), os.mkfifo, Path.mkdir])
def test_a_sites_log_that_the_worker_would_not_read(place: Place, make: Callable[[Path], None]) -> None:
    log = place.slurm / "jobs.log"
    make(log)
    say(place, HERE + DBD + f"JobCompType=jobcomp/filetxt\nJobCompLoc={log}\n")
    assert "slurmctld starts a script" in place.run().stdout
    result = place.run("--completion-log", check=False)
    assert (result.returncode, f"JobCompLoc {log} is a link, or no file" in result.stderr) == (1, True)


def test_each_controller_needs_a_place_for_it(place: Place) -> None:
    """Without it, slurmctld ends when it takes over."""
    say(place, HERE + "SlurmctldHost=second\n" + DBD)
    output = place.run("--completion-log").stdout
    assert f"({SHORT} second )" in output
    assert f"make {place.path('var')}/completed on each" in output


def test_slurms_user_must_be_able_to_write_it(place: Place) -> None:
    """Else slurmctld would not start. Nothing is changed then."""
    place.path("var").mkdir(mode=0o700)
    before = place.snapshot()
    result = place.run("--completion-log", "--edit-slurm-conf", check=False)
    assert (result.returncode, f"nobody cannot write {place.path('var')}/completed/jobs.log" in result.stderr) == (
        1,
        True,
    )
    assert place.snapshot() == before


def test_the_log_is_there_before_slurm_conf_names_it(place: Place) -> None:
    place.run("--completion-log", "--edit-slurm-conf")
    found = Path(completion_log(place))
    assert (found.owner(), found.stat().st_size) == ("nobody", 0)


@pytest.mark.parametrize("purge", [[], ["--purge"]])
def test_a_slurmctld_that_writes_it_keeps_it_until_it_is_restarted(place: Place, purge: list[str]) -> None:
    """22.05 opens the new JobCompLoc at a reconfigure, without one Slurm's own in /var/log, and ends if it may not."""
    before = place.conf.read_text()
    place.run("--completion-log", "--edit-slurm-conf")
    log = completion_log(place)
    with writing(place, log):
        output = place.run("--uninstall", *purge).stdout
        assert "restart slurmctld, and run install.sh --uninstall again" in output
        assert "scontrol reconfigure for the nodes" not in output
        left = place.conf.read_text().removeprefix(before).splitlines()[1:-1]
        assert left == [f"JobCompLoc={log}"]
        assert Path(log).exists()
        assert f"JobCompLoc={log}" in place.run("--uninstall", *purge).stdout + place.conf.read_text()
        assert Path(log).exists()
    place.run("--uninstall", "--purge")
    assert place.conf.read_text() == before
    assert not Path(log).parent.exists()
    assert not place.path("etc").exists()


def test_from_23_11_on_a_reconfigure_is_a_restart(place: Place) -> None:
    place.command("sacct", 'echo "slurm 23.11.4"')
    before = place.conf.read_text()
    place.run("--completion-log", "--edit-slurm-conf")
    with writing(place, completion_log(place)):
        place.run("--uninstall")
    assert place.conf.read_text() == before


def test_installed_again_before_the_restart(place: Place) -> None:
    place.run("--completion-log", "--edit-slurm-conf")
    with writing(place, completion_log(place)):
        before = place.conf.read_text()
        place.run("--uninstall")
        place.run("--edit-slurm-conf")
        assert place.conf.read_text() == before


@pytest.mark.parametrize(
    ("first", "then", "refusal"),
    [
        # A script does not take its place at once.
        (
            "--edit-slurm-conf",
            "--jobcomp-script --edit-slurm-conf",
            "a reconfigure with another JobCompLoc would end it",
        ),
        # Lines taken out by hand, and no restart.
        ("", "--uninstall --purge", "slurmctld still writes"),
    ],
)
def test_what_would_end_a_running_slurmctld_is_refused(place: Place, first: str, then: str, refusal: str) -> None:
    place.run("--completion-log", *first.split())
    with writing(place, completion_log(place)):
        before = place.snapshot()
        result = place.run(*then.split(), check=False)
        assert (result.returncode, refusal in result.stderr) == (1, True)
        assert place.snapshot() == before


def test_the_last_epilog_stays_while_slurm_conf_names_its_directory(place: Place) -> None:
    """Also if slurmctld has not read that line yet."""
    (place.epilog_d / "10-site").unlink()
    place.run("--completion-log", "--epilog", "--edit-slurm-conf")
    place.command("scontrol", "echo ClusterName=test")
    place.run("--uninstall")
    assert (place.epilog_d / "50-slurm-triage").exists()


def test_a_unit_that_does_not_let_slurmctld_write_there(place: Place) -> None:
    """ProtectSystem=strict: SlurmUser can write it, and slurmctld cannot."""
    var, conf = place.path("var"), place.conf
    var.mkdir(mode=0o755)
    before = place.snapshot()
    program = shutil.copy("/bin/sleep", place.directory / "slurmctld")
    script = f"mount --bind {var} {var} && mount -o remount,ro,bind {var} && echo && exec {program} 600"
    argv = ["unshare", "--mount", "sh", "-c", script]
    env = {**place.env, "SLURM_CONF": str(conf)}
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        if process.stdout.readline() != b"\n":
            pytest.skip("no mount namespaces here")
        time.sleep(0.2)
        result = place.run("--completion-log", "--edit-slurm-conf", check=False)
        process.kill()
    assert (result.returncode, f"slurmctld (process {process.pid}) cannot write" in result.stderr) == (1, True)
    assert place.snapshot() == before
