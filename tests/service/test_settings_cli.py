"""Settings and the small commands: config, hook, show without Slurm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_triage.cli.main import main
from slurm_triage.errors import UsageError
from slurm_triage.service.event_file import record
from slurm_triage.service.spool_event import parse
from slurm_triage.settings import NAMES, load_settings
from tests.service.conftest import ended_job
from tests.service.fake_site import FakeSite


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(f'cluster = "c1"\nspool = "{tmp_path}/spool"\noff_users = ["eve", "mallory"]\nchildren = 7\n')
    return path


def test_file_then_environment(config: Path, tmp_path: Path) -> None:
    settings = load_settings(config, {"SLURM_TRIAGE_CHILDREN": "3", "SLURM_TRIAGE_OFF_PARTITIONS": "a, b"})
    assert (settings.cluster, settings.children, settings.off_users) == ("c1", 3, ("eve", "mallory"))
    assert settings.off_partitions == ("a", "b")
    assert settings.spool == tmp_path / "spool"
    assert settings.origin == {
        "cluster": str(config),
        "spool": str(config),
        "off_users": str(config),
        "children": "$SLURM_TRIAGE_CHILDREN",
        "off_partitions": "$SLURM_TRIAGE_OFF_PARTITIONS",
    }


@pytest.mark.parametrize(
    "text, named",
    [
        ("chidren = 4", "chidren"),
        ("children = 0", "children"),
        ('children = "many"', "children"),
        ('spool = "relative"', "spool"),
        ('admin_comment = "maybe"', "admin_comment"),
        ("off_users = [1]", "off_users"),
        ("accounting = true", "accounting"),
        ("children = true", "children"),
        ("= 4", "TOML"),
    ],
)
def test_mistakes_are_named(config: Path, text: str, named: str) -> None:
    config.write_text(text)
    with pytest.raises(UsageError, match=named) as caught:
        load_settings(config, {})
    assert str(config) in str(caught.value)


def test_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no configuration file"):
        load_settings(environ={"SLURM_TRIAGE_CONFIG": str(tmp_path / "none")})


def test_config_show_origin(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", "--origin", "--config", str(config)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("children = 7") and line.endswith(f"# {config}") for line in lines)
    assert any(line.startswith("child_wall_s = 600.0") and line.endswith("# default") for line in lines)
    assert len([line for line in lines if not line.startswith("# env")]) == len(NAMES)


def test_shown_settings_are_readable_again(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["config", "show", "--config", str(config)])
    again = config.with_name("again.toml")
    again.write_text(capsys.readouterr().out)
    assert load_settings(again, {}) == load_settings(config, {})


def test_hook_writes_what_the_worker_reads(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("new", "tmp"):
        (tmp_path / "spool" / name).mkdir(parents=True)
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("SLURM_JOB_NAME", "über\nname=%41")
    assert main(["hook", "--config", str(config)]) == 0
    (path,) = (tmp_path / "spool/new").iterdir()
    event = parse(path.read_bytes())
    assert (event.kind, event.job_id, event.env["SLURM_JOB_NAME"]) == ("hook", "4711", "über\nname=%41")


def test_hook_without_spool_says_so(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hook", "12", "--config", str(config)]) == 5
    assert "cannot write into the spool" in capsys.readouterr().err


def test_hook_needs_a_number(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert main(["hook", "x1", "--config", str(config)]) == 2


def test_show_prints_the_stored_report(
    site: FakeSite, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    site.add(ended_job(site, "901"))
    site.work()
    monkeypatch.setenv("SLURM_TRIAGE_LEDGER", str(site.settings.ledger))
    assert main(["901"]) == 0
    assert "python-exception" in capsys.readouterr().out
    assert main(["show", "901", "--json", "--exit-code"]) == 1
    assert json.loads(capsys.readouterr().out)["job"]["id"] == "901"


def test_show_does_not_believe_a_foreign_report(
    site: FakeSite, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for job_id in ("902", "903"):
        site.add(ended_job(site, job_id))
    site.work()
    report = site.home / "slurm-902.triage.json"
    report.write_bytes((site.home / "slurm-903.triage.json").read_bytes())
    monkeypatch.setenv("SLURM_TRIAGE_LEDGER", str(site.settings.ledger))
    monkeypatch.setenv("SLURM_TRIAGE_ACCOUNTING", "hook")
    monkeypatch.chdir(site.home)
    assert main(["show", "902", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["job"]["id"] == "902", "triaged anew from the log"


def test_unknown_job(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_TRIAGE_LEDGER", str(tmp_path / "ledger"))
    monkeypatch.setenv("SLURM_TRIAGE_ACCOUNTING", "hook")
    monkeypatch.chdir(tmp_path)
    assert main(["987654321"]) == 3
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_event_with_everything_hostile_survives_the_way(tmp_path: Path) -> None:
    for name in ("new", "tmp"):
        (tmp_path / name).mkdir()
    value = "".join(map(chr, range(1, 256))) + "end=1\n"
    path = record(tmp_path, "5", {"SLURM_JOB_NAME": value})
    assert parse(path.read_bytes()).env["SLURM_JOB_NAME"] == value
