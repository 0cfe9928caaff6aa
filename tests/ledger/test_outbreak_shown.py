"""Whoever looks at an outbreak is told what the jobs share, their switch too, whether the worker knew it or not."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from slurm_triage.cli.main import main
from slurm_triage.ledger.append import open_writer
from slurm_triage.ledger.record import LedgerRecord
from tests.ledger.samples import record
from tests.service.conftest import ended_job
from tests.service.conftest import rehearsed as rehearsed
from tests.service.conftest import site as site
from tests.service.fake_site import FAILED_LOG, FakeSite

TOPOLOGY = """SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=node[01-20]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=node[21-60]
SwitchName=top Level=1 LinkSpeed=1 Nodes=node[01-60] Switches=leaf[1-2]
"""
NOW = float(int(time.time()))


@pytest.fixture(autouse=True)
def tree(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Slurm that knows two leaf switches."""
    directory = tmp_path_factory.mktemp("bin")
    scontrol = directory / "scontrol"
    scontrol.write_text(f"#!/bin/sh\ncat <<'T'\n{TOPOLOGY}T\n")
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


def test_the_switch_is_named_in_a_report_that_was_made_before(
    site: FakeSite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(40):
        good = number >= 6
        node = f"node{(21 if good else 1) + number % 20:02}"
        state = {"state": "COMPLETED", "exit_code": 0} if good else {}
        end = NOW - 1800 + number
        job = ended_job(
            site, f"8{number:02}", name=f"run{number}", user=f"user{number % 9}", nodes=(node,),
            submit=end - 70, start=end - 60, end=end, elapsed_s=60.0, **state,
        )  # fmt: skip
        site.add(job, b"epoch 1\ndone\n" if good else FAILED_LOG)
    site.work()
    monkeypatch.setenv("SLURM_TRIAGE_LEDGER", str(site.settings.ledger))
    assert main(["show", "800"]) == 0
    assert "in common: switch leaf1 (6)." in " ".join(capsys.readouterr().out.split())
    assert main(["show", "800", "--json"]) == 0
    shared = json.loads(capsys.readouterr().out)["history"]["outbreak"]["shared"]
    assert [(one["what"], one["value"]) for one in shared] == [("switch", "leaf1")]
    assert main(["list"]) == 0
    assert "in common: switch leaf1 (6)." in capsys.readouterr().err


def hit(count: int, cluster: str, first: int = 0) -> list[LedgerRecord]:
    return [
        record(
            first + i, cluster=cluster, nodes=f"node{i % 20 + 1:02}", user=f"u{i}", name=f"run{first + i}",
            start=NOW - 700, end=NOW - 600 + i, generated_at=NOW,
        )
        for i in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize(("each", "told"), [(3, []), (6, ["alpha", "beta"])])
def test_clusters_are_not_taken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], each: int, told: list[str]
) -> None:
    """Three jobs here and three there are no outbreak; node01 of one is not node01 of the other."""
    monkeypatch.setenv("SLURM_TRIAGE_LEDGER", str(tmp_path))
    for cluster in ("alpha", "beta"):
        with open_writer(tmp_path, cluster) as writer:
            writer.append(hit(each, cluster))
    assert main(["list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["outbreaks"]
    assert sorted(one["cluster"] for one in found) == told
    assert all(len(one["jobs"]) == each for one in found)
    assert main(["list"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("outbreak")]
    assert sorted(line.split(":")[0] for line in lines) == [f"outbreak on {cluster}" for cluster in told]
    assert not any("switch" in line for line in lines)
