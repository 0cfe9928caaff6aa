"""Look-ups: right with an index, without one, with a stale or damaged one; filters as in sacct."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_triage.errors import LedgerError
from slurm_triage.ledger import index, query
from slurm_triage.ledger.append import open_writer
from slurm_triage.ledger.query import Filter, by_job, matches, select
from slurm_triage.ledger.read import ReadCounts, snapshot
from slurm_triage.ledger.record import LedgerRecord
from slurm_triage.ledger.segment import segments
from tests.ledger.conftest import Fresh
from tests.ledger.samples import T0, record


def write(root: Path, rows: list[LedgerRecord], name: str = "alpha") -> Path:
    with open_writer(root, name, clock=lambda: T0, segment_bytes=3000) as writer:
        for row in rows:
            writer.append([row])
    return root / name


def found(root: Path, job: str, *clusters: str) -> list[str]:
    return [r.display_id for r in by_job([root], job, clusters)]


ROWS = [
    *(record(i) for i in range(8)),
    record(20, job_id="28", array_job_id="25", array_task_id="3"),
    record(21, job_id="25", array_job_id="25", array_task_id="4"),
    record(22, job_id="29", het_job_id="29"),
    record(23, job_id="30", het_job_id="29"),
    record(24, job_id="k8s-20260310-080957-475e"),
    record(25, job_id="local_20260310_080957_475e"),
]


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ("7003", ["7003"]),
        ("7003.0", ["7003"]),
        ("7003.batch", ["7003"]),
        ("25", ["25_4", "25_3"]),
        ("25_3", ["25_3"]),
        ("28", ["25_3"]),
        ("29", ["29+0", "29+1"]),
        ("29+1", ["29+1"]),
        ("29+0", ["29+0"]),
        ("25_9", []),
        ("3", []),
        ("k8s-20260310-080957-475e", ["k8s-20260310-080957-475e"]),
        ("local_20260310_080957_475e", ["local_20260310_080957_475e"]),
        ("nonsense id \x00", []),
    ],
)
def test_a_job_is_found_by_every_name_it_has(tmp_path: Path, job: str, expected: list[str], indexed: bool) -> None:
    directory = write(tmp_path, ROWS) if indexed else without_indexes(tmp_path, ROWS)
    assert len(list(directory.glob("*.idx"))) == (len(segments(directory)) - 1 if indexed else 0)
    assert found(tmp_path, job) == expected


def test_attempts_oldest_first_newest_revision_of_each(tmp_path: Path) -> None:
    one = record(1, attempt="s5", start=5.0, restarts=0, state="NODE_FAIL")
    two = record(1, attempt="s9", start=9.0, restarts=1)
    write(tmp_path, [two, one, replace(two, revision=two.revision + 1, cls="hang")])
    assert [(r.restarts, r.cls) for r in by_job([tmp_path], "7001")] == [(0, "gpu-hw-fault"), (1, "hang")]


def test_a_later_line_with_an_older_revision_does_not_win(tmp_path: Path) -> None:
    new = record(1, cls="hang")
    write(tmp_path, [new, replace(new, revision=new.revision - 1, cls="unknown-death")])
    assert [r.cls for r in by_job([tmp_path], "7001")] == ["hang"]


def test_several_clusters(tmp_path: Path) -> None:
    write(tmp_path, [record(1)])
    write(tmp_path, [record(1, cluster="beta")], "beta")
    assert [r.cluster for r in by_job([tmp_path], "7001")] == ["alpha", "beta"]
    assert [r.cluster for r in by_job([tmp_path], "7001", ["beta"])] == ["beta"]


def without_indexes(root: Path, rows: list[LedgerRecord]) -> Path:
    directory = write(root, rows)
    for path in directory.glob("*.idx"):
        path.unlink()
    return directory


def test_the_writer_makes_indexes_when_it_has_time(tmp_path: Path) -> None:
    with open_writer(tmp_path, "alpha", segment_bytes=3000) as writer:
        many = [record(i) for i in range(150)]
        writer.append(many)
        writer.append(many)
        assert not list(writer.directory.glob("*.idx"))
        writer.append(many[:1])
        assert len(list(writer.directory.glob("*.idx"))) == 2


def test_a_look_up_makes_the_missing_indexes(tmp_path: Path) -> None:
    directory = without_indexes(tmp_path, ROWS)
    found(tmp_path, "7001")
    assert len(list(directory.glob("*.idx"))) == len(segments(directory)) - 1


def test_what_is_appended_later_is_found_without_touching_old_indexes(tmp_path: Path) -> None:
    directory = write(tmp_path, ROWS)
    index.refresh(directory)
    before = {path: path.stat().st_mtime_ns for path in directory.glob("*.idx")}
    write(tmp_path, [record(90)])
    assert found(tmp_path, "7090") == ["7090"]
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_an_index_of_other_bytes_is_not_believed(tmp_path: Path) -> None:
    directory = write(tmp_path, ROWS)
    index.refresh(directory)
    first, second, *_ = segments(directory)
    index.index_path(second.path).write_bytes(index.index_path(first.path).read_bytes())
    for row in ROWS:
        assert row.display_id in found(tmp_path, row.job_id)
    assert index.read_head(second) is not None


def test_a_truncated_index_is_not_believed(tmp_path: Path) -> None:
    directory = write(tmp_path, ROWS)
    index.refresh(directory)
    path = index.index_path(segments(directory)[0].path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        assert found(tmp_path, "7001") == ["7001"]
    assert path.read_bytes() == whole


def test_where_the_reader_may_not_write_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = without_indexes(tmp_path, ROWS)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert found(tmp_path, "7001") == ["7001"]
    assert not list(directory.glob("*.idx"))


def test_a_damaged_record_is_not_returned_and_others_are(tmp_path: Path) -> None:
    directory = write(tmp_path, ROWS)
    index.refresh(directory)
    path = segments(directory)[0].path
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"job_id":"7001"', b'"job_id":"7771"'))
    assert found(tmp_path, "7001") == []
    assert found(tmp_path, "7771") == []
    assert found(tmp_path, "7002") == ["7002"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 40), min_size=1, max_size=25), st.integers(0, 40))
def test_index_and_search_agree(fresh: Fresh, numbers: list[int], asked: int) -> None:
    root = fresh()
    directory = without_indexes(root, [record(i, job_id=str(i), array_job_id=str(i // 3)) for i in numbers])
    before = [r.key for r in by_job([root], str(asked))]
    index.refresh(directory)
    assert [r.key for r in by_job([root], str(asked))] == before
    assert len(before) == len({i for i in numbers if asked in (i, i // 3)})


FILTERED = [
    record(1, user="alice"),
    record(2, user="bob", cls="hang", state="CANCELLED by 1000", status="cancelled", fingerprint="f2"),
    record(3, user="carol", nodes="chi[2810-2812]", state="TIMEOUT"),
    record(4, user="bob", status="completed", state="COMPLETED", cls=None, fingerprint=None),
]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Filter(), ["7001", "7002", "7003", "7004"]),
        (Filter(users=("bob",)), ["7002", "7004"]),
        (Filter(users=("bob", "alice")), ["7001", "7002", "7004"]),
        (Filter(classes=("hang",)), ["7002"]),
        (Filter(states=query.parse_states("ca")), ["7002"]),
        (Filter(states=query.parse_states("TO,CD")), ["7003", "7004"]),
        (Filter(states=query.parse_states("failed")), ["7001", "7003"]),
        (Filter(nodes=query.parse_nodes("chi[2811,2899]")), ["7003"]),
        (Filter(fingerprint="f2"), ["7002"]),
        (Filter(since=T0 + 60 * 3 + 3600), ["7003", "7004"]),
        (Filter(until=T0 + 60 * 2), ["7001", "7002"]),
        (Filter(users=("bob",), classes=("hang",), nodes=("chi2801",)), ["7002"]),
        (Filter(users=("nobody",)), []),
    ],
)
@pytest.mark.parametrize("indexed", [True, False])
def test_filters(tmp_path: Path, wanted: Filter, expected: list[str], indexed: bool) -> None:
    (write if indexed else without_indexes)(tmp_path, FILTERED)
    assert [r.job_id for r in select([tmp_path], wanted)] == expected
    assert [r.job_id for r in FILTERED if matches(r, wanted)] == expected


def test_a_filter_sees_only_the_newest_revision(tmp_path: Path) -> None:
    first = record(1, cls="unknown-death")
    write(tmp_path, [first, *(record(i) for i in range(2, 9)), replace(first, revision=first.revision + 1, cls="hang")])
    assert list(select([tmp_path], Filter(classes=("unknown-death",)))) == []
    assert [r.job_id for r in select([tmp_path], Filter(classes=("hang",)))] == ["7001"]


def test_old_segments_are_left_out_by_their_index(tmp_path: Path) -> None:
    rows = [record(i) for i in range(12)]
    directory = write(tmp_path, rows)
    index.refresh(directory)
    counts = ReadCounts()
    recent = list(select([tmp_path], Filter(since=rows[-1].end), counts=counts))
    assert [r.job_id for r in recent] == ["7011"]
    assert counts.lines < 8


def test_a_missing_ledger_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot read the ledger"):
        snapshot([tmp_path / "nowhere"])


def test_an_index_is_never_written_through_a_link(tmp_path: Path) -> None:
    directory = without_indexes(tmp_path, ROWS)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for segment in segments(directory):
        trap = index.index_path(segment.path).with_suffix(f".idx.{os.getpid()}.tmp")
        trap.symlink_to(victim)
    index.refresh(directory)
    assert victim.read_text() == "precious"
    assert found(tmp_path, "7001") == ["7001"]
