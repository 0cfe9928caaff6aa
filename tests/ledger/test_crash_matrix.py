"""A sample of the crash matrix, and proof that the matrix notices what it should."""

import errno
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_triage.ledger import append, fence, frame
from slurm_triage.ledger.files import Files
from tests.ledger import crash_matrix, damage_matrix, workload
from tests.ledger.faults import FaultyFiles
from tests.ledger.workload import Row


@pytest.fixture(autouse=True)
def in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload.scratch, "base", tmp_path)


def test_a_sample_of_every_accident_loses_nothing() -> None:
    rows = list(crash_matrix.matrix(quick=True))
    assert sum(row.injected for row in rows) > 400
    assert [str(row) for row in rows if not row.sound] == []


class _NoSync(FaultyFiles):
    """A file system whose syncs do nothing, as the power cut sees it."""

    def datasync(self, _fd: int) -> None:
        self._gate()
        self._done()


def test_the_matrix_notices_records_that_were_not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash_matrix, "FaultyFiles", _NoSync)
    assert crash_matrix.power_cuts(3, every=9).lost > 0


def test_the_matrix_notices_a_writer_that_acknowledges_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    def eager(self: append.Writer, _segment: object, _data: bytes, last_seq: int) -> None:
        self.last_seq = last_seq

    monkeypatch.setattr(append.Writer, "_commit", eager)
    assert crash_matrix.stops(every=20).lost > 0


def test_the_matrix_notices_checksums_that_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "crc32c", lambda _: 7)
    assert damage_matrix.flips(step=97).undetected > 0


def test_the_matrix_notices_a_ledger_cut_between_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "write_mark", lambda *_: None)
    monkeypatch.setattr("slurm_triage.ledger.verify.read_mark", lambda _: None)
    assert damage_matrix.cuts(step=4).undetected > 0


def test_the_matrix_notices_a_record_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurm_triage.ledger.read.superseded", lambda _: set())
    assert crash_matrix.stops(every=20).doubled > 0


def test_a_power_cut_keeps_what_was_synced_and_may_lose_the_rest(tmp_path: Path) -> None:
    seen = set()
    for seed in range(60):
        files = FaultyFiles()
        path = tmp_path / f"f{seed}"
        fd = files.open(path, 0o1101)
        files.write(fd, b"synced")
        files.datasync(fd)
        files.sync_dir(tmp_path)
        files.write(fd, b"-unsynced")
        files.abandon()
        files.lose_power(random.Random(seed))
        content = path.read_bytes()
        assert content.startswith(b"synced")
        seen.add(content)
    assert b"synced" in seen
    assert len(seen) > 3


def test_a_name_that_was_not_synced_may_vanish(tmp_path: Path) -> None:
    present = set()
    for seed in range(20):
        files = FaultyFiles()
        path = tmp_path / f"f{seed}"
        files.close(files.open(path, 0o1101))
        files.lose_power(random.Random(seed))
        present.add(path.exists())
    assert present == {True, False}


def test_an_error_strikes_at_its_call_and_passes(tmp_path: Path) -> None:
    files: Files = FaultyFiles(1, errno.ENOSPC, times=2)
    fd = files.open(tmp_path / "f", 0o1101)
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            files.write(fd, b"x")
    assert files.write(fd, b"x") == 1


def test_rows_say_whether_they_are_sound() -> None:
    def rows() -> Iterator[Row]:
        yield Row("a", injected=1)
        yield Row("b", injected=0)
        yield Row("c", injected=1, lost=1)
        yield Row("d", injected=1, undetected=1)

    sound: Callable[[Row], bool] = lambda row: row.sound  # noqa: E731
    assert list(map(sound, rows())) == [True, False, False, False]
