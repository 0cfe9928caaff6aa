"""install.sh --no-hooks: a worker that asks accounting, and a Slurm that is left as it is."""

from __future__ import annotations

import os

import pytest

from slurm_triage.settings import load_settings
from tests.installer.place import Place

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="installing needs root")


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
