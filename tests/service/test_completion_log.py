"""Slurm's log of ended jobs: each line an event, none of them twice or believed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_triage.errors import PartialResultError, TriageError
from slurm_triage.service import completion_log, event_file
from slurm_triage.service.completion_log import MARK, CompletionLog
from slurm_triage.service.spool import Arrived, Spool

#: As slurmctld 22.05 writes it.
LINE = (
    "JobId={} UserId=alice(2001) GroupId=alice(2001) Name={} JobState=FAILED Partition=debug TimeLimit=UNLIMITED "
    "StartTime=2026-11-30T21:35:51 EndTime=2026-11-30T21:35:51 NodeList=node01 NodeCnt=1 ProcCnt=1 WorkDir=/home/alice "
    "ReservationName= Tres=cpu=1,mem=100M,node=1,billing=1 Account=test QOS=normal WcKey= Cluster=triage "
    "SubmitTime=2026-11-30T21:35:47 EligibleTime=2026-11-30T21:35:47 DerivedExitCode=0:0 ExitCode=3:0 \n"
)


class Place:
    def __init__(self, directory: Path) -> None:
        self.spool, self.state = directory / "spool", directory / "var/state"
        for name in ("new", "tmp", "bad"):
            (self.spool / name).mkdir(parents=True)
        self.path = directory / "var/completed/jobs.log"
        self.path.parent.mkdir(parents=True)
        self.reader = Spool(self.spool, frozenset({os.geteuid()}))
        self.log = self.started()

    def started(self) -> CompletionLog:
        log = CompletionLog(self.path, self.spool, self.state)
        log.load()
        return log

    def restart(self) -> None:
        self.log.close()
        self.log = self.started()

    def write(self, *job_ids: int, name: str = "train", mode: str = "a") -> None:
        with open(self.path, mode) as file:
            file.writelines(LINE.format(job_id, name) for job_id in job_ids)

    def arrived(self) -> list[Arrived]:
        self.log.carry()
        return self.reader.arrivals()

    def job_ids(self) -> list[int]:
        return sorted(int(one.event.job_id) for one in self.arrived())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.log.close()


def test_each_line_is_one_event(place: Place) -> None:
    assert place.job_ids() == []
    place.write(7, 8)
    assert place.job_ids() == [7, 8]
    assert place.job_ids() == []
    place.write(9)
    assert place.job_ids() == [9]


def test_a_worker_goes_on_where_the_last_one_stopped(place: Place) -> None:
    place.write(7)
    assert place.job_ids() == [7]
    place.write(8)
    place.restart()
    assert place.job_ids() == [8]


def test_the_first_one_begins_where_our_log_begins(place: Place) -> None:
    """A line of it may be what has started the worker (slurm-triage-spool.path)."""
    place.write(1, 2, 3)
    (place.state / MARK).unlink()
    place.restart()
    assert place.job_ids() == [1, 2, 3]


def test_the_first_one_does_not_report_a_sites_whole_history(place: Place) -> None:
    place.path = place.path.with_name("slurm_jobcomp.log")
    (place.state / MARK).unlink()
    place.write(1, 2, 3)
    place.restart()
    assert place.job_ids() == []
    place.write(4)
    assert place.job_ids() == [4]


def test_a_killed_worker_loses_none(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between the events and the mark: the next one writes them again."""
    place.write(7, 8)
    with monkeypatch.context() as killed:

        def die(*_: object) -> None:
            raise KeyboardInterrupt

        killed.setattr(completion_log, "put", die)
        with pytest.raises(KeyboardInterrupt):
            place.log.carry()
    place.restart()
    assert set(place.job_ids()) == {7, 8}


def test_half_a_line_waits_for_its_other_half(place: Place) -> None:
    line = LINE.format(12345, "train")
    place.path.write_text(line[:9])
    assert place.job_ids() == []
    place.path.write_text(line)
    assert place.job_ids() == [12345]


@pytest.mark.parametrize("how", ["renamed", "copied and emptied"])
def test_a_rotated_log_is_read_to_its_end_and_then_the_next(place: Place, how: str) -> None:
    place.write(1, 2, 3)
    assert place.job_ids() == [1, 2, 3]
    place.write(4)
    if how == "renamed":
        place.path.rename(place.path.with_suffix(".1"))
        assert place.job_ids() == [4]
        place.write(5)
        assert place.job_ids() == [5]
    else:
        assert place.job_ids() == [4]
        os.truncate(place.path, 0)
        place.write(5)
        assert place.job_ids() == [5]
    place.restart()
    place.write(6)
    assert place.job_ids() == [6]


