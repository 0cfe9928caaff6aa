"""The accounting record from a JSON file."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_triage.errors import NotFoundError, UsageError
from slurm_triage.model.job import Job
from slurm_triage.slurm.record_file import job_from_record, load_record


def local(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_typical_record(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(
        json.dumps(
            {
                "job_id": "10",
                "name": "JAX-llama2-70b-steps_15",
                "state": "FAILED",
                "reason": "NonZeroExitCode",
                "exit_code": "1:0",
                "restarts": 0,
                "submit": "2026-11-30T01:53:30",
                "start": "2026-11-30T01:53:33",
                "end": "2026-11-30T01:53:38",
                "nodes": "chi[2803-2804]",
                "node_count": 2,
                "partition": "gpu",
                "time_limit": "30-00:00:00",
                "something_else": [1, {}],
            }
        )
    )
    assert load_record(str(path)) == Job(
        job_id="10",
        name="JAX-llama2-70b-steps_15",
        state="FAILED",
        reason="NonZeroExitCode",
        exit_code=1,
        restarts=0,
        submit=local("2026-11-30T01:53:30"),
        start=local("2026-11-30T01:53:33"),
        end=local("2026-11-30T01:53:38"),
        elapsed_s=5.0,
        nodes=("chi2803", "chi2804"),
        node_count=2,
        partition="gpu",
        time_limit_s=30 * 86400.0,
        source="file",
        final=True,
    )


@pytest.mark.parametrize(
    "text, state",
    [
        ("FAILED", "FAILED"),
        ("CANCELLED by 2001", "CANCELLED"),
        ("CANCELLED+", "CANCELLED"),
        ("canceled", "CANCELLED"),
        ("CA", "CANCELLED"),
        ("NF", "NODE_FAIL"),
        ("FAILED,REQUEUED", "FAILED"),
        ("OUT_OF_MEMORY", "OUT_OF_MEMORY"),
        ("SOME_NEW_STATE", "SOME_NEW_STATE"),
        (["TIMEOUT", "DRAIN"], "TIMEOUT"),
        ("", None),
        (None, None),
    ],
)
def test_state(text: object, state: str | None) -> None:
    assert job_from_record({"state": text}).state == state


@pytest.mark.parametrize(
    "value, code, signal",
    [
        ("1:0", 1, None),
        ("143:0", 143, None),
        ("0:9", 0, 9),
        ("0:53", 0, 53),
        ("0:0", 0, None),
        (1, 1, None),
        (137, 137, None),
        ("137", 137, None),
        (256, 1, None),
        (4021, 15, 53),
        (None, None, None),
        ("", None, None),
    ],
)
def test_exit_code(value: object, code: int | None, signal: int | None) -> None:
    job = job_from_record({"exit_code": value, "derived_exit_code": value})
    assert (job.exit_code, job.exit_signal) == (code, signal)
    assert (job.derived_exit_code, job.derived_exit_signal) == (code, signal)


def test_separate_signal() -> None:
    job = job_from_record({"exit_code": 0, "exit_signal": 9})
    assert (job.exit_code, job.exit_signal) == (0, 9)


@pytest.mark.parametrize(
    "key, value, seconds",
    [
        ("time_limit", "365-00:00:00", None),
        ("time_limit", "00:01:00", 60.0),
        ("time_limit", "UNLIMITED", None),
        ("time_limit", "Partition_Limit", None),
        ("time_limit", 90, 5400.0),
        ("time_limit", "90", 5400.0),
        ("time_limit_s", 90, 90.0),
        ("time_limit", None, None),
        ("elapsed", "1-02:03:04", 93_784.0),
        ("elapsed", 12.5, 12.5),
        ("elapsed_s", "7", 7.0),
    ],
)
def test_durations(key: str, value: object, seconds: float | None) -> None:
    job = job_from_record({key: value})
    assert (job.time_limit_s if key.startswith("time") else job.elapsed_s) == seconds


@pytest.mark.parametrize(
    "value, epoch",
    [
        ("2026-11-30T01:53:33+00:00", 1796003613.0),
        ("2026-11-30T01:53:33Z", 1796003613.0),
        ("2026-11-30T02:53:33+01:00", 1796003613.0),
        (1796003613, 1796003613.0),
        (1796003613.5, 1796003613.5),
        ("1796003613", 1796003613.0),
        ("Unknown", None),
        ("None", None),
        ("", None),
        (0, None),
        (None, None),
    ],
)
def test_times(value: object, epoch: float | None) -> None:
    assert job_from_record({"start": value}).start == epoch


@pytest.mark.parametrize(
    "value, nodes",
    [
        ("chi[2801-2802,2805]", ("chi2801", "chi2802", "chi2805")),
        (["n1", "n[2-3]"], ("n1", "n2", "n3")),
        ("None assigned", ()),
        ("", ()),
        ([], ()),
        (None, ()),
    ],
)
def test_nodes(value: object, nodes: tuple[str, ...]) -> None:
    job = job_from_record({"nodes": value})
    assert job.nodes == nodes
    assert job.node_count == (len(nodes) or None)


class TestPlannedTimes:
    TIMES: dict[str, object] = {"start": 1000, "end": 2000}  # noqa: RUF012 - never changed

    def test_pending(self) -> None:
        """PITFALLS B9: a requeued job shows when it may start again, and an end a year later."""
        job = job_from_record({"state": "PENDING", "reason": "BeginTime", "restarts": 1, "nodes": "", **self.TIMES})
        assert (job.start, job.end, job.elapsed_s, job.final, job.restarts) == (None, None, None, False, 1)

    def test_running(self) -> None:
        job = job_from_record({"state": "RUNNING", "nodes": "n1", **self.TIMES})
        assert (job.start, job.end, job.final) == (1000.0, None, False)

    def test_completing(self) -> None:
        job = job_from_record({"state": "COMPLETING", "nodes": "n1", **self.TIMES})
        assert (job.start, job.end, job.final) == (1000.0, 2000.0, False)

    def test_cancelled_while_pending(self) -> None:
        """sacct prints Start = End for those."""
        job = job_from_record({"state": "CANCELLED by 5", "nodes": "None assigned", "start": 2000, "end": 2000})
        assert job.never_started
        assert (job.start, job.end) == (None, 2000.0)

    @pytest.mark.parametrize("state", ["CANCELLED", "REQUEUED", "NODE_FAIL", "FAILED", "DEADLINE"])
    def test_a_run_without_a_node_took_no_time(self, state: str) -> None:
        """sacct prints 00:00:00 for those, and accounting says nothing."""
        record = {"state": state, "nodes": "None assigned", "start": 2000, "end": 2000, "elapsed": "00:00:00"}
        job = job_from_record(record)
        assert (job.start, job.elapsed_s, job.never_started) == (None, None, True)

    def test_cancelled_while_running(self) -> None:
        job = job_from_record({"state": "CANCELLED by 5", "nodes": "n1", **self.TIMES})
        assert not job.never_started
        assert job.elapsed_s == 1000.0

    def test_without_state_nothing_is_dropped(self) -> None:
        assert (job_from_record(self.TIMES).end, job_from_record(self.TIMES).final) == (2000.0, False)

    def test_no_end_is_not_final(self) -> None:
        assert not job_from_record({"state": "FAILED", "end": "Unknown"}).final


def test_steps_and_earlier_attempts() -> None:
    job = job_from_record(
        {
            "state": "FAILED",
            "steps": [
                {"step_id": "batch", "state": "FAILED", "exit_code": "1:0"},
                {"step_id": 0, "name": "train", "exit_code": "0:9", "nodes": "n[1-2]", "max_rss_bytes": 5},
            ],
            "earlier": [{"state": "NODE_FAIL", "restarts": 0, "end": 5, "start": 1, "nodes": "n1"}],
        }
    )
    assert [(s.step_id, s.state, s.exit_code, s.exit_signal) for s in job.steps] == [
        ("batch", "FAILED", 1, None),
        ("0", None, 0, 9),
    ]
    assert (job.steps[1].nodes, job.steps[1].max_rss_bytes) == (("n1", "n2"), 5)
    assert [(a.state, a.elapsed_s) for a in job.earlier] == [("NODE_FAIL", 4.0)]


def test_ids_and_counts_as_numbers_or_texts() -> None:
    job = job_from_record({"id": 7, "array_job_id": "6", "array_task_id": 0, "uid": "2001", "gpus": 8.0})
    assert (job.job_id, job.array_job_id, job.array_task_id, job.uid, job.gpus) == ("7", "6", "0", 2001, 8)


def test_words_for_no_value() -> None:
    job = job_from_record({"reason": "None", "failed_node": "n/a", "name": "none", "comment": "", "gpus": "N/A"})
    assert (job.reason, job.failed_node, job.name, job.comment, job.gpus) == (None, None, "none", None, None)


@pytest.mark.parametrize(
    "record, sentence",
    [
        ([], "a job record must be a JSON object, not a list"),
        ("x", "a job record must be a JSON object, not a text"),
        (None, "a job record must be a JSON object, not null"),
        ({"state": 5}, "'state' must be a Slurm job state such as \"FAILED\", not 5"),
        ({"state": "!"}, "'state' must be"),
        ({"exit_code": "one"}, "'exit_code' must be code:signal such as \"1:0\", not 'one'"),
        ({"exit_code": -9}, "'exit_code' must be"),
        ({"exit_code": True}, "'exit_code' must be"),
        ({"exit_code": {"a": 1}}, "'exit_code' must be .* not an object"),
        ({"exit_code": "\u00b2:0"}, "'exit_code' must be"),
        ({"start": "yesterday"}, "'start' must be a time such as"),
        ({"end": 1e30}, "'end' must be a time"),
        ({"end": -1}, "'end' must be a time"),
        ({"end": float("nan")}, "'end' must be a time"),
        ({"time_limit": "soon"}, "'time_limit' must be a duration"),
        ({"elapsed": "9" * 5000 + ":00"}, "'elapsed' must be a duration"),
        ({"nodes": 5}, "'nodes' must be a node list"),
        ({"nodes": [5]}, "'nodes' must be a node list"),
        ({"restarts": 1.5}, "'restarts' must be a whole number"),
        ({"restarts": "many"}, "'restarts' must be a whole number"),
        ({"name": 5}, "'name' must be a text"),
        ({"partition": ["a"]}, "'partition' must be a text, not a list"),
        ({"job_id": 1.5}, "'job_id' must be an id"),
        ({"steps": {}}, "'steps' must be a list"),
        ({"steps": [5]}, "each of 'steps' must be a JSON object"),
        ({"steps": [{}]}, "each of 'steps' needs a 'step_id'"),
        ({"earlier": [5]}, "a job record must be a JSON object, not a number"),
    ],
)
def test_wrong_types(record: object, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as error:
        job_from_record(record)  # type: ignore[arg-type]
    assert error.value.exit_status == 2
    assert len(str(error.value)) < 300
    assert "\n" not in str(error.value)


class TestFile:
    @pytest.mark.parametrize(
        "content, sentence",
        [
            (b"", "is not valid JSON"),
            (b"{", r"is not valid JSON \(.*line 1\)"),
            (b'{"a": NaN}', "is not valid JSON"),
            (b"\xff\xfe", "is not valid JSON"),
            (b"[" * 100_000, "is not valid JSON"),
            (b'[{"state": "FAILED"}, {}]', "cannot be used: a job record must be a JSON object, not a list"),
            (b'{"state": 5}', "cannot be used: 'state' must be"),
            (b"5", "cannot be used: a job record must be a JSON object, not a number"),
        ],
    )
    def test_broken(self, tmp_path: Path, content: bytes, sentence: str) -> None:
        path = tmp_path / "a.json"
        path.write_bytes(content)
        with pytest.raises(UsageError, match=sentence) as error:
            load_record(str(path))
        assert str(error.value).count("\n") == 0

    def test_list_of_one(self, tmp_path: Path) -> None:
        path = tmp_path / "a.json"
        path.write_text('[{"state": "FAILED"}]')
        assert load_record(str(path)).state == "FAILED"

    @pytest.mark.parametrize("name", ["nosuch.json", ".", "a\0b"])
    def test_missing(self, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(NotFoundError, match=r"cannot read the accounting record .*; check --accounting"):
            load_record(name)

    def test_too_large(self, tmp_path: Path) -> None:
        path = tmp_path / "a.json"
        path.touch()
        os.truncate(path, 1 << 30)
        with pytest.raises(UsageError, match="larger than 16 MiB"):
            load_record(str(path))


KEYS = [
    *("job_id", "state", "reason", "exit_code", "exit_signal", "derived_exit_code", "start", "end", "submit"),
    *("elapsed", "elapsed_s", "time_limit", "nodes", "restarts", "steps", "earlier", "name", "uid", "step_id"),
    *("node_count", "max_rss_bytes"),
]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
SLURMISH = st.from_regex(r"[0-9\-:\[\],nT+ ]{0,25}", fullmatch=True)
VALUES = st.recursive(
    SCALARS | SLURMISH,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES) | VALUES)
def test_any_json_gives_a_job_or_one_sentence(record: object) -> None:
    try:
        job = job_from_record(record)  # type: ignore[arg-type]
    except UsageError:
        return
    assert job.source == "file"
    assert job.exit_code is None or 0 <= job.exit_code <= 99_999
    assert job.state != "PENDING" or (job.start is None and job.end is None)
