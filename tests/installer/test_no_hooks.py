"""install.sh --no-hooks: a worker that asks accounting, and a Slurm that is left as it is."""

from __future__ import annotations

import os
import subprocess

import pytest

from slurm_triage.settings import load_settings
from tests.installer.place import Place

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="installing needs root")


@pytest.fixture(autouse=True)
def accounting(place: Place) -> None:
    with open(place.conf, "a") as conf:
        conf.write("AccountingStorageType=accounting_storage/slurmdbd\n")


def test_without_hooks_slurm_is_left_alone(place: Place) -> None:
    """Accounting is asked often instead; a worker asks whoever is there."""
    conf = place.conf.read_text()
    output = place.run("--no-hooks", "--edit-slurm-conf").stdout
    assert "slurm.conf is as before: Slurm needs nothing." in output
    assert (place.conf.read_text(), (place.epilog_d / "50-slurm-triage").exists()) == (conf, False)
    settings = load_settings(place.path("etc/config.toml"), {})
    assert (settings.reconcile_s, settings.reconcile_lag_s) == (15.0, 5.0)
    assert "WARNING" not in place.run("--no-hooks").stdout
    place.path("etc/config.toml").write_text("")
    assert "without hooks reports come every ten minutes" in place.run("--no-hooks").stdout


@pytest.mark.parametrize("option", ["--no-hooks", "--completion-log"])
def test_without_hooks_only_where_there_are_none(place: Place, option: str) -> None:
    place.run("--edit-slurm-conf")
    before = place.snapshot()
    result = place.run(option, check=False)
    assert (result.returncode, "run --uninstall first" in result.stderr) == (1, True)
    assert place.snapshot() == before


def test_somebody_must_be_there_to_ask(place: Place) -> None:
    place.conf.write_text(place.conf.read_text().replace("AccountingStorageType", "#"))
    result = place.run("--no-hooks", check=False)
    assert (result.returncode, "nobody can be asked" in result.stderr) == (1, True)


def test_where_all_places_are_taken_accounting_is_asked(place: Place) -> None:
    """Until the site calls ours from its own scripts, and afterwards for what they miss."""
    with open(place.conf, "a") as conf:
        conf.write("JobCompType=jobcomp/elasticsearch\nEpilogSlurmctld=/site/ctld\n")
    output = place.run("--edit-slurm-conf").stdout
    assert "nothing that slurmctld starts is ours" in output
    assert "EpilogSlurmctld is your /site/ctld" in output
    settings = load_settings(place.path("etc/config.toml"), {})
    assert (settings.reconcile_s, settings.reconcile_lag_s) == (15.0, 5.0)
    assert "WARNING" not in place.run("--edit-slurm-conf").stdout


# ---- several installations on one host ----------------------------------------------------------------------------


def test_what_another_installation_has_stays(place: Place) -> None:
    """Whatever is the default for spool and ledger: those are taken away that this one has made."""
    place.run("--no-hooks")
    others = place.directory / "other/spool/new", place.directory / "other/var/ledger"
    for directory in others:
        directory.mkdir(parents=True)
    options = ["--spool", str(others[0].parent), "--var", str(others[1].parent)]
    place.run("--uninstall", "--purge", *options)
    assert all(directory.exists() for directory in others)
    assert not place.path("var/ledger").exists()
    assert not place.path("etc").exists()


def test_where_nothing_is_installed_nothing_is_taken_away(place: Place) -> None:
    place.path("var/ledger").mkdir(parents=True)
    output = place.run("--uninstall", "--purge").stdout
    assert "nothing is installed" in output
    assert place.path("var/ledger").exists()


def test_the_command_finds_the_settings_of_its_installation(place: Place) -> None:
    place.run("--no-hooks")
    command = [place.path("bin/slurm-triage"), "config", "show"]
    shown = subprocess.run(command, env=place.env, text=True, capture_output=True, check=True).stdout
    assert f'spool = "{place.path("spool")}"' in shown
