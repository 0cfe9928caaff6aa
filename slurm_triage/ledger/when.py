"""Times as sacct's -S and -E take them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from slurm_triage.errors import UsageError

_UNITS_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
_RELATIVE = re.compile(r"^now(?:([+-])(\d+)([a-z]*))?$")
_CLOCK = re.compile(r"^(\d{1,2}):(\d\d)(?::(\d\d))?(?: ?([ap]m))?$")
_DATE = re.compile(r"^(\d{1,2})[/.](\d{1,2})(?:[/.](\d{2}|\d{4}))?$|^(\d{2})(\d{2})(\d{2})?$")
_NAMED = {"midnight": (0, 0), "today": (0, 0), "noon": (12, 0), "fika": (15, 0), "teatime": (16, 0)}


def parse_when(text: str, now: float) -> float:
    """Epoch seconds of ``2026-03-01``, ``2026-03-01T12:30``, ``0301``, ``03/01-12:30``, ``12:30``, ``now-2days``,
    ``midnight`` ... in local time unless an offset is given. Raises UsageError."""
    word = text.strip().lower()
    today = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
    relative = _RELATIVE.match(word)
    if relative:
        return now + _offset(relative[1], relative[2], relative[3], text)
    if word in _NAMED:
        hour, minute = _NAMED[word]
        return today.replace(hour=hour, minute=minute).timestamp()
    clock = _CLOCK.match(word)
    try:
        if clock:
            return (today + _since_midnight(clock)).timestamp()
        day, _, rest = word.partition("-")
        date, clock = _DATE.match(day), _CLOCK.match(rest)
        if date and (clock or not rest):
            start = _day(date, today)
            return (start + (_since_midnight(clock) if clock else timedelta())).timestamp()
        return datetime.fromisoformat(text.strip().replace("Z", "+00:00").replace("z", "+00:00")).timestamp()
    except ValueError:
        raise UsageError(
            f"cannot read the time {text!r}; write it as 2026-03-01, 2026-03-01T12:30, 12:30 or now-2days"
        ) from None


def _offset(sign: str | None, count: str | None, unit: str, text: str) -> float:
    if sign is None:
        return 0.0
    name = (unit or "second").rstrip("s")
    seconds = next((s for full, s in _UNITS_S.items() if name and full.startswith(name)), None)
    if seconds is None:
        raise UsageError(f"cannot read the unit in {text!r}; use seconds, minutes, hours, days or weeks")
    return float(count or 0) * seconds * (1 if sign == "+" else -1)


def _since_midnight(clock: re.Match[str]) -> timedelta:
    hour, minute, second = int(clock[1]), int(clock[2]), int(clock[3] or 0)
    if clock[4]:
        if not 1 <= hour <= 12:
            raise ValueError(clock[0])
        hour = hour % 12 + (12 if clock[4] == "pm" else 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(clock[0])
    return timedelta(hours=hour, minutes=minute, seconds=second)


def _day(date: re.Match[str], today: datetime) -> datetime:
    month, day, year = (date[1], date[2], date[3]) if date[1] else (date[4], date[5], date[6])
    number = today.year if year is None else int(year) + (2000 if len(year) == 2 else 0)
    return today.replace(year=number, month=int(month), day=int(day))
