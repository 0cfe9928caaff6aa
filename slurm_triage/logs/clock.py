"""Wall clocks in log lines. Most have no year or no zone; some have no date at all.

Zone-less times are taken as this machine's local time, as Slurm prints them. Times without a year get the year that
puts them at or before the hint (the file's modification time); times without a date get the day of the last full date
seen, and days are counted up when the clock goes back past midnight.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Sequence

from slurm_triage.logs.line import MONTHS

_DATE_TIME = re.compile(
    r"(\d{4})[-/](\d\d)[-/](\d\d)(?:[T _]|, )(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))? ?(Z|UTC|[+-]\d\d:?\d\d)?"
)
#: syslog's, and the kernel's as dmesg -T prints it.
_NAMED_MONTH = re.compile(
    rf"(?:<\d+>|\[[A-Z][a-z]{{2}} )?({'|'.join(MONTHS)}) ([ \d]\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{{1,9}}))?"
    r"(?: (\d{4})\])?"
)
_ABSL = re.compile(r"[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
_GLOG_UNIX = re.compile(r"[IWEF]0000 00:00:(\d{9,10})(?:\.(\d{1,9}))?")
_UNIX = re.compile(r"received at time=(\d{9,10})\b")
_TIME_ONLY = re.compile(r"\[?(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\b")

#: The clock stands at the start of a line; further in, dates belong to the message (Slurm's AT is the exception).
_SEARCH_CHARS = 64
_DAY_S = 86_400


def _fraction(digits: str | None) -> float:
    return int(digits) / 10 ** len(digits) if digits else 0.0


class Clock:
    """Reads clocks of one file, in order. Keeps the last date for lines that have only a time of day."""

    def __init__(self, latest: float | None = None) -> None:
        """``latest``: epoch seconds that no line of the file is (much) later than."""
        self._latest = latest if latest is not None else time.time()
        self._year = time.gmtime(self._latest).tm_year
        self._offsets: dict[tuple[int, int, int], float] = {}
        self._day: float | None = None
        self._previous_time_of_day = -1.0

    def read(self, text: str) -> float | None:
        """Epoch seconds of the clock that ``text`` begins with (or that Slurm put after AT), else None."""
        head = text[:_SEARCH_CHARS]
        if head[:1] in "IWEF" and head[1:5].isdigit():
            return self._absl(head)
        match = _DATE_TIME.search(head)
        if match is not None:
            return self._full(match)
        match = _NAMED_MONTH.match(head)
        if match is not None:
            month, year = MONTHS.index(match[1]) + 1, int(match[7]) if match[7] else None
            return self._dated(year, month, [int(match[i]) for i in range(2, 6)], match[6])
        if " AT 2" in text:
            match = _DATE_TIME.search(text, text.index(" AT 2"))
            if match is not None:
                return self._full(match)
        match = _TIME_ONLY.match(head)
        if match is not None:
            return self._time_only(match)
        match = _UNIX.search(text)
        return float(match[1]) if match is not None else None

    def _absl(self, head: str) -> float | None:
        match = _GLOG_UNIX.match(head)
        if match is not None:
            return int(match[1]) + _fraction(match[2])
        match = _ABSL.match(head)
        if match is None:
            return None
        return self._dated(None, int(match[1]), [int(match[i]) for i in range(2, 6)], match[6])

    def _dated(self, year: int | None, month: int, rest: Sequence[int], fraction: str | None) -> float | None:
        """``rest``: day, hour, minute, second. ``year``: None for the last one in which the day is not too late."""
        day, hour, minute, second = rest
        if not (1 <= month <= 12 and 1 <= day <= 31) or (year is not None and not 1970 <= year <= 2100):
            return None
        moment = self._local(year or self._year, month, day, hour, minute, second)
        if year is None and moment > self._latest + _DAY_S:
            moment = self._local(self._year - 1, month, day, hour, minute, second)
        return moment + _fraction(fraction)

    def _full(self, match: re.Match[str]) -> float | None:
        year, month, day, hour, minute, second = (int(match[i]) for i in range(1, 7))
        if not (1970 <= year <= 2100 and 1 <= month <= 12 and 1 <= day <= 31):
            return None
        zone = match[8]
        if zone is None:
            moment = self._local(year, month, day, hour, minute, second)
        else:
            moment = float(calendar.timegm((year, month, day, hour, minute, second)))
            if zone not in {"Z", "UTC"}:
                hours, minutes = int(zone[1:3]), int(zone[-2:])
                moment -= (1 if zone[0] == "+" else -1) * (hours * 3600 + minutes * 60)
        self._day = moment - (hour * 3600 + minute * 60 + second)
        self._previous_time_of_day = hour * 3600 + minute * 60 + second
        return moment + _fraction(match[7])

    def _time_only(self, match: re.Match[str]) -> float | None:
        hour, minute, second = int(match[1]), int(match[2]), int(match[3])
        if hour > 23 or minute > 59 or second > 60:
            return None
        if self._day is None:
            # No date anywhere so far: only differences mean something. Day 0 keeps them right.
            self._day = 0.0
        of_day = hour * 3600 + minute * 60 + second
        if of_day < self._previous_time_of_day - _DAY_S / 2:
            self._day += _DAY_S
        self._previous_time_of_day = of_day
        return self._day + of_day + _fraction(match[4])

    def _local(self, year: int, month: int, day: int, hour: int, minute: int, second: int) -> float:
        offset = self._offsets.get((year, month, day))
        if offset is None:
            midnight_utc = calendar.timegm((year, month, day, 0, 0, 0))
            try:
                offset = midnight_utc - time.mktime((year, month, day, 0, 0, 0, 0, 0, -1))
            except OverflowError:
                offset = 0.0
            self._offsets[(year, month, day)] = offset
        return calendar.timegm((year, month, day, hour, minute, second)) - offset
