"""The exported text is valid, bounded, says what ledger and spool hold, and the dashboard asks for nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_triage.cli.main import main
from slurm_triage.ledger.append import open_writer
from slurm_triage.ledger.record import LedgerRecord
from slurm_triage.metrics.catalog import CATALOG, PREFIX
from slurm_triage.metrics.exposition import Sample, exposition, write
from slurm_triage.metrics.from_ledger import MAX_CLASSES, MAX_RULES, ledger_samples
from slurm_triage.metrics.from_spool import reconciled_samples, spool_samples
from slurm_triage.metrics.from_worker import worker_samples
from slurm_triage.service.tallies import Scan, Tallies

NOW = 1_773_200_000.0

#: The text format's grammar (prometheus.io, "Exposition formats"), for gauges and counters.
_HELP = re.compile(r"# HELP ([a-z_]+) (\S.*)")
_TYPE = re.compile(r"# TYPE ([a-z_]+) (gauge|counter)")
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"')
_SAMPLE = re.compile(rf"([a-z_]+)(?:\{{({_LABEL.pattern}(?:,{_LABEL.pattern})*)\}})? (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)")

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse(text: str) -> Series:
    """All series. Fails on anything that the format does not allow."""
    assert text.endswith("\n")
    series: Series = {}
    described: set[str] = set()
    current = ""
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            match = _HELP.fullmatch(line)
            assert match, line
            assert match[1] not in described, f"{match[1]} is described twice"
            current = match[1]
            described.add(current)
        elif line.startswith("# TYPE "):
            match = _TYPE.fullmatch(line)
            assert match, line
            assert match[1] == current
            assert (match[2] == "counter") == current.endswith("_total")
        else:
            match = _SAMPLE.fullmatch(line)
            assert match, line
            assert match[1] == current, "samples stand below their own HELP and TYPE"
            key = (current, frozenset((m[1], m[2]) for m in _LABEL.finditer(match[2] or "")))
            assert key not in series, f"{line} is there twice"
            series[key] = float(match.groups()[-1])
    return series


def value(series: Series, name: str, **labels: str) -> float:
    wanted = {("class" if k == "cls" else k, v) for k, v in labels.items()}
    return sum(v for (n, found), v in series.items() if n == PREFIX + name and wanted <= found)


def record(number: int, **changes: Any) -> LedgerRecord:
    start = NOW - 7200 - number
    values: dict[str, Any] = {
        "job_id": str(7000 + number),
        "attempt": f"s{int(start)}",
        "revision": int((start + 3700) * 1000),
        "status": "failed",
        "cluster": "alpha",
        "user": "alice",
        "cls": "hang",
        "rule": "hang-rule",
        "domain": "fabric",
        "start": start,
        "end": start + 3600,
        "gpu_hours": 32.0,
        "gpu_hours_lost": 8.0,
        **changes,
    }
    return LedgerRecord(**values)


Fill = Callable[..., Path]


@pytest.fixture
def ledger(tmp_path: Path) -> Fill:
    def fill(*records: LedgerRecord) -> Path:
        root = tmp_path / "ledger"
        by_cluster: dict[str, list[LedgerRecord]] = {}
        for one in records:
            by_cluster.setdefault(one.cluster or "-", []).append(one)
        for cluster, found in by_cluster.items():
            with open_writer(root, cluster) as writer:
                writer.append(found)
        return root

    return fill


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    for name in ("new", "tmp", "bad"):
        (tmp_path / "spool" / name).mkdir(parents=True)
    return tmp_path / "spool"


def series_of(samples: list[Sample]) -> Series:
    return parse(exposition(samples).decode())


def test_jobs_are_counted_by_verdict(ledger: Fill) -> None:
    healthy = {"status": "completed", "cls": None, "rule": None, "domain": None, "gpu_hours_lost": 0.0}
    root = ledger(
        *(record(n) for n in range(3)),
        record(3, **healthy),
        record(4, cls="oom-gpu", rule="oom", domain="config", gpu_hours=None, gpu_hours_lost=None, provisional=True),
        record(5, cluster="beta"),
        record(6, start=NOW - 300_000, end=NOW - 290_000),
    )
    series = series_of(ledger_samples([root], NOW - 86400))
    assert value(series, "jobs") == 6
    assert value(series, "jobs", cluster="alpha", status="failed", cls="hang", domain="fabric") == 3
    assert value(series, "jobs", cluster="alpha", status="completed", cls="none", domain="none") == 1
    assert value(series, "jobs", cluster="beta", cls="hang") == 1
    assert value(series, "gpu_seconds", cluster="alpha") == 4 * 32 * 3600
    assert value(series, "gpu_seconds_lost", cluster="alpha", cls="hang") == 3 * 8 * 3600
    assert value(series, "rule_jobs", cluster="alpha", rule="hang-rule") == 3
    assert value(series, "provisional_jobs") == 1
    assert value(series, "last_report_timestamp_seconds", cluster="alpha") == pytest.approx(NOW - 3500, abs=5)


def test_a_later_revision_replaces_the_earlier_one(ledger: Fill) -> None:
    first = record(1, cls="unknown-death", provisional=True)
    second = record(1, revision=first.revision + 1)
    series = series_of(ledger_samples([ledger(first, second)], NOW - 86400))
    assert value(series, "jobs") == value(series, "jobs", cls="hang") == 1
    assert value(series, "provisional_jobs") == 0


def test_only_the_clusters_that_were_asked_for(ledger: Fill) -> None:
    root = ledger(record(1), record(2, cluster="beta"))
    assert value(series_of(ledger_samples([root], 0.0, ["beta"])), "jobs") == 1


def test_the_number_of_series_is_bounded_and_nothing_is_lost(ledger: Fill) -> None:
    many = [record(n, cls=f"class-{n % 300}", rule=f"rule-{n % 400}") for n in range(1200)]
    series = series_of(ledger_samples([ledger(*many)], 0.0))
    classes = {dict(labels)["class"] for name, labels in series if name == PREFIX + "jobs"}
    rules = {dict(labels)["rule"] for name, labels in series if name == PREFIX + "rule_jobs"}
    assert len(classes) == MAX_CLASSES + 1
    assert len(rules) == MAX_RULES + 1
    assert value(series, "jobs") == value(series, "rule_jobs") == 1200
    assert value(series, "jobs", cls="other") == 1200 - 4 * MAX_CLASSES
    assert value(series, "gpu_seconds") == 1200 * 32 * 3600


def test_damage_is_counted(ledger: Fill) -> None:
    root = ledger(*(record(n) for n in range(5)))
    segment = next((root / "alpha").glob("*.jsonl"))
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0xFF
    segment.write_bytes(bytes(data))
    assert value(series_of(ledger_samples([root], 0.0)), "ledger_damaged_places", cluster="alpha") == 1
    assert main(["ledger", "repair", "--ledger", str(root)]) == 0
    series = series_of(ledger_samples([root], 0.0))
    assert value(series, "ledger_quarantined_places", cluster="alpha") == 1
    assert value(series, "ledger_lost_records", cluster="alpha") == 1


def test_a_ledger_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    assert series_of(ledger_samples([tmp_path / "none"], 0.0)) == {(PREFIX + "ledger_readable", frozenset()): 0.0}
    assert value(series_of(ledger_samples([], 0.0)), "ledger_readable") == 0


def test_the_spool_is_measured_by_its_oldest_event(spool: Path) -> None:
    for number, age_s in enumerate((10, 4000, 30)):
        event = spool / "new" / f"{int(NOW) - age_s}.host.jobcomp.{number}.1"
        event.write_text("x")
        os.utime(event, (NOW - age_s, NOW - age_s))
    (spool / "bad" / "junk").write_text("x")
    series = series_of(spool_samples(spool, NOW))
    assert value(series, "spool_events") == 3
    assert value(series, "spool_oldest_event_age_seconds") == 4000
    assert value(series, "spool_refused_files") == 1


def test_an_empty_and_a_missing_spool(spool: Path, tmp_path: Path) -> None:
    empty = series_of(spool_samples(spool, NOW))
    assert value(empty, "spool_readable") == 1
    assert value(empty, "spool_events") == value(empty, "spool_oldest_event_age_seconds") == 0
    assert series_of(spool_samples(tmp_path / "none", NOW)) == {(PREFIX + "spool_readable", frozenset()): 0.0}


def test_the_reconcilers_mark(tmp_path: Path) -> None:
    assert reconciled_samples(tmp_path) == []
    (tmp_path / "reconciled").write_text("1773129600\n")
    assert [s.value for s in reconciled_samples(tmp_path)] == [1773129600.0]
    (tmp_path / "reconciled").write_text("x")
    assert reconciled_samples(tmp_path) == []


def test_what_the_worker_counted_outlives_it(tmp_path: Path) -> None:
    assert worker_samples(tmp_path) == []
    for _ in range(2):
        tallies = Tallies(tmp_path, frozenset({"oom", "hang"}))
        tallies.add(Scan(1000, 0.25, {"oom": 3}).encode())
        tallies.add([10**15, 1.0, {}])
        tallies.add([10, 1.0, {"invented": 5, "hang": -1, "oom": "x"}])
        for nonsense in (None, "x", [], [1, 2], [-1, 0.0, {}], [1, float("nan"), {}], [True, {}, {}]):
            tallies.add(nonsense)
        tallies.save(0.0, at_once=True)
    series = series_of(worker_samples(tmp_path))
    assert value(series, "reports_total") == 20
    assert value(series, "scanned_bytes_total") == 2 * 1010
    assert value(series, "scan_seconds_total") == 2 * 1.25
    assert {dict(labels)["rule"] for name, labels in series if name.endswith("rule_hits_total")} == {"oom"}
    assert value(series, "rule_hits_total", rule="oom") == 6
    (tmp_path / "tallies.json").write_text("{}")
    assert worker_samples(tmp_path) == []


def test_an_outbreak_is_counted_while_it_lasts(ledger: Fill) -> None:
    rows = [record(n, fingerprint="f" * 16, user=f"u{n}", end=NOW - 60 * n) for n in range(1, 7)]
    root = ledger(*rows, record(50, fingerprint="a" * 16))
    series = series_of(ledger_samples([root], NOW - 86400, now=NOW))
    assert value(series, "outbreak_jobs", cluster="alpha", cls="hang") == 6
    assert value(series_of(ledger_samples([root], NOW - 86400, now=NOW + 7200)), "outbreak_jobs") == 0


def test_label_values_are_escaped() -> None:
    series = series_of([Sample("jobs", 1, {"class": 'a"b\\c\nd'})])
    assert next(iter(series))[1] == {("class", r"a\"b\\c\nd")}


@pytest.fixture
def everything(ledger: Fill, spool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site with something in every place; the ledger's directory."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "reconciled").write_text(f"{int(NOW)}\n")
    tallies = Tallies(tmp_path / "state", frozenset({"oom"}))
    tallies.add(Scan(1000, 0.25, {"oom": 3}).encode())
    tallies.save(0.0)
    monkeypatch.setenv("SLURM_TRIAGE_SPOOL", str(spool))
    monkeypatch.setenv("SLURM_TRIAGE_STATE", str(tmp_path / "state"))
    hit = [record(n, fingerprint="f" * 16, end=time.time() - n) for n in range(10, 16)]
    healthy = record(2, cls=None, status="completed", rule=None)
    return ledger(record(1), healthy, record(3, cluster='odd "name\\'), *hit)


def test_the_command_exports_every_metric(everything: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "--ledger", str(everything), "--since", "2020-01-01"]) == 0
    series = parse(capfd.readouterr().out)
    assert {name for name, _ in series} == {PREFIX + name for name in CATALOG}
    assert value(series, "metrics_timestamp_seconds") == pytest.approx(time.time(), abs=60)


def test_written_by_rename_and_readable_by_all(everything: Path, tmp_path: Path) -> None:
    target = tmp_path / "collector"
    target.mkdir()
    (target / "slurm-triage.prom").write_text("old")
    before = (target / "slurm-triage.prom").stat().st_ino
    assert main(["metrics", "--ledger", str(everything), "--write", str(target)]) == 0
    found = target / "slurm-triage.prom"
    assert [p.name for p in target.iterdir()] == [found.name]
    assert found.stat().st_ino != before
    assert found.stat().st_mode & 0o777 == 0o644
    parse(found.read_text())


def test_what_cannot_be_read_is_exported_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLURM_TRIAGE_SPOOL", str(tmp_path / "none"))
    assert main(["metrics", "--ledger", str(tmp_path / "none")]) == 5
    series = parse(capfd.readouterr().out)
    assert value(series, "ledger_readable") == value(series, "spool_readable") == 0


def test_a_missing_target_is_one_sentence(everything: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "--ledger", str(everything), "--write", str(tmp_path / "none")]) == 1
    assert capfd.readouterr().err.startswith("slurm-triage: cannot write ")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (Debian package prometheus)")
def test_promtool_has_nothing_to_say(everything: Path, tmp_path: Path) -> None:
    text = exposition(
        [*ledger_samples([everything], 0.0), *(Sample(name, 1.5, {}) for name in CATALOG if name != "jobs")]
    )
    path = write(tmp_path, text)
    with path.open("rb") as file:
        done = subprocess.run(["promtool", "check", "metrics"], stdin=file, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
