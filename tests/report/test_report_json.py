"""The document: exactly the documented keys, honest about what is unknown, the same bytes for the same input."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest

from slurm_triage.model import diagnosis as diagnosis_model
from slurm_triage.model import files as files_model
from slurm_triage.model import job as job_model
from slurm_triage.model import progress as progress_model
from slurm_triage.model import rule as rule_model
from slurm_triage.model.diagnosis import Finding
from slurm_triage.model.facts import NO_FACTS
from slurm_triage.model.files import NO_FILES, LogFile
from slurm_triage.model.job import NO_JOB
from slurm_triage.model.progress import Cost, Progress, RankProgress, Throughput
from slurm_triage.report.build_document import report_document
from slurm_triage.report.stored import SCHEMA_FILE
from slurm_triage.report.to_json import to_json

from .sample_base import diagnosis, match, report
from .sample_reports import SAMPLES, failed, healthy

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads(SCHEMA_FILE.read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker())

#: The contract: top-level keys in this order (those in between are additions).
CONTRACT = [
    *("schema", "generator", "generated_at", "job", "accounting", "log", "status", "primary", "findings", "harmless"),
    *("stages", "exits", "progress", "throughput", "cost", "suspects", "resubmit", "dashboards", "narrative"),
    *("next_steps", "notes"),
]


def nothing_known() -> Any:
    return replace(
        report(),
        job=NO_JOB,
        launcher="other",
        nodes=(),
        node_count=None,
        files=NO_FILES,
        facts=NO_FACTS,
        stages=(),
        progress=Progress(),
        throughput=Throughput(),
        cost=Cost(),
        log_path="",
        now=None,
        diagnosis=diagnosis(status="unknown", narrative="", harmless=()),
    )


def key_paths(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every documented key with its schema: ``findings[].first.file``."""
    for name, inner in schema.get("properties", {}).items():
        own = f"{path}.{name}".lstrip(".")
        items = inner.get("items", {})
        if "properties" in items:
            yield own + "[]", inner
            yield from key_paths(items, own + "[]")
        else:
            yield own, inner
            yield from key_paths(inner, own)


def used_paths(value: Any, schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """The paths that a document holds, named as ``key_paths`` names them."""
    if isinstance(value, dict) and "properties" in schema:
        for name, item in value.items():
            inner = schema["properties"][name]
            own = f"{path}.{name}".lstrip(".")
            if isinstance(item, list) and "properties" in inner["items"]:
                yield own + "[]"
                for element in item:
                    yield from used_paths(element, inner["items"], own + "[]")
            else:
                yield own
                yield from used_paths(item, inner, own)


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("name", SAMPLES)
def test_documents_fit_the_schema(name: str, share: bool) -> None:
    VALIDATOR.validate(json.loads(to_json(SAMPLES[name](), share=share)))


def test_the_schema_itself_is_valid_and_strict() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for path, schema in [("", SCHEMA), *key_paths(SCHEMA)]:
        for part in (schema, schema.get("items", {})):
            if "properties" in part:
                assert part["additionalProperties"] is False, path
                assert part["required"] == list(part["properties"]), path
                assert part["description"], path


def test_a_foreign_or_missing_key_is_refused() -> None:
    document = report_document(failed())
    extra = {**document, "job": {**document["job"], "colour": "red"}}
    missing = {key: value for key, value in document.items() if key != "harmless"}
    assert not VALIDATOR.is_valid(extra)
    assert not VALIDATOR.is_valid(missing)
    assert VALIDATOR.is_valid(document)


def test_the_contract_s_keys_stand_in_its_order() -> None:
    keys = list(report_document(healthy()))
    assert [key for key in keys if key in CONTRACT] == CONTRACT
    assert keys == list(SCHEMA["properties"])


def test_docs_schema_and_output_name_the_same_keys() -> None:
    in_schema = dict(key_paths(SCHEMA))
    in_output: set[str] = set()
    for make in SAMPLES.values():
        in_output |= set(used_paths(report_document(make()), SCHEMA))
    assert in_output == set(in_schema)

    docs = (ROOT / "docs" / "json.md").read_text("utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| .+? \| (.+) \|$", docs, re.MULTILINE)
    documented = {path: text.replace("\\|", "|") for path, text in rows}
    sections = set(re.findall(r"^### `([^`]+)`", docs, re.MULTILINE))
    assert set(documented) | sections == set(in_schema)
    for path, text in documented.items():
        assert text == in_schema[path]["description"], f"docs/json.md says something else about {path} than the schema"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("status", diagnosis_model.Status),
        ("primary.domain", rule_model.Domain),
        ("primary.confidence", diagnosis_model.Confidence),
        ("primary.retry", rule_model.Retry),
        ("findings[].role", rule_model.Role),
        ("suspects[].confidence", diagnosis_model.Confidence),
        ("resubmit.action", diagnosis_model.ResubmitAction),
        ("job.launcher", job_model.Launcher),
        ("accounting.source", job_model.AccountingSource),
        ("log.files[].role", files_model.FileRole),
        ("progress.start", progress_model.Start),
        ("throughput.pattern", progress_model.Pattern),
    ],
)
def test_words_of_the_schema_are_those_of_the_model(path: str, words: Any) -> None:
    allowed = dict(key_paths(SCHEMA))[path]["enum"]
    assert [word for word in allowed if word is not None] == list(get_args(words))


