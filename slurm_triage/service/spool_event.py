"""One file of the spool, as the hooks write it (docs/operations.md, "Spool"). Anyone may be able to write there: what
cannot have come from our hooks is refused, and what passes is a hint, never a fact."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slurm_triage.errors import TriageError
from slurm_triage.slurm import hook_env

VERSION = "1"

#: The hooks write at most 192 KiB of values; those of earlier versions also 100 kernel lines of 600 bytes.
MAX_EVENT_BYTES = 256 << 10
MAX_LINES = 256

#: From a line of Slurm's log of ended jobs, which may be anybody's word.
COMPLETION_KIND = "completion"
#: What ended or began. ``node`` brings only the kernel's messages of a node that is not the batch host.
KINDS = frozenset(
    {"epilog", "epilog-slurmctld", "jobcomp", "mail", "node", "prolog-slurmctld", "spank", "task-epilog", "hook"}
) | {COMPLETION_KIND}
START_KINDS = frozenset({"prolog-slurmctld", "spank"})

_BEGIN = "slurm-triage-event="
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
HOST = re.compile(r"[A-Za-z0-9._-]{1,255}")
_VALUE = re.compile(r"[ -~]*")
#: ``isdigit`` takes superscripts, too, of which float makes nothing.
EPOCH = re.compile(r"\d{1,12}", re.ASCII)
_SECONDS = re.compile(r"\d{1,12}(\.\d{1,9})?", re.ASCII)
_BYTES = {f"{number:02x}": chr(number) for number in range(256)}
#: ``sbatch --comment="triage=watch ..."``
_IN_COMMENT = re.compile(r"(?:^|[\s,;])triage=(\w+)(?=$|[\s,;])")
_KERNEL_TIME = re.compile(r"^\[ *(\d{1,12}\.\d{1,9})\] ?(.*)$", re.DOTALL | re.ASCII)


class BadEventError(TriageError):
    """The file is not an event that a hook of ours can have written."""


class CutOffError(BadEventError):
    """The file does not end as an event does: it is being written, or it was cut off."""


@dataclass(frozen=True, slots=True)
class KernelMessage:
    """One line of a node's kernel log. ``time`` in seconds since the epoch, None where the kernel prints none."""

    time: float | None
    text: str


@dataclass(frozen=True, slots=True)
class Event:
    """``env`` holds the hook's variables (``hook_env`` turns them into a partial Job). Nothing here is trusted."""

    kind: str
    job_id: str
    host: str
    time: float
    env: Mapping[str, str] = field(default_factory=dict)
    kernel: tuple[KernelMessage, ...] = ()

    @property
    def is_start(self) -> bool:
        return self.kind in START_KINDS

    @property
    def wish(self) -> str | None:
        """What ``sbatch --triage=`` asked for, else $SLURM_TRIAGE where a hook sees the job's environment, else the
        job's comment: on, off or watch."""
        values = [self.env.get("SPANK_SLURM_TRIAGE"), self.env.get("SLURM_TRIAGE")]
        values += _IN_COMMENT.findall(self.env.get("SLURM_JOB_COMMENT", ""))
        return next((value for value in values if value in ("on", "off", "watch")), None)

    def hint(self) -> Event:
        """What an event that anybody may have written is good for. The rest would only fill the memory."""
        return Event(self.kind, self.job_id, "", self.time, {"SLURM_TRIAGE": self.wish} if self.wish else {})


def parse(data: bytes, written: float | None = None, boot: float | None = None) -> Event:
    """The event in these bytes. ``written``: when, in seconds since the epoch; it counts where the event names no time
    itself. ``boot``: when the clock began that its ``uptime`` is of. Raises BadEventError, with one sentence that says
    why."""
    if len(data) > MAX_EVENT_BYTES:
        raise BadEventError(f"the event has more than {MAX_EVENT_BYTES} bytes; remove it")
    lines = ascii_lines(data, MAX_LINES)
    if lines[-2:] != ["end=1", ""]:
        begun = lines[0].startswith(_BEGIN) or (len(lines) == 1 and _BEGIN.startswith(lines[0]))
        refusal = CutOffError if begun else BadEventError
        raise refusal("the event is not whole (a full disk, or not written by a hook); remove it")
    values, said = key_values(lines[:-2])
    return _event(values, said, written, boot)


def ascii_lines(data: bytes, most: int) -> list[str]:
    """Raises BadEventError if they are more, or not in ASCII."""
    try:
        lines = data.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise BadEventError("the event is not plain ASCII; remove it") from error
    if len(lines) > most:
        raise BadEventError(f"the event has more than {most} lines; remove it")
    return lines


def key_values(lines: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Lines ``key=value``, and the values of ``kernel``. Raises BadEventError."""
    values: dict[str, str] = {}
    kernel: list[str] = []
    for line in lines:
        key, equals, value = line.partition("=")
        if not equals or _KEY.fullmatch(key) is None or _VALUE.fullmatch(value) is None:
            raise BadEventError("the event has a line that is not key=value; remove it")
        if key == "kernel":
            kernel.append(_unescape(value))
        else:
            # The first value counts: a repeated key is not ours.
            values.setdefault(key, _unescape(value))
    return values, kernel


def _event(values: dict[str, str], said: list[str], written: float | None, boot: float | None) -> Event:
    version, kind = values.pop("slurm-triage-event", None), values.pop("kind", "")
    host, told = values.pop("host", ""), values.pop("time", "")
    uptime = values.pop("uptime", "")
    if version != VERSION:
        raise BadEventError(f"the event has version {version or 'none'}, this is for {VERSION}; upgrade the older side")
    if kind not in KINDS:
        raise BadEventError("the event is of no kind that a hook writes; remove it")
    if HOST.fullmatch(host) is None:
        raise BadEventError("the event names no host; remove it")
    time = float(told) if EPOCH.fullmatch(told) else None if told else _by_clock(boot, uptime, written)
    if time is None or not 0.0 <= time < 1e12:
        raise BadEventError("the event has no time; remove it")
    job_id = hook_env.job_id(values)
    if job_id is None or len(job_id) > 10:
        raise BadEventError("the event names no job; remove it")
    return Event(kind, job_id, host, time, values, kernel_messages(said, start_of_clock(uptime, time)))


def _by_clock(boot: float | None, uptime: str, written: float | None) -> float | None:
    """When it was written. A clock that was set back since then counts as the time of writing."""
    if boot is None or written is None or _SECONDS.fullmatch(uptime) is None:
        return written
    return min(boot + float(uptime), written)


def start_of_clock(uptime: str, now: float) -> float | None:
    """When it began, in seconds since the epoch; None if ``uptime`` is none."""
    return now - float(uptime) if _SECONDS.fullmatch(uptime) is not None else None


def kernel_messages(said: list[str], boot: float | None) -> tuple[KernelMessage, ...]:
    return tuple(_message(line, boot) for line in said)


def _message(line: str, boot: float | None) -> KernelMessage:
    match = _KERNEL_TIME.match(line)
    if match is None:
        return KernelMessage(None, line)
    return KernelMessage(None if boot is None else boot + float(match[1]), match[2])


def _unescape(value: str) -> str:
    """Bytes behind ``\\XX``, as UTF-8; what is not valid becomes U+FFFD."""
    if "\\" not in value:
        return value
    first, *escapes = value.split("\\")
    raw = first + "".join(_BYTES.get(part[:2], "\\" + part[:2]) + part[2:] for part in escapes)
    return raw.encode("latin-1").decode("utf-8", errors="replace")
