"""What somebody with a name in the spool's directory tries: to end the worker, to keep it busy, to keep others' events
from being read, to have messages of a kernel lost."""

from __future__ import annotations

import logging
import os
import time

import pytest

from slurm_triage.service import spool
from slurm_triage.service.batch_file import parse_file
from slurm_triage.service.pending import Pending
from slurm_triage.service.spool import Arrived
from slurm_triage.service.spool_event import BadEventError
from tests.service.test_spool_batches import END, Place, batch, event, place

__all__ = ["place"]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has files of others")
STRANGER, NOBODY = 12_345, 65_534


@pytest.mark.parametrize(
    "data",
    [
        event(5, r"time=\c2\b2"),
        "slurm-triage-batch=1\nhost=a\ntime=\\c2\\b2\n" + event(5, "time=5") + END,
        "slurm-triage-batch=1\nhost=a\ntime=5\n" + event(5, r"time=\c2\b2") + END,
    ],
    ids=["event", "batch", "event of a batch"],
)
def test_a_time_in_superscript_is_none(place: Place, data: str) -> None:
    """It used to end the worker, and the next one, which found the same file."""
    place.put("a", data.encode())
    assert place.reader.arrivals() == []


def test_job_ids_are_ascii() -> None:
    data = event("", r"SUBJECT=Slurm Job_id=\d9\a1 Name=x", kind="mail").replace("SLURM_JOB_ID=\n", "time=5\n")
    with pytest.raises(BadEventError, match="no job"):
        parse_file(data.encode())


def test_names_of_files_write_nothing_into_the_log(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="slurm-triage")
    place.put("x\n2026-12-01 05:00:00,000 job 7: no report, \x1b[2Jforged", batch(event(1), event("x")))
    assert len(place.reader.arrivals()) == 1
    (message,) = [record.getMessage() for record in caplog.records]
    assert "\n" not in message
    assert "\x1b" not in message


