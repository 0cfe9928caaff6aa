"""A shared report tells the same story without names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from slurm_triage.model.files import JobFiles, LogFile
from slurm_triage.model.report import Report
from slurm_triage.report.build_document import report_document
from slurm_triage.report.markdown import to_markdown
from slurm_triage.report.redact import redact
from slurm_triage.report.share import Aliases, share_document
from slurm_triage.report.terminal import to_terminal
from slurm_triage.report.to_html import to_html
from slurm_triage.report.to_json import to_json

from .hostile_reports import HOSTILE, with_hostile_text
from .sample_reports import SAMPLES, failed, hang

VIEWS: list[Callable[[Report], str]] = [
    lambda report: to_markdown(report, share=True),
    lambda report: to_html(report, share=True),
    lambda report: to_terminal(report, width=120, color=False, share=True),
    lambda report: to_json(report, share=True).decode(),
]


def aliases(**document: Any) -> Aliases:
    base = {"job": {"user": "alice", "nodes": ["gpu01", "gpu02", "login"]}}
    return Aliases({**base, **document})


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", SAMPLES)
def test_no_view_shows_a_private_name(name: str, view: Callable[[Report], str]) -> None:
    text = view(SAMPLES[name]())
    for private in ("alice", "gpu0", "/shared", "atlas", "login.", "llm"):
        assert private not in text


@pytest.mark.parametrize("name", SAMPLES)
def test_numbers_classes_and_verdict_stay(name: str) -> None:
    plain, shared = report_document(SAMPLES[name]()), report_document(SAMPLES[name](), share=True)
    for key in ("status", "throughput", "cost", "stages", "harmless", "generated_at"):
        assert shared[key] == plain[key]
    assert {k: v for k, v in shared["progress"].items() if k != "source"} == {
        k: v for k, v in plain["progress"].items() if k != "source"
    }
    for before, after in zip(plain["findings"], shared["findings"], strict=True):
        for key in ("class", "role", "rule", "rank", "step", "count"):
            assert before[key] == after[key]


def test_the_same_name_has_the_same_alias_everywhere() -> None:
    document = report_document(failed(), share=True)
    assert document["job"]["nodes"] == [f"node-{n}" for n in range(1, 9)]
    assert document["primary"]["node"] == "node-4"
    assert "Rank 3 on node-4 ran out" in document["narrative"]
    assert document["log"]["path"] == document["job"]["stdout"] == document["findings"][0]["first"]["file"]
    assert document["progress"]["source"] == document["log"]["path"]
    assert re.fullmatch(r"path-\d+", document["log"]["path"])


def test_node_lists_commands_and_telemetry_are_translated() -> None:
    document = report_document(hang(), share=True)
    assert "-w 'node-[1-8]'" in document["resubmit"]["command"]
    assert document["dashboards"]["tunnel_command"].startswith("ssh -J user-1@node-9 -L 8265:localhost:8265")
    assert document["evidence"]["GPU telemetry"][0].startswith("node-[1-8]: utilization 100 % on 61 of 64 GPUs")


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("gpu01 lost gpu02.site.example", "node-1 lost node-2"),
        ("slurmstepd-gpu02: error: x", "slurmstepd-node-2: error: x"),
        ("nodes gpu[01-02] and gpu07", "nodes node-[1-2] and node-4"),
        ("gpu0 is a device, xgpu01 a word", "gpu0 is a device, xgpu01 a word"),
        ("login failed on login", "node-3 failed on node-3"),
        ("connect to 10.1.2.3:4567 from 10.1.2.3", "connect to ip-1:4567 from ip-1"),
        ("::1 127.0.0.1 0.0.0.0 localhost", "::1 127.0.0.1 0.0.0.0 localhost"),
        ("gid fe80:0000:0000:0000:0202:c9ff:fe0a:1", "gid ip-1"),
        ("at 12:03:44 version 2.19.3 std::vector c10::d a::b", "at 12:03:44 version 2.19.3 std::vector c10::d a::b"),
        ("mac 02:00:5e:10:00:01", "mac mac-1"),
        ("user alice, alice's job, malice", "user user-1, user-1's job, malice"),
        ("bob@site.example and alice@gpu01 and root@gpu02", "email-1 and user-1@node-1 and root@node-2"),
        ("/home/alice/x/y.txt then /home/alice/x/y.txt", "path-1 then path-1"),
        ('File "/home/alice/run/train.py", line 12', 'File "path-1/train.py", line 12'),
        ("/opt/v/lib/python3/site-packages/jax/api.py:3", "path-1/site-packages/jax/api.py:3"),
        ("open /dev/shm/nccl-x and /proc/self/maps", "open /dev/shm/nccl-x and /proc/self/maps"),
        ("Tokens/s/device and/or 1/2/3 /job:jax_worker/replica:0/task:3", None),
        ("pull https://registry.site.example/team/img:1", "pull url-1"),
        ("http://localhost:8265/x", "http://localhost:8265/x"),
        ("memcpy@GLIBC_2.14 comm@0x7f", "memcpy@GLIBC_2.14 comm@0x7f"),
    ],
)
def test_free_text(text: str, shared: str | None) -> None:
    assert aliases(notes=["", text]).text(text) == (text if shared is None else shared)


def test_a_user_named_like_a_word_is_replaced_only_as_a_user() -> None:
    names = aliases(job={"user": "jax", "nodes": ["gpu01"]})
    assert names.text("jax.errors at user=jax, jax@gpu01") == "jax.errors at user=user-1, user-1@node-1"
    assert names.named("user", "jax") == "user-1"


def test_paths_that_hold_blanks_or_are_relative_are_known_from_their_fields() -> None:
    path = "outputs/7 JAX it's/log file.log"
    base = failed()
    files = JobFiles(logs=(LogFile(path, "primary"),))
    report = replace(base, files=files, log_path=path, diagnosis=replace(base.diagnosis, notes=(f"read {path} twice",)))
    document = report_document(report, share=True)
    assert document["notes"] == [f"read {document['log']['path']} twice"]
    assert "it's" not in json.dumps(document)


@pytest.mark.parametrize("name", SAMPLES)
def test_sharing_twice_changes_nothing(name: str) -> None:
    once = report_document(SAMPLES[name](), share=True)
    assert share_document(once) == once
    assert redact(once, share=True) == once


@given(HOSTILE)
@settings(max_examples=60, deadline=None)
def test_sharing_never_fails_and_keeps_the_shape(text: str) -> None:
    plain = {**report_document(with_hostile_text(text)), "history": None}
    shared = share_document(plain)

    def shape(value: Any) -> Any:
        if isinstance(value, dict):
            return [shape(item) for item in value.values()]
        if isinstance(value, list):
            return [shape(item) for item in value]
        return type(value)

    assert shape(shared) == shape(plain)
