"""Reading spool files: anything but what a hook writes is an error, never a crash. What the hooks write:
test_hook_scripts.py."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_triage.service.spool import MAX_CUT_OFF, PATIENCE_S, Spool
from slurm_triage.service.spool_event import MAX_EVENT_BYTES, BadEventError, parse

GOOD = "slurm-triage-event=1\nkind=jobcomp\nhost=n1\ntime=1750000000\nJOBID=7\nend=1\n"


def test_good_event() -> None:
    event = parse(GOOD.encode())
    assert (event.kind, event.job_id, event.host, event.time) == ("jobcomp", "7", "n1", 1750000000.0)
    assert event.env == {"JOBID": "7"}
    assert event.wish is None


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda text: text.replace("end=1\n", ""), "not whole"),
        (lambda text: text[:-1], "not whole"),
        (lambda _: "", "not whole"),
        (lambda text: text.replace("event=1", "event=2"), "version 2"),
        (lambda text: text.replace("slurm-triage-event=1\n", ""), "version none"),
        (lambda text: text.replace("jobcomp", "rootkit"), "no kind"),
        (lambda text: text.replace("n1", "../../etc"), "no host"),
        (lambda text: text.replace("1750000000", "-5"), "no time"),
        (lambda text: text.replace("1750000000", "9" * 400), "no time"),
        (lambda text: text.replace("JOBID=7", "JOBID=0"), "no job"),
        (lambda text: text.replace("JOBID=7", "JOBID=7; rm -rf /"), "no job"),
        (lambda text: text.replace("JOBID=7", "JOBID=" + "7" * 11), "no job"),
        (lambda text: text.replace("JOBID=7", "no equals sign"), "not key=value"),
        (lambda text: text.replace("JOBID=7", "JOBID=7\r"), "not key=value"),
        (lambda text: text.replace("JOBID=7", "JOBID=7\x1b[2J"), "not key=value"),
        (lambda text: text.replace("JOBID=7", "JOBID=7\0"), "not key=value"),
        (lambda text: text.replace("JOBID=7", "JOBID=7é"), "not plain ASCII"),
        (lambda text: text.replace("JOBID=7", "X=1\n" * 300 + "JOBID=7"), "lines"),
        (lambda text: text.replace("JOBID=7", "X=" + "1" * MAX_EVENT_BYTES), "bytes"),
    ],
)
def test_bad_events_say_what_is_wrong(change: Callable[[str], str], message: str) -> None:
    with pytest.raises(BadEventError, match=message):
        parse(change(GOOD).encode())


def test_the_first_of_two_values_counts() -> None:
    assert parse(GOOD.replace("JOBID=7", "JOBID=7\nJOBID=8").encode()).job_id == "7"


def test_wish() -> None:
    for wish in ("on", "off", "watch"):
        assert parse(GOOD.replace("end=1", f"SPANK_SLURM_TRIAGE={wish}\nend=1").encode()).wish == wish
    assert parse(GOOD.replace("end=1", "SPANK_SLURM_TRIAGE=format-disk\nend=1").encode()).wish is None
    for lines, expected in (
        ("SLURM_TRIAGE=off", "off"),
        ("SPANK_SLURM_TRIAGE=on\nSLURM_TRIAGE=off", "on"),
        ("SLURM_JOB_COMMENT=run 7, triage=watch", "watch"),
        ("SLURM_JOB_COMMENT=sabotriage=watch", None),
    ):
        assert parse(GOOD.replace("end=1", f"{lines}\nend=1").encode()).wish == expected


@given(st.binary(max_size=2000))
def test_no_bytes_crash_the_reader(data: bytes) -> None:
    with pytest.raises(BadEventError):
        parse(data)


@given(st.lists(st.tuples(st.sampled_from(["kernel", "uptime", "time", "JOBID", "SLURM_JOB_ID", "x"]), st.text())))
def test_no_values_crash_the_reader(pairs: list[tuple[str, str]]) -> None:
    body = "".join(f"{key}={value}\n" for key, value in pairs)
    try:
        event = parse(GOOD.replace("end=1\n", body + "end=1\n").encode(errors="replace"))
    except BadEventError:
        return
    assert event.job_id == "7" or "SLURM_JOB_ID" in event.env
    assert os.sep not in event.host


def test_without_a_time_that_of_the_file_counts() -> None:
    data = GOOD.replace("time=1750000000\n", "uptime=100.25\nkernel=[  90.0] x\n").encode()
    event = parse(data, 1750000000.5)
    assert event.time == 1750000000.5
    assert event.kernel[0].time == 1750000000.5 - 100.25 + 90.0
    assert parse(GOOD.encode(), 1.0).time == 1750000000.0
    for written in (None, -1.0, 1e12):
        with pytest.raises(BadEventError, match="no time"):
            parse(data, written)
    with pytest.raises(BadEventError, match="no time"):
        parse(GOOD.replace("=1750000000", "=now").encode(), 1750000000.0)


def test_what_is_being_written_is_left_alone(tmp_path: Path) -> None:
    """A hook writes an event where the worker looks for it."""
    for name in ("new", "tmp", "bad"):
        (tmp_path / name).mkdir()
    now = [0.0]
    spool = Spool(tmp_path, frozenset({os.geteuid()}), clock=lambda: now[0])
    grows, cut_off = tmp_path / "new/grows", tmp_path / "new/cut-off"
    for path in (grows, cut_off):
        path.write_text(GOOD[:40])
    assert spool.arrivals() == []
    now[0] = PATIENCE_S - 1.0
    grows.write_text(GOOD)
    assert [arrived.name for arrived in spool.arrivals()] == ["grows"]
    assert cut_off.exists()
    now[0] = PATIENCE_S + 1.0
    assert spool.arrivals() == []
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["cut-off", "grows"]
    assert (tmp_path / "bad/cut-off").exists()
    # So many are no hook's.
    for number in range(MAX_CUT_OFF + 5):
        (tmp_path / f"new/{number}").touch()
    assert spool.arrivals() == []
    assert len(list((tmp_path / "bad").iterdir())) == 6


def test_events_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    for name in ("new", "tmp", "bad"):
        (tmp_path / name).mkdir()
    for name, time in (("a", 30), ("b", 10), ("c", 20)):
        (tmp_path / "new" / name).write_text(GOOD.replace("time=1750000000\n", ""))
        os.utime(tmp_path / "new" / name, (time, time))
    spool = Spool(tmp_path, frozenset({os.geteuid()}))
    assert [arrived.name for arrived in spool.arrivals()] == ["b", "c", "a"]
