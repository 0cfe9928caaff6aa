"""One file of the spool, as the hooks write it (docs/operations.md, "Spool"). Anyone may be able to write there: what
cannot have come from our hooks is refused, and what passes is a hint, never a fact."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from slurm_triage.errors import TriageError
from slurm_triage.slurm import hook_env

VERSION = "1"

#: The hooks write at most 192 KiB of values, and 100 kernel lines of 600 bytes.
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
_HOST = re.compile(r"[A-Za-z0-9._-]{1,255}")
_VALUE = re.compile(r"[ -~]*")
_BYTES = {f"{number:02x}": chr(number) for number in range(256)}
#: ``sbatch --comment="triage=watch ..."``
_IN_COMMENT = re.compile(r"(?:^|[\s,;])triage=(\w+)(?=$|[\s,;])")
_KERNEL_TIME = re.compile(r"^\[ *(\d{1,12}\.\d{1,9})\] ?(.*)$", re.DOTALL)


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


def parse(data: bytes, written: float | None = None) -> Event:
    """The event in a spool file's bytes. ``written``: when, in seconds since the epoch; it counts where the event names
    no time itself. Raises BadEventError, with one sentence that says why."""
    if len(data) > MAX_EVENT_BYTES:
        raise BadEventError(f"the event has more than {MAX_EVENT_BYTES} bytes; remove it")
    try:
        lines = data.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise BadEventError("the event is not plain ASCII; remove it") from error
    if len(lines) > MAX_LINES:
        raise BadEventError(f"the event has more than {MAX_LINES} lines; remove it")
    if lines[-2:] != ["end=1", ""]:
        begun = lines[0].startswith(_BEGIN) or (len(lines) == 1 and _BEGIN.startswith(lines[0]))
        refusal = CutOffError if begun else BadEventError
        raise refusal("the event is not whole (a full disk, or not written by a hook); remove it")
    values: dict[str, str] = {}
    kernel: list[str] = []
    for line in lines[:-2]:
        key, equals, value = line.partition("=")
        if not equals or _KEY.fullmatch(key) is None or _VALUE.fullmatch(value) is None:
            raise BadEventError("the event has a line that is not key=value; remove it")
        if key == "kernel":
            kernel.append(_unescape(value))
        else:
            # The first value counts: a repeated key is not ours.
            values.setdefault(key, _unescape(value))
    return _event(values, kernel, written)


def _event(values: dict[str, str], kernel: list[str], written: float | None) -> Event:
    version, kind = values.pop("slurm-triage-event", None), values.pop("kind", "")
    host, told = values.pop("host", ""), values.pop("time", "")
    uptime = values.pop("uptime", "")
    if version != VERSION:
        raise BadEventError(f"the event has version {version or 'none'}, this is for {VERSION}; upgrade the older side")
    if kind not in KINDS:
        raise BadEventError("the event is of no kind that a hook writes; remove it")
    if _HOST.fullmatch(host) is None:
        raise BadEventError("the event names no host; remove it")
    time = float(told) if told.isdigit() else None if told else written
    if time is None or not 0.0 <= time < 1e12:
        raise BadEventError("the event has no time; remove it")
    job_id = hook_env.job_id(values)
    if job_id is None or len(job_id) > 10:
        raise BadEventError("the event names no job; remove it")
    boot = time - float(uptime) if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", uptime) else None
    return Event(kind, job_id, host, time, values, tuple(_message(line, boot) for line in kernel))


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
