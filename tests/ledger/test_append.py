"""The writer: what is acknowledged is durable and read once; a replaced or failing writer acknowledges nothing."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from slurm_triage.errors import LedgerError
from slurm_triage.ledger.append import Writer, open_writer
from slurm_triage.ledger.files import Files
from slurm_triage.ledger.read import records, snapshot
from slurm_triage.ledger.segment import segments
from slurm_triage.ledger.verify import verify
from tests.ledger.faults import FaultyFiles
from tests.ledger.samples import DAY_S, T0, record


class Clock:
    def __init__(self, now: float = T0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def unlocked(_directory: Path, _timeout_s: float) -> object:
    return lambda: None


def ids(root: Path) -> list[str]:
    return [r.job_id for r in records(snapshot([root]))]


def test_records_come_back_in_order_with_every_field(tmp_path: Path) -> None:
    written = [record(i, node_evidence=(("chi2803", "fault"),), versions={"JAX_VERSION": "0.8"}) for i in range(5)]
    with open_writer(tmp_path, "alpha") as writer:
        assert writer.append(written) == 5
        assert writer.append([]) == 0
    assert list(records(snapshot([tmp_path]))) == written


def test_the_newest_revision_of_an_attempt_counts(tmp_path: Path) -> None:
    first = record(1, cls="unknown-death")
    second = replace(first, revision=first.revision + 1, cls="hang")
    with open_writer(tmp_path, "alpha") as writer:
        writer.append([first, record(2)])
        writer.append([second, first])
    snap = snapshot([tmp_path])
    assert [(r.job_id, r.cls) for r in records(snap)] == [("7002", "gpu-hw-fault"), ("7001", "hang")]
    assert snap.counts.superseded == 2


def test_attempts_of_one_job_are_kept_apart(tmp_path: Path) -> None:
    with open_writer(tmp_path, "alpha") as writer:
        writer.append([record(1), record(1, attempt="s99", restarts=1)])
    assert ids(tmp_path) == ["7001", "7001"]


def test_a_segment_is_plain_json_lines(tmp_path: Path) -> None:
    with open_writer(tmp_path, "alpha", clock=Clock()) as writer:
        writer.append([record(1)])
    text = (tmp_path / "alpha" / "202603-000001.jsonl").read_text()
    head, line = (orjson.loads(part) for part in text.splitlines())
    assert head["seg"]["format"] == 1
    assert line["rec"]["job_id"] == "7001"
    assert line["rec"]["class"] == "gpu-hw-fault"


def test_segments_rotate_by_size_and_month_and_are_sealed(tmp_path: Path) -> None:
    clock = Clock()
    with open_writer(tmp_path, "alpha", clock=clock, segment_bytes=2000) as writer:
        for i in range(9):
            writer.append([record(i)])
        clock.now += 31 * DAY_S
        writer.append([record(10)])
    parts = segments(tmp_path / "alpha")
    assert [s.name for s in parts] == [
        "202603-000001.jsonl",
        "202603-000002.jsonl",
        "202603-000003.jsonl",
        "202604-000004.jsonl",
    ]
    assert [s.seal.why if s.seal else None for s in parts] == ["rotated", "rotated", "rotated", None]
    assert len(ids(tmp_path)) == 10
    assert not verify(tmp_path / "alpha").findings


def test_a_clock_set_back_keeps_the_order(tmp_path: Path) -> None:
    clock = Clock()
    with open_writer(tmp_path, "alpha", clock=clock) as writer:
        writer.append([record(1)])
        clock.now -= 60 * DAY_S
        writer.append([record(2)])
    assert ids(tmp_path) == ["7001", "7002"]
    assert not verify(tmp_path / "alpha").findings


def test_after_a_clean_end_the_next_writer_goes_on_in_the_same_segment(tmp_path: Path) -> None:
    for i in range(3):
        with open_writer(tmp_path, "alpha", clock=Clock()) as writer:
            writer.append([record(i)])
    assert len(segments(tmp_path / "alpha")) == 1
    assert len(ids(tmp_path)) == 3


def test_after_a_crash_the_old_segment_is_sealed_and_never_touched_again(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, "alpha", clock=Clock(), elect=unlocked)
    writer.append([record(1)])
    path = segments(tmp_path / "alpha")[0].path
    with path.open("ab") as file:
        file.write(b'{"crc":"0000')
    before = path.read_bytes()
    with open_writer(tmp_path, "alpha", clock=Clock(), elect=unlocked) as heir:
        heir.append([record(2)])
    assert path.read_bytes() == before
    first, second = segments(tmp_path / "alpha")
    assert first.seal is not None
    assert first.seal.why == "taken-over"
    assert first.seal.torn_from == len(before) - 12
    assert second.seal is None
    assert (tmp_path / "alpha" / "quarantine" / f"{path.name}@{len(before) - 12}").read_bytes() == b'{"crc":"0000'
    verdict = verify(tmp_path / "alpha")
    assert [f.kind for f in verdict.findings] == ["torn"]
    assert not verdict.new_losses


def test_a_writer_that_slept_through_a_take_over_acknowledges_nothing(tmp_path: Path) -> None:
    sleeper = open_writer(tmp_path, "alpha", clock=Clock(), elect=unlocked)
    sleeper.append([record(1)])
    with open_writer(tmp_path, "alpha", clock=Clock(), elect=unlocked) as heir:
        heir.append([record(2)])
        with pytest.raises(LedgerError, match="took over"):
            sleeper.append([record(3)])
        with pytest.raises(LedgerError, match="open a new one"):
            sleeper.append([record(3)])
        heir.append([record(4)])
    sleeper.close()
    assert ids(tmp_path) == ["7001", "7002", "7004"]
    late = [f for f in verify(tmp_path / "alpha").findings if f.kind == "late"]
    assert len(late) == 1
    assert not verify(tmp_path / "alpha").new_losses


def test_a_writer_replaced_between_sync_and_acknowledgement_acknowledges_nothing(tmp_path: Path) -> None:
    class Pausing(Files):
        pause = False

        def datasync(self, fd: int) -> None:
            super().datasync(fd)
            if self.pause:
                self.pause = False
                open_writer(tmp_path, "alpha", clock=Clock(), elect=unlocked).close()

    files = Pausing()
    writer = open_writer(tmp_path, "alpha", files=files, clock=Clock(), elect=unlocked)
    writer.append([record(1)])
    files.pause = True
    with pytest.raises(LedgerError, match="nothing was acknowledged"):
        writer.append([record(2)])
    # It was durable before the successor looked, so it is kept; the caller appends it again and it counts once.
    with open_writer(tmp_path, "alpha", clock=Clock(), elect=unlocked) as heir:
        heir.append([record(2)])
    assert sorted(ids(tmp_path)) == ["7001", "7002"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_failed_write_is_one_sentence_and_the_writer_recovers(tmp_path: Path, code: int) -> None:
    class Broken(Files):
        failing = False

        def write(self, fd: int, data: bytes | memoryview) -> int:
            if self.failing:
                os.write(fd, bytes(data)[:50])
                raise OSError(code, os.strerror(code))
            return super().write(fd, data)

    files = Broken()
    with open_writer(tmp_path, "alpha", files=files, clock=Clock()) as writer:
        writer.append([record(1)])
        files.failing = True
        for _ in range(3):
            with pytest.raises(LedgerError, match="nothing of this batch was recorded") as caught:
                writer.append([record(2)])
            assert os.strerror(code) in str(caught.value)
        files.failing = False
        writer.append([record(2)])
    assert ids(tmp_path) == ["7001", "7002"]
    assert not verify(tmp_path / "alpha").new_losses


def test_a_group_is_synced_once(tmp_path: Path) -> None:
    class Counting(Files):
        syncs = 0

        def datasync(self, fd: int) -> None:
            self.syncs += 1
            super().datasync(fd)

    files = Counting()
    with open_writer(tmp_path, "alpha", files=files) as writer:
        writer.append([record(1)])
        before = files.syncs
        writer.append([record(i) for i in range(500)])
        assert files.syncs == before + 1


def test_numbers_that_were_acknowledged_are_never_given_again(tmp_path: Path) -> None:
    with open_writer(tmp_path, "alpha", clock=Clock()) as writer:
        writer.append([record(1)])
        writer.append([record(2)])
        last = writer.last_seq
    path = segments(tmp_path / "alpha")[0].path
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:-1]))
    (cut,) = verify(tmp_path / "alpha").new_losses
    assert (cut.kind, cut.lost) == ("cut", 1)
    with open_writer(tmp_path, "alpha", clock=Clock()) as writer:
        assert writer.last_seq == last
        writer.append([record(3)])
    assert [(f.kind, f.lost) for f in verify(tmp_path / "alpha").new_losses] == [("gap", 1)]


def test_new_files_get_the_mode_of_the_ledger(tmp_path: Path) -> None:
    root = tmp_path / "ledger"
    root.mkdir()
    root.chmod(0o2750)
    old = os.umask(0o077)
    try:
        with open_writer(root, "alpha") as writer:
            writer.append([record(1)])
    finally:
        os.umask(old)
    assert (root / "alpha").stat().st_mode & 0o7777 == 0o2750
    assert segments(root / "alpha")[0].path.stat().st_mode & 0o777 == 0o640


def test_a_symlink_in_place_of_a_ledger_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "root" / "alpha").mkdir(parents=True)
    (tmp_path / "root" / "alpha" / "high-water").symlink_to(victim)
    with pytest.raises(LedgerError):
        open_writer(tmp_path / "root", "alpha")
    assert victim.read_text() == "precious"


def test_a_writer_name_stays_inside_the_ledger(tmp_path: Path) -> None:
    with open_writer(tmp_path / "root", "../evil") as writer:
        assert writer.directory.parent == tmp_path / "root"


def test_interrupted_append_abandons_the_segment(tmp_path: Path) -> None:
    class Interrupted(Files):
        now = False

        def datasync(self, fd: int) -> None:
            if self.now:
                self.now = False
                raise KeyboardInterrupt
            super().datasync(fd)

    files = Interrupted()
    writer: Writer = open_writer(tmp_path, "alpha", files=files, clock=Clock())
    writer.append([record(1)])
    files.now = True
    with pytest.raises(KeyboardInterrupt):
        writer.append([record(2)])
    writer.append([record(2)])
    writer.close()
    assert ids(tmp_path) == ["7001", "7002"]


def test_the_lock_is_free_after_a_failed_start(tmp_path: Path) -> None:
    open_writer(tmp_path, "alpha").close()
    calls = FaultyFiles()
    open_writer(tmp_path, "alpha", files=calls).close()
    for at in range(calls.calls):
        with pytest.raises(LedgerError):
            open_writer(tmp_path, "alpha", files=FaultyFiles(at, errno.ENOSPC, times=50)).close()
    with open_writer(tmp_path, "alpha") as writer:
        writer.append([record(1)])
