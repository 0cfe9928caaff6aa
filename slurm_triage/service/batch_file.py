"""A file of the spool with many events in it (docs/operations.md, "Spool"): a node's, with what its kernel has said, or
those that Slurm's log of ended jobs told of."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from slurm_triage.service.spool_event import (
    EPOCH,
    HOST,
    MAX_EVENT_BYTES,
    BadEventError,
    CutOffError,
    Event,
    ascii_lines,
    kernel_messages,
    key_values,
    parse,
    start_of_clock,
)

BEGIN = b"slurm-triage-batch="
END = b"end-batch=1\n"
VERSION = "1"
_EVENT_BEGIN, _EVENT_END = b"slurm-triage-event=", b"\nend=1\n"

#: hooks/carry-events puts at most so many into one file.
MAX_EVENTS = 100
#: hooks/carry-events keeps the last 4 000 of the kernel's messages.
MAX_HEADER_LINES = 4096
#: 100 events of the longest. Of anybody's, those longer than 10 KiB are passed over (usual ones have 1 KiB): the others
#: of a batch are other users'.
MAX_BYTES, MAX_UNTRUSTED_EVENT_BYTES = MAX_EVENTS * MAX_EVENT_BYTES, 10 << 10
MAX_HEADER_BYTES = 1 << 20

#: The number of events is in a batch's name, for those who only list the spool.
_NAME = re.compile(r"\.batch\.([1-9][0-9]{0,2})\.[0-9a-f.-]+\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Batch:
    """``refused``: how many events of the file could not be read."""

    events: tuple[Event, ...]
    refused: int = 0


def events_by_name(name: str) -> int:
    """How many events a file of the spool is said to hold. Anybody may choose names."""
    match = _NAME.search(name)
    return min(int(match[1]), MAX_EVENTS) if match is not None else 1


def parse_file(data: bytes, written: float | None = None, most: int = MAX_EVENT_BYTES) -> Batch:
    """What a spool file's bytes say. ``written``: when, in seconds since the epoch. Raises BadEventError if the file
    as a whole is none of our hooks', CutOffError if its end is missing. Events of a batch that have more than ``most``
    bytes are passed over."""
    if not data.startswith(BEGIN):
        if BEGIN.startswith(data):
            raise CutOffError("the file is empty or has no more than its beginning; remove it")
        return Batch((parse(data, written),))
    if not data.endswith(b"\n" + END):
        raise CutOffError("the batch is not whole (a full disk, or not written by a hook); remove it")
    header, begin, rest = data[: -len(END)].partition(b"\n" + _EVENT_BEGIN)
    if len(header) > MAX_HEADER_BYTES:
        raise BadEventError(f"the batch begins with more than {MAX_HEADER_BYTES} bytes; remove it")
    values, said = key_values(ascii_lines(header, MAX_HEADER_LINES))
    if values.get("slurm-triage-batch") != VERSION:
        raise BadEventError(f"the batch is of another version than {VERSION}; upgrade the older side")
    host, told, uptime = values.get("host", ""), values.get("time", ""), values.get("uptime", "")
    if HOST.fullmatch(host) is None or EPOCH.fullmatch(told) is None:
        raise BadEventError("the batch names no host or no time; remove it")
    parts = (begin[1:] + rest).split(_EVENT_END, MAX_EVENTS + 1)[:-1]
    if len(parts) > MAX_EVENTS:
        raise BadEventError(f"the batch has more than {MAX_EVENTS} events; remove it")
    now = float(told)
    boot = start_of_clock(uptime, now)
    kernel = kernel_messages(said, boot)
    events = []
    for part in parts:
        if len(part) > most:
            continue
        try:
            event = parse(part + _EVENT_END, now, boot)
        except BadEventError:
            continue
        if event.is_start:
            # Those are written by slurmctld's prolog, one at a time.
            continue
        # Whoever wrote the batch vouches for its own host's kernel only.
        events.append(replace(event, kernel=kernel) if event.host == host else event)
    return Batch(tuple(events), len(parts) - len(events))
