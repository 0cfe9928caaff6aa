"""Reading spool files: anything but what a hook writes is an error, never a crash. What the hooks write:
test_hook_scripts.py."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