def test_rotated_while_no_worker_ran(place: Place) -> None:
    place.write(1)
    assert place.job_ids() == [1]
    place.log.close()
    place.path.rename(place.path.with_suffix(".1"))
    place.write(2)
    place.restart()
    assert place.job_ids() == [2]


def test_slurm_may_come_later(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    assert place.job_ids() == []
    assert place.job_ids() == []
    assert caplog.text.count(f"there is no {place.path} yet") == 1
    place.write(1)
    assert place.job_ids() == [1]


def test_a_line_in_a_jobs_name_is_no_more_than_a_hint(place: Place) -> None:
    """Slurm writes the name as it is: ``sbatch -J $'x\\nJobId=999 ...'``."""
    place.write(7, name="x\nJobId=999 UserId=root(0) \nExitCode=9:0")
    arrived = place.arrived()
    assert {one.event.job_id for one in arrived} == {"7", "999"}
    assert [(one.trusted, dict(one.event.env), one.event.kernel) for one in arrived] == [(False, {}, ())] * 2


@pytest.mark.parametrize(
    "text", ["JobId=0 x\n", "JobId=12345678901 x\n", "JobId=7\n", " JobId=7 x\n", "x" * 999 + "\n"]
)
def test_what_names_no_job_is_passed_over(place: Place, text: str) -> None:
    place.path.write_text(text)
    place.write(8)
    assert place.job_ids() == [8]


def test_no_line_is_too_long(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion_log, "MAX_READ_BYTES", 1000)
    place.path.write_text("x" * 5000 + "\n")
    place.write(*range(1, 40))
    found: list[int] = []
    for _ in range(60):
        found += place.job_ids()
    assert found == list(range(1, 40))


def test_our_own_log_does_not_grow_without_end(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion_log, "MAX_OWN_BYTES", 5000)
    held = open(place.path, "a")  # noqa: SIM115 (slurmctld never closes it)
    with held:
        for job_id in range(1, 50):
            held.write(LINE.format(job_id, "train"))
            held.flush()
            assert place.job_ids() == [job_id]
            assert place.path.stat().st_size < 6000
    place.restart()
    place.write(50)
    assert place.job_ids() == [50]


def test_a_sites_own_log_is_left_as_it_is(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion_log, "MAX_OWN_BYTES", 500)
    place.path = place.spool.parent / "elsewhere.log"
    place.restart()
    place.write(*range(1, 9))
    assert place.job_ids() == list(range(1, 9))
    assert place.path.stat().st_size > 3000


def test_what_is_no_file_is_not_read(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    for make in (os.mkfifo, lambda path: path.symlink_to("/etc/passwd"), Path.mkdir):
        make(place.path)
        assert place.job_ids() == []
        place.path.unlink() if not place.path.is_dir() else place.path.rmdir()
    assert f"cannot read {place.path}" in caplog.text
    place.write(1)
    assert place.job_ids() == [1]


def test_a_full_spool_loses_none(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.write(7)
    (place.spool / "tmp").rmdir()
    place.log.carry()
    assert "cannot write into the spool" in caplog.text
    (place.spool / "tmp").mkdir()
    assert place.job_ids() == [7]


def test_a_state_directory_that_cannot_be_used_is_said_at_once(place: Place) -> None:
    (place.state / MARK).unlink()
    (place.state / MARK).mkdir()
    with pytest.raises(TriageError, match="cannot use the state directory"):
        place.started()


def test_a_log_that_is_away_at_the_start_is_read_from_where_reading_stopped(place: Place) -> None:
    place.write(1, 2)
    assert place.job_ids() == [1, 2]
    place.write(3)
    away = place.path.with_name("away")
    place.path.rename(away)
    place.restart()
    assert place.job_ids() == []
    away.rename(place.path)
    assert place.job_ids() == [3]


def test_a_pipe_in_its_place_at_the_start(place: Place) -> None:
    os.mkfifo(place.path)
    place.restart()
    assert place.job_ids() == []
    place.path.unlink()
    place.write(1)
    assert place.job_ids() == [1]


# ---- whose line is cut off, lost, or read twice ---------------------------------------------------------------------


def test_what_slurm_writes_into_the_old_one_after_it_was_renamed(place: Place) -> None:
    """logrotate makes the new file at once (``create``), slurmctld goes on to it when it is told."""
    held = open(place.path, "a")  # noqa: SIM115 (slurmctld's)
    with held:
        held.write(LINE.format(1, "train"))
        held.flush()
        assert place.job_ids() == [1]
        place.path.rename(place.path.with_suffix(".1"))
        place.path.touch()
        assert place.job_ids() == []
        held.write(LINE.format(2, "train"))
        held.flush()
        assert place.job_ids() == [2]
        held.write(LINE.format(3, "train"))
    place.write(4)
    assert place.job_ids() == [3]
    assert place.job_ids() == [4]


@pytest.mark.parametrize("cut", [20, 100, 390])
def test_a_line_that_was_cut_off_does_not_hide_the_next_one(place: Place, cut: int) -> None:
    """22.05 leaves out what is beyond 1 023 bytes, newline included; or slurmctld was killed."""
    with open(place.path, "a") as log:
        log.write(LINE.format(1, "train")[:cut])
    assert place.job_ids() == []
    place.write(2)
    assert place.job_ids() in ([1, 2], [2])
    place.write(3)
    assert place.job_ids() == [3]


def test_a_last_line_without_its_end_is_taken_when_it_does_not_go_on(place: Place) -> None:
    place.write(1)
    os.truncate(place.path, place.path.stat().st_size - 50)
    assert place.job_ids() == []
    assert place.job_ids() == [1]
    place.write(2)
    assert place.job_ids() == [2]


def test_the_next_file_follows_half_a_line(place: Place) -> None:
    place.write(1)
    assert place.job_ids() == [1]
    with open(place.path, "a") as log:
        log.write("JobI")
    place.path.rename(place.path.with_suffix(".1"))
    place.write(2)
    found = place.job_ids() + place.job_ids() + place.job_ids()
    assert found == [2]


def test_a_last_line_without_its_end_in_a_file_that_is_over(place: Place) -> None:
    place.write(1)
    assert place.job_ids() == [1]
    with open(place.path, "a") as log:
        log.write(LINE.format(2, "train")[:300])
    place.path.rename(place.path.with_suffix(".1"))
    place.write(3)
    assert place.job_ids() + place.job_ids() == [2, 3]


@pytest.mark.parametrize("by_then", ["running", "restarted"])
def test_emptied_and_longer_than_before_when_it_is_looked_at_again(place: Place, by_then: str) -> None:
    place.write(1, 2)
    assert place.job_ids() == [1, 2]
    if by_then == "restarted":
        place.log.close()
    os.truncate(place.path, 0)
    place.write(3, 4, 5, 6)
    if by_then == "restarted":
        place.log = place.started()
    assert place.job_ids() == [3, 4, 5, 6]


def test_another_file_with_the_number_of_the_old_one(place: Place) -> None:
    """The old one was compressed and removed while no worker ran, and its inode used again."""
    place.write(1)
    assert place.job_ids() == [1]
    place.log.close()
    place.write(7, 8, mode="w")
    place.log = place.started()
    assert place.job_ids() == [7, 8]


def test_the_mark_of_an_earlier_version(place: Place) -> None:
    place.write(1)
    assert place.job_ids() == [1]
    inode, offset, _ = (place.state / MARK).read_text().split()
    (place.state / MARK).write_text(f"{inode} {offset}\n")
    place.write(2)
    place.restart()
    assert place.job_ids() == [2]


@pytest.mark.parametrize("mark", [b"\xff\xfe\n", b"", b"7 99999999999999999999999\n", b"x y z\n"])
def test_a_mark_that_is_none(place: Place, mark: bytes) -> None:
    place.write(1)
    (place.state / MARK).write_bytes(mark)
    place.restart()
    assert place.job_ids() == [1]
    place.write(2)
    assert place.job_ids() == [2]


def test_a_spool_with_room_for_some_is_given_the_others_next_time(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It used to be given the first ones for ever."""
    place.write(*range(1, 31))
    monkeypatch.setattr(completion_log, "MAX_EVENTS", 5)
    real, room = event_file.record_many, [0]

    def record_many(spool: Path, job_ids: list[str], *, kind: str) -> Path:
        if not room[0]:
            raise PartialResultError("the disk is full")
        room[0] -= 1
        return real(spool, job_ids, kind=kind)

    monkeypatch.setattr(event_file, "record_many", record_many)
    found = []
    for _ in range(3):
        room[0] = 2
        arrived = place.arrived()
        found += sorted(int(one.event.job_id) for one in arrived)
        place.reader.remove([one.name for one in arrived])
        place.restart()
    assert found == list(range(1, 31))