def test_what_is_no_event_keeps_nothing_waiting(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Directories cannot be unlinked. They counted as events, and beyond 20 000 of those no log is read on."""
    monkeypatch.setattr(spool, "MAX_BAD", 0)
    for number in range(60):
        (place.directory / f"new/{number}").mkdir()
    for _ in range(3):
        assert place.reader.arrivals() == []
    assert (place.reader.waiting, len(place.reader.stuck)) == (0, 60)
    for number in range(60):
        (place.directory / f"new/{number}").rmdir()
    place.reader.sweep()
    assert place.reader.stuck == set()


@needs_root
def test_what_strangers_wrote_keeps_nothing_waiting(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MAX_OF_USER", 20)
    for number in range(100):
        place.put(f"f{number:03d}", batch(event(number + 1)), STRANGER)
    place.put("z", batch(event(500), event(501)))
    assert len(place.reader.arrivals()) == 22
    assert place.reader.waiting == 2


def test_no_more_is_read_than_memory_is_there_for(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accounting may be away for days; the files wait on their disk."""
    monkeypatch.setattr(spool, "MAX_READ", 30)
    for number in range(10):
        place.put(f"f{number}", batch(*(event(10 * number + n) for n in range(1, 11))))
    seen = 0
    while arrived := place.reader.arrivals():
        assert len(arrived) == 30 or seen == 90
        assert place.reader.arrivals() == []
        seen += len(arrived)
        place.reader.remove([one.name for one in arrived])
    assert seen == 100


@needs_root
def test_an_event_that_is_dealt_with_makes_room_for_others(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of its batch may wait for two days, of a job that runs."""
    monkeypatch.setattr(spool, "MAX_OF_USER", 20)
    for name, first in (("a", 1), ("b", 101)):
        place.put(name, batch(*(event(first + n) for n in range(20))), NOBODY)
    arrived = place.reader.arrivals()
    assert len(arrived) == 20
    place.reader.remove([one.name for one in arrived[:-1]])
    assert len(place.reader.arrivals()) == 20


@needs_root
def test_long_events_cost_no_other_user_of_the_batch(place: Place) -> None:
    """Where the nodes' root is nobody."""
    long = [event(number, "SPANK_SLURM_TRIAGE=" + r"\c3" * 8192) for number in range(1, 46)]
    place.put("a", batch(*long, event(77)), NOBODY)
    assert [one.event.job_id for one in place.reader.arrivals()] == ["77"]


@needs_root
def test_halves_of_one_user_do_not_take_the_time_of_anothers(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MAX_CUT_OFF", 5)
    whole = batch(event(1), event(2))
    for number in range(20):
        place.put(f"a{number:02d}", whole[:-4], STRANGER)
    nodes = place.put("z", whole[:-4], NOBODY)
    assert place.reader.arrivals() == []
    assert nodes.exists()


@needs_root
def test_a_user_with_many_uids_has_no_more_time(place: Place) -> None:
    """65 536 subordinate ones, by newuidmap; what was there of them was all read in one go."""
    escapes = r"\41" * 2700
    data = batch(*(event(number, f"SLURM_X={escapes}") for number in range(1, 101)))
    for number in range(60):
        place.put(f"a{number:02d}", data, 100_000 + number)
    place.put("z", batch(event(1)))
    began = time.process_time()
    arrived = place.reader.arrivals()
    assert any(one.trusted for one in arrived)
    assert time.process_time() - began < spool.READ_ALL_S + 1.0


# ---- what several files say of one kernel ---------------------------------------------------------------------------


def said(now: int, uptime: float, *messages: tuple[float, str], event_uptime: float = 50.0) -> Arrived:
    text = "".join(f"kernel=[{at:12.6f}] {message}\n" for at, message in messages)
    header = f"slurm-triage-batch=1\nhost=n1\ntime={now}\nuptime={uptime}\n{text}"
    (only,) = parse_file(batch(event(1, f"uptime={event_uptime}"), header=header)).events
    return Arrived("x", only, True, 0)


def texts(*arrived: Arrived) -> list[str]:
    pending = Pending("1", 0.0, 0.0)
    pending.arrived = list(arrived)
    return [message.text for message in pending.kernel()["n1"]]


def test_a_buffer_that_begins_in_the_middle_of_a_burst() -> None:
    early = said(1_000_100, 100.0, (99.0, "Out of memory: Killed process 7"), (99.2, "reaped process 7"))
    late = said(1_000_200, 200.0, (99.2, "reaped process 7"), (150.0, "NVRM: Xid 79"))
    for order in ((early, late), (late, early)):
        assert texts(*order) == ["Out of memory: Killed process 7", "reaped process 7", "NVRM: Xid 79"]


def test_an_event_that_was_carried_twice() -> None:
    """The carrier was killed before it removed it; by the rounding of ``date`` the second one seems older."""
    first = said(1_000_101, 100.1, (90.0, "Out of memory: 1"))
    second = said(1_000_130, 130.0, (90.0, "Out of memory: 1"), (96.0, "NVRM: Xid 79"))
    assert second.event.time < first.event.time
    assert texts(first, second) == ["Out of memory: 1", "NVRM: Xid 79"]


def test_messages_without_a_time_displace_none() -> None:
    timed = said(1_000_100, 100.0, (90.0, "Out of memory: 1"))
    header = "slurm-triage-batch=1\nhost=n1\ntime=1000200\nuptime=200.0\nkernel=Out of memory: 2\n"
    untimed = Arrived("y", parse_file(batch(event(1), header=header)).events[0], True, 0)
    assert texts(timed, untimed) == ["Out of memory: 2", "Out of memory: 1"]


def test_the_same_words_again_later_are_another_message() -> None:
    one = said(1_000_100, 100.0, (90.0, "NVRM: Xid 79"), (95.0, "NVRM: Xid 79"))
    assert texts(one, one) == ["NVRM: Xid 79"] * 2
