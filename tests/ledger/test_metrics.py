"""The metrics file and the dashboard: accepted by Prometheus' own tool, and by each other."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from slurm_triage.errors import TriageError
from slurm_triage.service.metrics import METRICS, Metrics
from tests.ledger.samples import T0, record

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana" / "slurm-triage.json"


def filled() -> Metrics:
    metrics = Metrics()
    metrics.observe(record(1), scanned_bytes=1000, scan_s=0.5)
    metrics.observe(record(2, cls="hang", status="hanging", rule="stall"), scanned_bytes=500, scan_s=0.25)
    metrics.observe(record(3, cls=None, rule=None, status="completed", gpu_hours_lost=None))
    metrics.gauge(spool_files=7, lag_s=1.5)
    return metrics


def test_counts_and_sums() -> None:
    lines = filled().render().splitlines()
    for expected in (
        'slurm_triage_jobs_total{cluster="alpha",status="completed",class="none"} 1',
        'slurm_triage_jobs_total{cluster="alpha",status="hanging",class="hang"} 1',
        f'slurm_triage_gpu_seconds_total{{cluster="alpha"}} {3 * 32 * 3600.0}',
        'slurm_triage_gpu_lost_seconds_total{cluster="alpha",class="gpu-hw-fault"} 28800.0',
        'slurm_triage_rule_hits_total{rule="stall"} 1',
        "slurm_triage_scanned_bytes_total 1500",
        "slurm_triage_scan_seconds_total 0.75",
        "slurm_triage_spool_files 7",
        "slurm_triage_worker_lag_seconds 1.5",
        f"slurm_triage_last_report_timestamp_seconds {T0 + 3 * 60 + 3700}",
    ):
        assert expected in lines


def test_every_metric_is_described_once_and_no_other_is_written() -> None:
    text = filled().render()
    assert re.findall(r"^# HELP (\S+)", text, re.MULTILINE) == list(METRICS)
    assert set(re.findall(r"^(slurm_triage_\w+)", text, re.MULTILINE)) == set(METRICS)


def test_an_empty_worker_writes_an_empty_file(tmp_path: Path) -> None:
    Metrics().write(tmp_path / "x.prom")
    assert (tmp_path / "x.prom").read_text() == ""


def test_labels_cannot_break_the_format() -> None:
    metrics = Metrics()
    metrics.observe(record(1, cls='a"b\\c\nd', cluster="\udce9"))
    (line,) = [x for x in metrics.render().splitlines() if x.startswith("slurm_triage_jobs_total")]
    assert line == 'slurm_triage_jobs_total{cluster="?",status="failed",class="a\\"b\\\\c\\nd"} 1'


def test_the_file_is_replaced_as_a_whole_and_readable(tmp_path: Path) -> None:
    path = tmp_path / "slurm_triage.prom"
    path.write_text("old")
    filled().write(path)
    assert path.read_text() == filled().render()
    assert path.stat().st_mode & 0o777 == 0o644
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_missing_directory_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TriageError, match="check the directory"):
        filled().write(tmp_path / "no" / "x.prom")


def expressions() -> list[str]:
    dashboard: dict[str, Any] = json.loads(DASHBOARD.read_text())
    panels = dashboard["panels"]
    assert len({p["id"] for p in panels}) == len(panels)
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_the_dashboard_uses_every_metric_and_no_other() -> None:
    used = set(re.findall(r"slurm_triage_\w+", " ".join(expressions())))
    assert used == set(METRICS)


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        grid = panel["gridPos"]
        cells = {
            (x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not cells & taken
        assert grid["x"] + grid["w"] <= 24
        taken |= cells


PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool (package prometheus) is not installed")


@needs_promtool
def test_promtool_accepts_the_metrics() -> None:
    done = subprocess.run(
        [str(PROMTOOL), "check", "metrics"], input=filled().render(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@needs_promtool
def test_promtool_accepts_the_dashboards_expressions(tmp_path: Path) -> None:
    rules = []
    for number, expression in enumerate(expressions()):
        # Grafana fills these in before Prometheus sees them.
        plain = expression.replace("$__range", "7d").replace("$__rate_interval", "5m").replace("$cluster", "alpha")
        rules.append({"record": f"r{number}", "expr": plain})
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run([str(PROMTOOL), "check", "rules", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
