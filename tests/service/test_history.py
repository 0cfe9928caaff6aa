"""What reports tell of other jobs, from the first event to what a person sees, and what the worker counts."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.cli.main import main
from slurm_triage.metrics.exposition import exposition
from slurm_triage.metrics.from_worker import worker_samples
from tests.service.conftest import ended_job
from tests.service.fake_site import FAILED_LOG, FakeSite

GOOD_LOG = b"epoch 1\nepoch 2\ndone\n"


def add(site: FakeSite, job_id: str, hours_ago: float, log: bytes = FAILED_LOG, **changes: object) -> None:
    end = float(int(time.time() - hours_ago * 3600))
    good = {"state": "COMPLETED", "exit_code": 0} if log is GOOD_LOG else {}
    times = {"submit": end - 4000, "start": end - 3900, "end": end, "elapsed_s": 3900.0}
    site.add(ended_job(site, job_id, **{"name": "llama", **times, **good, **changes}), log)


def text(site: FakeSite, job_id: str) -> str:
    return (site.home / f"slurm-{job_id}.TRIAGE.md").read_text()


def test_the_report_tells_of_the_same_failure_and_of_what_changed(site: FakeSite) -> None:
    add(site, "801", 60, GOOD_LOG, nodes=("node01", "node02"))
    add(site, "802", 50, nodes=("node02", "node03"))
    add(site, "803", 20, nodes=("node02", "node03"))
    site.work()
    # Another worker: what it knows of those jobs it has read from the ledger.
    add(site, "804", 1, nodes=("node02", "node03"))
    site.work()
    story = text(site, "804")
    assert "- Same failure as job 803, 3rd time in 2 d 1 h, each time on node[02-03]." in story
    assert "- Changed since job 801, which worked: nodes without node01, with node03." in story
    document = json.loads((site.home / "slurm-804.triage.json").read_bytes())
    assert document["history"]["same_failure"]["nth"] == 3
    assert document["history"]["same_failure"]["jobs"] == ["803", "802"]
    assert document["history"]["last_good"]["job"] == "801"
    assert "Same failure" not in text(site, "802")
    assert json.loads((site.home / "slurm-801.triage.json").read_bytes())["history"]["sentences"] == []


def test_a_lost_node_is_left_out_until_it_has_worked_again(site: FakeSite) -> None:
    site.settings = replace(site.settings, children=1)
    add(site, "811", 30, b"epoch 1\n", state="NODE_FAIL", nodes=("node05", "node06"), failed_node="node05")
    add(site, "812", 20, nodes=("node05", "node06"), submit_line="sbatch -N 2 train.sh", name="other")
    site.work()
    add(site, "813", 10, nodes=("node05", "node06"), submit_line="sbatch -N 2 train.sh", name="third")
    site.work()
    story = text(site, "813")
    assert "Keep away from node05 until " in story
    assert "node-fail in job 811" in story
    document = json.loads((site.home / "slurm-813.triage.json").read_bytes())
    assert [s["node"] for s in document["suspects"] if s["exclude"]] == ["node05"]
    assert document["resubmit"]["exclude"] == ["node05"]
    assert document["resubmit"]["command"] == "sbatch -N 2 --exclude=node05 train.sh"
    # Advice is no evidence: the ledger does not blame the node for this job.
    assert site.records("813")[0].node_evidence == ()
    add(site, "814", 5, GOOD_LOG, nodes=("node05",), name="clean")
    site.work()
    add(site, "815", 1, nodes=("node05", "node06"), submit_line="sbatch -N 2 train.sh", name="fourth")
    site.work()
    assert "Keep away" not in text(site, "815")


def test_the_command_shows_what_is_known_by_now(
    site: FakeSite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(6):
        add(site, f"82{number}", 0.5 - number * 0.05, user=f"user{number}", name=f"run{number}")
    site.work()
    assert "hit" not in text(site, "820")
    monkeypatch.setenv("SLURM_TRIAGE_LEDGER", str(site.settings.ledger))
    assert main(["820"]) == 0
    shown = capsys.readouterr().out
    assert "python-exception hit 6 jobs of 6 users within 15 min" in " ".join(shown.split())
    assert main(["show", "820", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["history"]["outbreak"]["jobs"] == 6
    assert main(["list"]) == 0
    listed = capsys.readouterr()
    assert "outbreak: python-exception hit 6 jobs of 6 users" in listed.err
    assert main(["list", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["outbreaks"]) == 1


def test_an_array_is_summed_up(
    site: FakeSite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for task in range(12):
        log = FAILED_LOG if task % 4 == 0 else GOOD_LOG
        add(site, str(830 + task), 1, log, array_job_id="830", array_task_id=str(task))
    site.work()
    monkeypatch.setenv("SLURM_TRIAGE_LEDGER", str(site.settings.ledger))
    assert main(["show", "830", "--exit-code"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "830: 12 jobs"
    assert lines[1].split()[:2] == ["3", "failed"]
    assert lines[1].endswith("830_0, 830_4, 830_8")
    assert lines[2].split()[:2] == ["9", "completed"]
    assert lines[3] == "One of them: slurm-triage 830_0"
    assert main(["show", "830_4"]) == 0
    assert "ValueError: boom" in capsys.readouterr().out


def test_what_the_children_did_is_counted_over_restarts(site: FakeSite) -> None:
    log = FAILED_LOG * 1000
    for number in range(3):
        add(site, f"84{number}", 1, log)
        site.work()
    lines = exposition(worker_samples(site.settings.state)).decode().splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert values["slurm_triage_reports_total"] == "3"
    assert int(values["slurm_triage_scanned_bytes_total"]) == 3 * len(log)
    assert 0 < float(values["slurm_triage_scan_seconds_total"]) < 60
    assert any(name.startswith("slurm_triage_rule_hits_total{rule=") for name in values)
    ledger = b"".join(path.read_bytes() for path in Path(site.settings.ledger / "fake").glob("*.jsonl"))
    assert b"boom" not in ledger
    assert b"train.py" not in ledger