def test_unknown_is_null_never_zero_or_empty_text() -> None:
    document = report_document(nothing_known())
    VALIDATOR.validate(document)

    def leaves(value: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            for item in value.values():
                yield from leaves(item)
        elif isinstance(value, list):
            for item in value:
                yield from leaves(item)
        else:
            yield value

    assert "" not in list(leaves(document))
    assert not [
        value
        for value in leaves({**document, "job": {**document["job"], "attempt": None}})
        if value == 0 and value is not False
    ]
    assert document["primary"] is None
    assert document["log"]["bytes_scanned"] is None


def test_numbers_that_json_cannot_hold_are_null() -> None:
    base = report()
    odd = replace(
        base,
        progress=replace(
            base.progress,
            step_time_s=math.nan,
            remaining_s=math.inf,
            lost_s=-math.inf,
            last_step=10**40,
            percent=100 / 3,
            ranks=(RankProgress(0, 0, 2**60),),
        ),
        job=replace(base.job, start=1e300, end=math.nan, submit=-1e18),
    )
    text = to_json(odd)
    document = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} in the output"))
    progress = document["progress"]
    assert [progress[key] for key in ("step_time_s", "remaining_s", "lost_s", "last_step")] == [None] * 4
    assert progress["ranks"] == [{"rank": 0, "first": 0, "last": None}]
    assert progress["percent"] == 33.333333
    assert [document["job"][key] for key in ("start", "end", "submit")] == [None] * 3
    VALIDATOR.validate(document)


def test_bytes_of_file_names_that_are_not_utf8_are_replaced() -> None:
    path = b"/data/caf\xe9/7877.log".decode("utf-8", "surrogateescape")
    base = report()
    files = replace(base.files, logs=(LogFile(path, "primary"),), job_dir=None)
    document = json.loads(to_json(replace(base, files=files, log_path=path)))
    assert document["log"]["path"] == "/data/caf\ufffd/7877.log"
    assert document["log"]["files"][0]["path"] == "/data/caf\ufffd/7877.log"


def test_characters_that_act_on_a_terminal_are_escaped_but_kept() -> None:
    nasty = "a\x1b[2Jb\x9b31mc\x7fd\u202ee\u200bf\ufeffg\u2028h\U000e0041i\xadj"
    base = failed()
    text = to_json(replace(base, job=replace(base.job, name=nasty)))
    assert not set(nasty) & set(text.decode()) - set("a[2Jb31mcdefghij")
    assert json.loads(text)["job"]["name"] == nasty


def test_findings_stand_in_the_order_of_the_log() -> None:
    late, early = match("late", 90, "late"), match("early", 10, "early")
    findings = (
        Finding("hang", "root", "silent", "stall"),
        Finding("node-fail", "consequence", "late", "late", match=late),
        Finding("stage-fail", "consequence", "after-late", "after"),
        Finding("oom-gpu", "root", "early", "early", match=early),
    )
    document = report_document(report(diagnosis=diagnosis(findings=findings)))
    assert [f["rule"] for f in document["findings"]] == ["silent", "early", "late", "after-late"]
    assert document["findings"][1]["first"] == {
        "file": document["log"]["path"],
        "line": 10,
        "offset": 970,
        "text": "early",
    }
    assert document["findings"][0]["first"] is None


@pytest.mark.parametrize("name", SAMPLES)
def test_same_input_same_bytes(name: str) -> None:
    first, second = SAMPLES[name](), replace(SAMPLES[name](), generated_at=2_000_000_000.0)
    stamp = re.compile(rb'"generated_at": "[^"]+"')
    assert to_json(first) == to_json(SAMPLES[name]())
    assert stamp.sub(b"", to_json(first)) == stamp.sub(b"", to_json(second))


def test_the_wheel_ships_schema_and_templates(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "slurm_triage", source / "slurm_triage", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, source / name)
    (source / "README.md").write_text("x")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "slurm_triage" / "report"
    data = [*package.glob("templates/*"), *package.glob("schema/*")]
    assert data
    assert {str(path.relative_to(ROOT)) for path in data} <= names
