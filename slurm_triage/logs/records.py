"""Logs that something put into records: container runtimes, log shippers, loggers that write JSON or logfmt.

``unwrapper`` looks at the beginning of a log. What it returns gives back the lines that the program printed, behind the
record's clock, host and rank in the form in which ``logs/line.py`` knows them. Lines that are no records stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

import orjson

from slurm_triage.logs.labels import detect
from slurm_triage.logs.line import BEFORE_LABEL, is_prefix

#: Whole lines in, whole lines out; called with one piece of the log after the other.
Unwrap = Callable[[bytes], bytes]

#: How much of the beginning is looked at, and the share of its lines that must be records: a batch script's words stand
#: before them, and they cost nothing where there are few.
SAMPLE_BYTES = 64 << 10
_MIN_SHARE = 0.05
#: A record in a record: a JSON logger in a container, whose output a shipper sends on.
_MAX_DEPTH = 3
#: A longer line is no record, only a line without end.
_MAX_LINE_BYTES = 256 << 10

_JSON = re.compile(rb'^([^{\n]{0,120})(\{ ?"[^\n]{2,}\}),?[ \t\r]*(?:\n|\Z)', re.MULTILINE)
_LOGFMT = re.compile(
    rb'^([^=\n]{0,120}?)((?:ts|t|time|timestamp|level|lvl)=[^\n]*?\b(?:msg|message)="[^\n]*)(?:\n|\Z)', re.MULTILINE
)
_PAIR = re.compile(rb'(?<![\w.@-])([\w.@-]{1,64})=("(?:[^"\\]|\\.)*"|[^\s"]*)')
#: Kubernetes' container runtimes: P for a piece of a line that goes on in the next record of its stream.
_CRI = re.compile(rb"^(\S{20,40}) (stdout|stderr) ([PF]) ([^\n]*)(?:\n|\Z)", re.MULTILINE)
#: A clock before the label of a rank.
_CLOCK_LABEL = re.compile(rf"^(?P<before>(?:{BEFORE_LABEL}){{1,2}})(?P<label> *\d{{1,6}}: )".encode(), re.MULTILINE)
_CLOCK = re.compile(r"\d\d:\d\d:\d\d")
_LABEL = re.compile(rb" *\d{1,6}: ")

_MESSAGE = ("log", "message", "msg", "event", "MESSAGE", "textPayload", "short_message", "text", "body", "Log")
_TIME = ("time", "timestamp", "@timestamp", "ts", "asctime", "__REALTIME_TIMESTAMP", "t", "date", "datetime")
_LEVEL = ("level", "levelname", "lvl", "log.level", "severity_text")
_HOST = ("_HOSTNAME", "hostname", "host", "node", "nodename", "node_name")
_TAG = ("SYSLOG_IDENTIFIER", "logger", "name", "app", "container_name")
_PID = ("_PID", "process", "pid")
_MORE = ("exc_info", "exception", "exc_text", "stack_trace", "stacktrace", "traceback", "full_message")
_WHY = ("error", "err", "reason", "cause", "detail")
#: Without one of these a record is data (a metric, a result), not a line of a log.
_MARKS = (*_TIME, *_LEVEL, "stream", "severity", "record", "PRIORITY")
#: Levels that a program's own words need not repeat.
_LOUD = re.compile(r"(?i)warn|err|crit|fatal|alert|emerg|panic")
#: Docker cuts lines after 16 KiB; a piece has no newline.
_PIECE_CHARS = 8 << 10
_NAME = re.compile(r"[\w.-]{1,64}")
_NUMBER = re.compile(r"[0-9]{1,10}")
_MAX_CLOCK_CHARS = 64
#: What stands before a record's lines may make it so many times as long; beyond that, before the first of them only. A
#: record of nothing but ends of lines became a thousand times as long.
_MAX_GROWTH = 8


def unwrapper(sample: bytes) -> Unwrap | None:
    """What to do to a log that begins with ``sample``; None if nothing is to be done."""
    sample = sample[: sample.rfind(b"\n") + 1] or sample
    steps: list[Unwrap] = []
    for _ in range(_MAX_DEPTH):
        step = _records(sample)
        if step is None:
            break
        steps.append(step)
        # Another one for the log itself: they keep what a line began with.
        sample = step(sample)
        steps[-1] = step.anew()
    if detect(sample).width is None and detect(moved := label_first(sample)).width is not None and moved != sample:
        steps.append(label_first)
    return _all(steps) if steps else None


def _all(steps: Iterable[Unwrap]) -> Unwrap:
    def unwrap(lines: bytes) -> bytes:
        for step in steps:
            lines = step(lines)
        return lines

    return unwrap


def unwrapped(pieces: Iterable[bytes], unwrap: Unwrap) -> Iterator[bytes]:
    """The pieces of a log, cut anew at the ends of lines and unwrapped."""
    rest = b""
    for piece in pieces:
        rest += piece
        cut = rest.rfind(b"\n") + 1 or (len(rest) if len(rest) > _MAX_LINE_BYTES else 0)
        if cut:
            yield unwrap(rest[:cut])
            rest = rest[cut:]
    if rest:
        yield unwrap(rest)


def label_first(lines: bytes) -> bytes:
    """``12:00:00 3: text`` as ``3: 12:00:00 text``."""
    return _CLOCK_LABEL.sub(rb"\g<label>\g<before>", lines)


#: Stream, what stands before each of its lines, the lines, whether the last one is complete.
_Record = tuple[str, bytes, bytes, bool]


class _Step:
    """Turns records of one form into lines. Remembers the stream whose line is not complete yet."""

    def __init__(self, form: re.Pattern[bytes], read: Callable[[re.Match[bytes]], _Record | None]) -> None:
        self._form = form
        self._read = read
        self._open: str | None = None

    def anew(self) -> _Step:
        return _Step(self._form, self._read)

    def __call__(self, lines: bytes) -> bytes:
        return self._form.sub(self._line, lines)

    def share(self, sample: bytes) -> float:
        """Of the lines of a sample, those that are such records."""
        records = sum(self._read(match) is not None for match in self._form.finditer(sample))
        return records / (sample.count(b"\n") + 1)

    def _line(self, match: re.Match[bytes]) -> bytes:
        found = self._read(match)
        if found is None:
            return match[0]
        stream, before, text, complete = found
        begin = b"" if self._open == stream else (b"\n" if self._open is not None else b"") + before
        self._open = None if complete else stream
        text = text.rstrip(b"\n")
        if 0 < text.count(b"\n") * len(before) <= _MAX_GROWTH * len(text):
            text = text.replace(b"\n", b"\n" + before)
        return begin + text + (b"\n" if complete else b"")


def _records(sample: bytes) -> _Step | None:
    # Most logs hold none of these, and looking for the forms themselves takes milliseconds.
    steps = [_Step(_CRI, _cri)] if b" stdout F " in sample or b" stderr F " in sample else []
    steps += [_Step(_JSON, _json)] if b'{"' in sample or b'{ "' in sample else []
    steps += [_Step(_LOGFMT, _logfmt)] if b'msg="' in sample or b'message="' in sample else []
    return next((step for step in steps if step.share(sample) >= _MIN_SHARE), None)


def _cri(match: re.Match[bytes]) -> _Record:
    return match[2].decode(), match[1] + b" ", match[4], match[3] == b"F"


def _json(match: re.Match[bytes]) -> _Record | None:
    try:
        record = orjson.loads(match[2])
    except orjson.JSONDecodeError:
        # A line that only looks like JSON: a dict that a program printed.
        return None
    return _from_fields(match[1], record)


def _logfmt(match: re.Match[bytes]) -> _Record | None:
    fields: dict[str, Any] = {}
    for key, value in _PAIR.findall(match[2]):
        try:
            fields[key.decode()] = orjson.loads(value) if value[:1] == b'"' else value.decode("utf-8", "replace")
        except orjson.JSONDecodeError:
            fields[key.decode()] = value[1:-1].decode("utf-8", "replace")
    return _from_fields(match[1], fields)


def _from_fields(prefix: bytes, fields: Mapping[str, Any]) -> _Record | None:
    """None if it is no record of a log."""
    message = next((fields[key] for key in _MESSAGE if isinstance(fields.get(key), str)), None)
    if message is None or not any(key in fields for key in _MARKS):
        return None
    label, own = _label(prefix)
    if own and not is_prefix(own):
        return None
    stream = str(fields.get("stream", ""))
    is_piece = fields.get("logtag") == "P" or (
        "log" in fields and "logtag" not in fields and len(message) >= _PIECE_CHARS and not message.endswith("\n")
    )

    def new(keys: Iterable[str]) -> Iterator[tuple[str, str]]:
        return ((k, fields[k].strip("\n")) for k in keys if isinstance(fields.get(k), str) and fields[k] not in message)

    text = [" ".join([_loud(fields, message) + message.removesuffix("\n"), *(f"{k}={why}" for k, why in new(_WHY))])]
    text += [more for _, more in new(_MORE)]
    before = label + own.encode() + _before(fields, has_clock=_CLOCK.search(own) is not None).encode()
    return stream, before, "\n".join(text).encode("utf-8", "surrogateescape"), not is_piece


def _label(prefix: bytes) -> tuple[bytes, str]:
    """The label of a rank, and what else stands before a record. Fluentd sets time and tag apart with tabs."""
    label = _LABEL.match(prefix)
    rest = prefix[label.end() :] if label else prefix
    own = rest.decode("utf-8", "replace")
    return (label[0] if label else b""), own.split("\t")[0] + " " if "\t" in own else own


def _loud(fields: Mapping[str, Any], message: str) -> str:
    level = next((fields[key] for key in _LEVEL if isinstance(fields.get(key), str)), "")
    # An indented line, or a lone word, is one of several: of a key, for instance.
    is_part = message[:1].isspace() or " " not in message
    if not _LOUD.match(level) or is_part or message.startswith("Traceback") or "stream" in fields:
        return ""
    return f"{level.upper()}: " if level.upper() not in message[:80].upper() else ""


def _before(fields: Mapping[str, Any], *, has_clock: bool) -> str:
    """Clock, host and rank in the forms of syslog and torchrun."""
    clock = "" if has_clock else next((c for c in (_clock(fields[key]) for key in _TIME if key in fields) if c), "")
    host, rank = _host(fields), fields.get("rank", fields.get("global_rank"))
    if host and clock:
        tag = next((fields[key] for key in _TAG if isinstance(fields.get(key), str)), "")
        pid = next((str(fields[key]) for key in _PID if _NUMBER.fullmatch(str(fields.get(key)))), "0")
        clock += f" {host} {tag if _NAME.fullmatch(tag) else 'log'}[{pid}]:"
    is_rank = isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < 1_000_000
    return (f"{clock} " if clock else "") + (f"[rank{rank}]: " if is_rank else "")


def _host(fields: Mapping[str, Any]) -> str:
    places = (fields, fields.get("kubernetes"), fields.get("host"), fields.get("labels"))
    for place in places:
        for key in (*_HOST, "name") if place is fields.get("host") else _HOST:
            value = place.get(key) if isinstance(place, dict) else None
            if isinstance(value, str) and _NAME.fullmatch(value):
                return value
    return ""


def _clock(value: object) -> str:
    """A record's time as a line begins with it; seconds since the epoch, or thousandths and finer, are counted back."""
    if isinstance(value, str) and not value.replace(".", "", 1).isdigit():
        return value if len(value) <= _MAX_CLOCK_CHARS and is_prefix(value + " ") else ""
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    if not 1e8 <= seconds < 1e20:
        return ""
    while seconds >= 1e11:
        seconds /= 1e3
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
