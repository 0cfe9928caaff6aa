"""Files of the spool that hold many events: what one of them is good for does not depend on the others."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_triage.service import batch_file, event_file, spool
from slurm_triage.service.batch_file import MAX_EVENTS, events_by_name, parse_file
from slurm_triage.service.pending import Pending
from slurm_triage.service.spool import Arrived, Spool
from slurm_triage.service.spool_event import COMPLETION_KIND, BadEventError, CutOffError

HEADER = "slurm-triage-batch=1\nhost=n1\ntime=1750000000\nuptime=1000.5\nkernel=[  900.25] Out of memory: x\n"
END = "end-batch=1\n"


def event(job_id: int | str, *lines: str, kind: str = "epilog", host: str = "n1") -> str:
    text = "".join(f"{line}\n" for line in lines)
    return f"slurm-triage-event=1\nkind={kind}\nhost={host}\n{text}SLURM_JOB_ID={job_id}\nend=1\n"


def batch(*events: str, header: str = HEADER) -> bytes:
    return (header + "".join(events) + END).encode()


# ---- what is in a file ----------------------------------------------------------------------------------------------


def test_times_come_from_the_clock_of_the_node() -> None:
    first, second, third, fourth = parse_file(
        batch(event(1, "uptime=400.5"), event(2), event(3, "time=7"), event(4, "uptime=2000")), 1.0
    ).events
    assert [one.job_id for one in (first, second, third, fourth)] == ["1", "2", "3", "4"]
    assert first.time == 1750000000 - 600
    assert second.time == 1750000000, "when it was carried, where it tells nothing"
    assert third.time == 7
    assert fourth.time == 1750000000, "a clock that was set back"
    for one in (first, second, third, fourth):
        assert [(said.time, said.text) for said in one.kernel] == [(1750000000 - 1000.5 + 900.25, "Out of memory: x")]


def test_messages_of_a_kernel_belong_to_its_own_host() -> None:
    (other,) = parse_file(batch(event(1, host="n2"))).events
    assert other.kernel == ()


def test_a_value_that_looks_like_an_end_is_none() -> None:
    texts = ("SLURM_JOB_NAME=end=1", "SLURM_JOB_COMMENT=slurm-triage-event=1", "SUBJECT=end-batch=1")
    (only,) = parse_file(batch(event(5, *texts))).events
    assert only.env["SLURM_JOB_COMMENT"] == "slurm-triage-event=1"
    kernel = HEADER + "kernel=slurm-triage-event=1\n"
    assert len(parse_file(batch(event(5), header=kernel)).events[0].kernel) == 2


def test_one_bad_event_costs_no_other() -> None:
    found = parse_file(batch(event(1), event("rm -rf"), event(2, kind="rootkit"), event(3, kind="spank"), event(4)))
    assert [one.job_id for one in found.events] == ["1", "4"]
    assert found.refused == 3


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda text: text.replace("batch=1\nhost", "batch=2\nhost"), "version"),
        (lambda text: text.replace("host=n1\ntime=17", "host=../x\ntime=17"), "no host"),
        (lambda text: text.replace("time=1750000000\n", ""), "no time"),
        (lambda text: text.replace("time=1750000000\n", "time=" + "9" * 400 + "\n"), "no time"),
        (lambda text: text.replace("kernel=[", "kernel["), "not key=value"),
        (lambda text: text.replace("kernel=[", "kernel=\xe9["), "not plain ASCII"),
        (lambda text: text.replace(event(1), event(1) * (MAX_EVENTS + 1)), "more than 100 events"),
        (lambda text: text.replace(event(1), ""), "not key=value"),
        (lambda text: text.replace("kernel=", "kernel=x\n" * 5000 + "kernel="), "lines"),
    ],
)
def test_bad_files_say_what_is_wrong(change: Callable[[str], str], message: str) -> None:
    with pytest.raises(BadEventError, match=message):
        parse_file(change(batch(event(1)).decode()).encode("latin-1"))


def test_a_file_that_is_cut_off_anywhere_is_not_whole() -> None:
    whole = batch(event(1), event(2))
    for length in range(len(whole)):
        with pytest.raises(CutOffError):
            parse_file(whole[:length])


@given(st.binary(max_size=300), st.integers(0, 300))
def test_no_bytes_crash_the_reader(data: bytes, at: int) -> None:
    whole = batch(event(1), event(2))
    try:
        found = parse_file(whole[:at] + data + whole[at:])
    except BadEventError:
        return
    assert all(one.job_id.isdigit() for one in found.events)


def test_the_number_of_events_in_a_name() -> None:
    assert events_by_name("10000.55.chi2801.batch.37.4711.100") == 37
    assert events_by_name("10000.55.chi2801.batch.999.4711.100") == MAX_EVENTS, "anybody may choose names"
    assert events_by_name("10000.55.chi.batch.2.epilog.7.4711") == 1
    assert events_by_name("10000.55.chi2801.batch.0.4711.100") == 1


# ---- in the spool ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    directory: Path
    reader: Spool

    def put(self, name: str, data: bytes, uid: int | None = None) -> Path:
        path = self.directory / "new" / name
        path.write_bytes(data)
        path.chmod(0o644)
        if uid is not None:
            os.chown(path, uid, uid)
        return path

    @property
    def left(self) -> list[str]:
        return sorted(os.listdir(self.directory / "new"))  # noqa: PTH208


@pytest.fixture
def place(tmp_path: Path) -> Place:
    for name in ("new", "tmp", "bad"):
        (tmp_path / name).mkdir()
    return Place(tmp_path, Spool(tmp_path, frozenset({os.geteuid()})))


def is_empty(reader: Spool) -> bool:
    inner = (reader._untrusted, reader._of_user, reader._of_job, reader._unread, reader._parts)
    return not any(map(len, (reader.known, reader.unremoved, *inner))) and reader.waiting == 0


def test_a_file_stays_until_all_its_events_are_dealt_with(place: Place) -> None:
    place.put("a", batch(*map(event, range(1, 4))))
    arrived = place.reader.arrivals()
    assert [one.event.job_id for one in arrived] == ["1", "2", "3"]
    assert all(one.trusted for one in arrived)
    assert place.reader.waiting == 3
    place.reader.remove([arrived[2].name, arrived[0].name])
    assert (place.left, place.reader.waiting) == (["a"], 1)
    assert place.reader.arrivals() == []
    after_a_crash = Spool(place.directory, frozenset({os.geteuid()}))
    assert len(after_a_crash.arrivals()) == 3, "what is dealt with already is known from the ledger"
    place.reader.remove([arrived[1].name])
    assert place.left == []
    assert is_empty(place.reader)


def test_a_batch_is_found_while_it_is_written(place: Place) -> None:
    whole = batch(event(1), event(2))
    path = place.put("a", whole[: whole.index(b"end=1") + 6])
    assert place.reader.arrivals() == []
    path.write_bytes(whole)
    assert len(place.reader.arrivals()) == 2


def test_a_file_without_a_good_event_is_refused(place: Place) -> None:
    place.put("a", batch(event("x"), event("y")))
    assert place.reader.arrivals() == []
    assert (place.left, os.listdir(place.directory / "bad")) == ([], ["a"])  # noqa: PTH208


def test_a_long_batch_of_root(place: Place) -> None:
    """A hundred of the longest that the hooks write."""
    long = [event(number, *(f"SLURM_X{n}={'x' * 8000}" for n in range(24))) for number in range(1, 101)]
    place.put("a", batch(*long))
    assert len(place.reader.arrivals()) == 100


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has files of others")
class TestOfAnybody:
    """On a file system with root_squash the nodes' root is nobody; anybody may write the same."""

    def test_it_is_a_hint(self, place: Place) -> None:
        place.put("a", batch(event(1, "SLURM_JOB_EXIT_CODE2=137:0", "SPANK_SLURM_TRIAGE=off"), event(2)), 65534)
        first, second = place.reader.arrivals()
        assert (first.trusted, second.trusted) == (False, False)
        assert (dict(first.event.env), first.event.kernel) == ({"SLURM_TRIAGE": "off"}, ())
        place.reader.remove([first.name, second.name])
        assert is_empty(place.reader)

    def test_it_is_not_long(self, place: Place) -> None:
        long = [event(number, *(f"SLURM_X{n}={'x' * 8000}" for n in range(24))) for number in range(1, 101)]
        place.put("a", batch(*long), 65534)
        assert place.reader.arrivals() == []
        assert place.left == []

    def test_one_job_does_not_come_a_hundred_times(self, place: Place) -> None:
        place.put("a", batch(*(event(7) for _ in range(60)), event(8)), 65534)
        place.put("b", batch(event(7), event(7)), 65534)
        arrived = place.reader.arrivals()
        assert [one.event.job_id for one in arrived] == ["7"] * spool.MAX_OF_JOB + ["8"]
        assert place.reader.arrivals() == []
        place.reader.remove([one.name for one in arrived])
        again = place.reader.arrivals()
        assert [one.event.job_id for one in again] == ["7", "7"], "it had to wait"
        place.reader.remove([one.name for one in again])
        assert place.left == []
        assert is_empty(place.reader)

    def test_few_are_held_and_each_has_its_turn(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(spool, "MAX_OF_USER", 20)
        for number in range(12):
            place.put(f"f{number:02d}", batch(*(event(100 * number + n) for n in range(1, 11))), 65534)
        genuine = place.put("z", batch(event(5)))
        seen: set[str] = set()
        while arrived := place.reader.arrivals():
            assert len([one for one in arrived if not one.trusted]) <= 20
            seen |= {one.name for one in arrived}
            # One at a time, as jobs get ready.
            for one in arrived:
                place.reader.remove([one.name])
        assert len(seen) == 121
        assert not genuine.exists()
        assert is_empty(place.reader)


def test_the_log_of_ended_jobs_is_hearsay_in_a_file_of_ours(place: Place) -> None:
    path = event_file.record_many(place.directory, ["7", "8"], kind=COMPLETION_KIND)
    assert events_by_name(path.name) == 2
    arrived = place.reader.arrivals()
    assert [(one.event.job_id, one.event.kind, one.trusted) for one in arrived] == [
        ("7", COMPLETION_KIND, False),
        ("8", COMPLETION_KIND, False),
    ]
    assert batch_file.BEGIN in path.read_bytes()


def test_messages_that_come_again_are_told_once() -> None:
    """Two runs of a requeued job: the second file has the end of the same buffer, by a clock that was rounded."""

    def run(now: int, *stamps: int) -> Arrived:
        said = "".join(f"kernel=[{stamp:5d}.25] Out of memory: {stamp}\n" for stamp in stamps)
        header = f"slurm-triage-batch=1\nhost=n1\ntime={now}\nuptime={now - 100_000}.9\n{said}"
        return Arrived("x", parse_file(batch(event(1), header=header)).events[0], True, 0)

    pending = Pending("1", 0.0, 0.0)
    pending.arrived = [run(102_001, 500, 600, 700), run(101_000, 100, 400, 500, 600)]
    assert [said.text.split()[-1] for said in pending.kernel()["n1"]] == ["100", "400", "500", "600", "700"]
    # Its buffer has been emptied in between.
    pending.arrived = [run(101_000, 100, 400), run(102_001, 700)]
    assert [said.text.split()[-1] for said in pending.kernel()["n1"]] == ["100", "400", "700"]
