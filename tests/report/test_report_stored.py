"""A stored report is read back as it was written, and not trusted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.report.build_document import report_document
from slurm_triage.report.markdown import to_markdown
from slurm_triage.report.stored import StoredReportError, load_document
from slurm_triage.report.terminal import to_terminal
from slurm_triage.report.to_html import to_html
from slurm_triage.report.to_json import to_json

from .sample_reports import SAMPLES, failed

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize("name", SAMPLES)
def test_views_of_a_stored_report_are_those_of_the_report(name: str) -> None:
    report = SAMPLES[name]()
    stored = load_document(to_json(report), "triage.json")
    assert stored == report_document(report)
    assert to_json(stored) == to_json(report)
    assert to_markdown(stored) == to_markdown(report)
    assert to_html(stored) == to_html(report)
    assert to_terminal(stored, width=80, color=True) == to_terminal(report, width=80, color=True)
    assert to_markdown(stored, share=True) == to_markdown(report, share=True)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b"{}", b'{"schema": "slurm-triage/2"}', b'{"schema": 1}', b"[" * 5000],
)
def test_other_files_are_refused_in_one_sentence(content: bytes) -> None:
    with pytest.raises(StoredReportError, match=r"'x/triage.json' .*; triage the job again\.$"):
        load_document(content, "x/triage.json")


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        for key, item in value.items():
            found += paths(item, (*path, key))
    if isinstance(value, list):
        for index, item in enumerate(value):
            found += paths(item, (*path, index))
    return found


SAMPLE = json.loads(to_json(failed()))


@given(st.sampled_from(paths(SAMPLE)), JSON)
@settings(max_examples=120, deadline=None)
def test_a_changed_report_is_shown_or_refused(path: tuple[Any, ...], value: Any) -> None:
    document = json.loads(json.dumps(SAMPLE))
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    try:
        content = json.dumps(document).encode()
        stored = load_document(content, "triage.json")
    except StoredReportError:
        return
    for share in (False, True):
        to_terminal(stored, width=80, color=False, share=share)
        to_markdown(stored, share=share)
        to_json(stored, share=share)


@pytest.mark.parametrize("key", ["now", "suppressed", "chain", "evidence", "ranks", "attempts"])
def test_keys_that_an_older_version_did_not_write_are_filled_in(key: str) -> None:
    older = {name: value for name, value in SAMPLE.items() if name != key}
    older["progress"] = {name: value for name, value in SAMPLE["progress"].items() if name != "setup_s"}
    stored = load_document(json.dumps(older).encode(), "triage.json")
    assert stored[key] in (None, [], {})
    assert stored["progress"]["setup_s"] is None
    to_markdown(stored)


def test_keys_of_a_newer_version_are_ignored() -> None:
    newer = {**SAMPLE, "mood": "fine", "job": {**SAMPLE["job"], "colour": "red"}}
    stored = load_document(json.dumps(newer).encode(), "triage.json")
    assert to_markdown(stored) == to_markdown(failed())
