"""Every panel of the dashboard asks for something that exists, in a language that Prometheus understands, and shows it.

No Grafana runs here: queries are answered by Prometheus' own engine in promtool, and the file is read by Grafana's own
library, where these are installed.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_triage.cli.main import main
from slurm_triage.metrics.catalog import CATALOG, PREFIX
from slurm_triage.metrics.from_ledger import ledger_samples
from slurm_triage.metrics.from_worker import worker_samples
from tests.metrics.test_metrics import everything as everything
from tests.metrics.test_metrics import ledger as ledger
from tests.metrics.test_metrics import spool as spool

DOCS = Path(__file__).resolve().parents[2] / "docs"
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (Debian: prometheus)")
#: What Grafana puts in place of the variable: all, one, several.
CLUSTERS = (".*", "alpha", "(alpha|other)")


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DOCS / "grafana" / "slurm-triage.json").read_text())
    return found


def queries() -> list[str]:
    found = [t["expr"] for panel in dashboard()["panels"] for t in panel.get("targets", [])]
    return [*found, *(v["query"]["query"] for v in dashboard()["templating"]["list"] if v["type"] == "query")]


def test_the_dashboard_uses_exactly_the_exported_metrics() -> None:
    used = {name for query in queries() for name in re.findall(rf"\b{PREFIX}\w+", query)}
    assert used == {PREFIX + name for name in CATALOG}


def test_the_dashboard_uses_only_labels_that_exist(everything: Path, tmp_path: Path) -> None:
    known: dict[str, set[str]] = {}
    for sample in (*ledger_samples([everything], 0.0, now=time.time()), *worker_samples(tmp_path / "state")):
        known.setdefault(PREFIX + sample.name, set()).update(sample.labels)
    for query in queries():
        for name, selector in re.findall(rf"({PREFIX}\w+)\{{([^}}]*)\}}", query):
            assert set(re.findall(r"(\w+)(?:=~|!=|=)", selector)) <= known[name], query
        for grouped in re.findall(r"by \(([\w, ]+)\)", query):
            metric = next(iter(re.findall(rf"{PREFIX}\w+", query)))
            assert set(grouped.split(", ")) <= known[metric], query


def test_panels_do_not_overlap_and_have_their_own_ids() -> None:
    panels = dashboard()["panels"]
    assert len({p["id"] for p in panels}) == len(panels)
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not own & cells, panel["title"]
        assert place["x"] + place["w"] <= 24
        cells |= own


def test_every_metric_is_documented() -> None:
    text = (DOCS / "metrics.md").read_text()
    assert set(re.findall(rf"`({PREFIX}[a-z_]+)`", text)) == {PREFIX + name for name in CATALOG}


def test_what_grafana_needs_to_import_it() -> None:
    """A name for links, a version of the format, a data source that is asked for, and two letters' room for queries."""
    found = dashboard()
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", found["uid"])
    assert found["title"]
    assert "id" not in found, "an id of another Grafana"
    assert found["schemaVersion"] >= 36
    variables = {v["name"]: v for v in found["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    for panel in found["panels"]:
        assert panel["title"]
        if panel["type"] == "row":
            continue
        targets = panel["targets"]
        assert len({t["refId"] for t in targets}) == len(targets) > 0
        for part in (panel, *targets):
            assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(found))) - {"__all"}
    assert used == set(variables)


def series(text: str) -> Iterator[dict[str, str]]:
    """The exported text as promtool takes it: gauges stand still, counters count."""
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, _, number = line.rpartition(" ")
        grows = re.match(r"[a-z_]+_total\b", name)
        yield {"series": name, "values": f"0+{number}x1500" if grows else f"{number}+0x1500"}


def asked() -> set[str]:
    """The queries as Grafana sends them."""
    own = [query for query in queries() if not query.startswith("label_values")]
    return {query.replace("$cluster", cluster) for query in own for cluster in CLUSTERS}


def unanswered(text: str, directory: Path) -> int:
    """Number of queries to which Prometheus has no answer, or only NaN, after a day of these metrics."""
    expressions = [{"expr": f"absent(({q}) == ({q}))", "eval_time": "1d", "exp_samples": []} for q in sorted(asked())]
    test = {"interval": "1m", "input_series": list(series(text)), "promql_expr_test": expressions}
    path = directory / "test.yml"
    path.write_text(json.dumps({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, timeout=300)
    said = done.stdout + done.stderr
    assert (done.returncode == 0) == ("expr: " not in said), said
    return said.count("expr: ")


@needs_promtool
def test_every_panel_shows_something(everything: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "--ledger", str(everything), "--since", "2020-01-01"]) == 0
    text = capfd.readouterr().out
    assert unanswered(text, tmp_path) == 0
    for name in ("jobs", "scanned_bytes_total", "spool_events", "reconciled_timestamp_seconds"):
        without = "\n".join(line for line in text.splitlines() if not re.match(rf"{PREFIX}{name}\b", line))
        need_it = sum(bool(re.search(rf"\b{PREFIX}{name}\b", query)) for query in asked())
        assert unanswered(without, tmp_path) == need_it > 0, "a panel without its metric must be noticed"


def test_grafanas_own_library_knows_every_key() -> None:
    """What it does not know it drops when it reads the file and writes it again."""
    models = pytest.importorskip("grafana_foundation_sdk.models.dashboard")
    encoder = pytest.importorskip("grafana_foundation_sdk.cog.encoder")
    pytest.importorskip("grafana_foundation_sdk.cog.plugins").register_default_plugins()

    def dropped(before: Any, after: Any, where: str = "") -> Iterator[str]:
        if isinstance(before, dict) and isinstance(after, dict):
            for key, value in before.items():
                yield from dropped(value, after.get(key), f"{where}/{key}")
        elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
            for number, pair in enumerate(zip(before, after, strict=True)):
                yield from dropped(*pair, f"{where}/{number}")
        elif before != after:
            yield where

    found = dashboard()
    read = json.loads(encoder.JSONEncoder().encode(models.Dashboard.from_json(found)))
    assert list(dropped(found, read)) == []
    found["panels"][1]["fieldconfig"] = {}
    assert list(dropped(found, read)) == ["/panels/1/fieldconfig"], "the test can fail"
