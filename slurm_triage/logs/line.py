"""One physical line of a log taken apart: rank label, terminal codes, Ray and clock prefixes, text.

Rules on labels and ANSI codes: maxtext-slurm prints ``srun -l`` labels of a fixed width, and only three producers
write ANSI codes; Ray puts ``(Actor pid=1)`` inside the label.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: A longer line is cut: no message that names a cause is longer, and regular expressions run over it.
MAX_BODY_BYTES = 4096

_ANSI = re.compile(
    rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()*+][A-Za-z0-9]|\x1b\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)?|\x1b.|\x0f"
)
_LABEL = re.compile(rb"( *)(\d{1,6}): ?")
_RAY = re.compile(
    r"^\((?:[\w.:-]+,? pid=\d+(?:, ip=[\w.:]+)?|(?:raylet|autoscaler|gcs_server|dashboard)(?:, ip=[\w.:]+)?|"
    r"pid=\d+(?:, ip=[\w.:]+)?|(?:head|worker\d+), rank=\d+, pid=\d+(?:, ip=[\w.:]+)?)\)\s?"
)
#: Labels that frameworks print inside the line; the number is a global rank.
_INNER_RANK = re.compile(
    r"^(?:\[rank:? ?(\d+)\]:? ?|"
    # mpirun --tag-output: jobid and rank; since Open MPI 5 with the launcher's name, SageMaker's with the host's.
    r"\[(?:[\w.@-]{3,80}@)?1,(?:mpirank:)?(\d+)(?:,[\w-]{1,60})?\]<std(?:out|err)>: ?|rank[ _](\d+): ?)",
    re.IGNORECASE,
)
#: Where the line comes from, in the words of whoever merged several logs: Google Cloud's log reader, torchrun (role and
#: local rank), DeepSpeed's pdsh (address), kubectl, docker compose, Airflow (what a task printed is information), the
#: kernel (seconds since its start).
_MERGED = re.compile(
    r"^(?:[A-Z]{4,9} \d{4}-\d\d-\d\dT[\d:.]{8,18}Z \[resource\.labels\.\w{1,40}: [\w.-]{1,80}\] |"
    r"\[[a-z_]{1,20}\d{1,3}\]:|worker-\d{1,4}: |(?:\d{1,3}\.){3}\d{1,3}: |\[pod/[\w./-]{1,150}\] |"
    r"[a-z][\w.-]{1,60}[-_]\d{1,3} {2,20}\| |\{[\w-]{1,60}\.py:\d{1,6}\} (?:INFO - )?|"
    r"\[ {0,8}\d{1,9}\.\d{6}\](?:\[ *[TC]\d{1,9}\])? )"
)
#: The same behind a progress bar that wrote no newline.
_GLUED_RANK = re.compile(r"\]\[rank(\d{1,6})\]: ")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
#: syslog's and journald's lines: clock, host, program. With a date that programs print too, only a process id or the
#: kernel's name makes sure that a host stands there.
_SYSLOG = re.compile(
    rf"^(?:<\d{{1,3}}>)?(?:(?:{'|'.join(MONTHS)}) [ \d]\d \d\d:\d\d:\d\d(?:\.\d{{1,9}})? (?P<host>[\w.-]{{1,64}}) "
    r"(?P<tag>[\w./()@-]{1,64})(?:\[\d+\])?: |"
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? (?!(?i:debug|info|warn|err|crit|fatal))"
    r"(?P<host2>[\w.-]{1,64}) (?:(?P<tag2>[\w./()@-]{1,64})\[\d+\]|kernel): )"
)
_SYSLOG_BEGINS = frozenset("0123456789<" + "".join(month[0] for month in MONTHS))
_CLOCK_BEGINS = ("[", *MONTHS)
#: Programs that say their name in a job's own log as well; it is part of what they say.
_NAMED = frozenset({"slurmstepd", "srun"})
_ABSL = re.compile(r"^[IWEF]\d{4} \d\d:\d\d:\d\d[.\d]* +\d* *[\w./+-]+:\d+\] ")
_LEADING_CLOCK = re.compile(
    r"^(?:\[?(?:\d{4}[-/]\d\d[-/]\d\d,?[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?(?: [IWEF])?\]?"
    # The kernel's, as dmesg -T prints it, and that of the command ts.
    rf"|(?:\[[A-Z][a-z]{{2}} )?(?:{'|'.join(MONTHS)}) [ \d]\d \d\d:\d\d:\d\d(?: \d{{4}}\])?)[:,]?"
    # Kubernetes' container logs have the stream and a flag behind the time.
    r"(?:\s(?:stdout|stderr) [FP])?(?:\s|(?<=\])(?=\[rank))"
)
#: What may stand before a rank's label when the output of srun went through something that marks lines.
BEFORE_LABEL = "|".join(part.pattern.removeprefix("^") for part in (_SYSLOG, _LEADING_CLOCK, _MERGED))
#: Lines that repeat arguments, settings, commands or names: failure words in them mean nothing. Launcher: ``bash -x``
#: traces, environment dumps, MaxText's configuration dump. Container runtimes log in pairs that begin with the time.
_ECHO = re.compile(
    r"^(?:\++ |Config param |args: |"
    r"(?!(?:time|ts|level)=|(?:pe|rank|pid)=\d)(?:export |  export |declare -x )?[A-Za-z_]\w*=|"
    r"Extracted env: |Updating keys from env and command line|Command line arguments: |Namespace\(|Script args: |"
    r"\[ENV\] |"
    # Advice for the case that something should come.
    r"(?:[A-Z]\w{1,20} )?(?:INFO|NOTE|HINT|TIP|WARNING)?:? {0,6}[Ii]f you "
    r"(?:see|get|encounter|experience|run into|hit|observe) |"
    # Names of passed tests and what pytest captured of them, subjects of commits, names of errors (errno tables).
    r"(?:\[gw\d+\] )?(?:\S+\.py::\S.*)?\b(?:PASSED|XFAIL|XPASS|SKIPPED)\b|_{3,} .+ _{3,}$|"
    r"(?:CRITICAL|ERROR|WARNING|INFO|DEBUG) +[\w.]+:(?:test_[\w-]+|[\w-]+_test|conftest)\.py:\d+ |"
    r" *(?:(?:error: )?[Cc]ould not apply|pick|[|/\\ ]*\*[|/\\ ]*) [0-9a-f]{7,40}\b|\d{1,3} E[A-Z\d]+ [A-Z])"
)


@dataclass(frozen=True, slots=True)
class LabelFormat:
    """How ranks are labelled in one file. ``width`` is the printf width of ``srun -l``; None: no labels."""

    width: int | None = None
    ntasks: int | None = None

    def split(self, raw: bytes) -> tuple[int | None, bytes]:
        """(rank, rest). A number that cannot be a label (wrong width, rank too high) stays part of the text."""
        if self.width is None:
            return None, raw
        match = _LABEL.match(raw)
        if match is None or match.end(2) != self.width:
            return None, raw
        rank = int(match[2])
        if self.ntasks is not None and rank >= self.ntasks:
            return None, raw
        return rank, raw[match.end() :]


NO_LABELS = LabelFormat()


@dataclass(frozen=True, slots=True)
class Line:
    """``text`` is what a person reads (label, ANSI, Ray prefix removed); ``body`` also lacks clock prefixes."""

    rank: int | None
    text: str
    body: str
    is_echo: bool
    inner_rank: int | None = None
    host: str | None = None


def parse(raw: bytes, labels: LabelFormat) -> Line:
    """Take one physical line apart. Any bytes are accepted; undecodable ones become U+FFFD."""
    rank, rest = labels.split(raw[: MAX_BODY_BYTES + 16])
    return parse_rest(rank, rest)


def parse_rest(rank: int | None, rest: bytes) -> Line:
    """The same for a line whose rank label is already taken off."""
    if b"\x1b" in rest or b"\x0f" in rest:
        rest = _ANSI.sub(b"", rest)
    text = rest[:MAX_BODY_BYTES].decode("utf-8", "replace").replace("\0", "").rstrip("\r\n")
    if text.startswith("("):
        text = _RAY.sub("", text, count=1)
    body, inner, host = strip_prefixes(text)
    if rank is None and inner is None:
        glued = _GLUED_RANK.search(text)
        inner = int(glued[1]) if glued is not None else None
    return Line(rank if rank is not None else inner, text, body, bool(_ECHO.match(body)), inner, host)


def is_prefix(text: str) -> bool:
    """Whether nothing is left of a text without its prefixes."""
    return not strip_prefixes(text)[0].strip()


def strip_prefixes(text: str) -> tuple[str, int | None, str | None]:
    """(text without clock, host, absl and inner-rank prefixes, inner rank, host)."""
    body, inner, host = text, None, None
    if text[:1] in _SYSLOG_BEGINS:
        match = _SYSLOG.match(text)
        if match is not None:
            tag, host = match["tag"] or match["tag2"], match["host"] or match["host2"]
            body = (f"{tag}: " if tag in _NAMED else "") + text[match.end() :]
    for _ in range(3):
        before = body
        match = _INNER_RANK.match(body)
        if match is not None:
            inner = int(next(g for g in match.groups() if g is not None))
            body = body[match.end() :]
        body = _MERGED.sub("", body, count=1)
        if body[:1].isdigit() or body.startswith(_CLOCK_BEGINS):
            body = _LEADING_CLOCK.sub("", body, count=1)
        if body[:1] in "IWEF":
            body = _ABSL.sub("", body, count=1)
        if body == before:
            break
    return body, inner, host


def parse_any(raw: bytes) -> Line:
    """Take apart a line of unknown origin: whatever looks like a rank label is one."""
    match = _LABEL.match(raw)
    return parse(raw, LabelFormat(width=match.end(2)) if match else NO_LABELS)


def clean(raw: bytes) -> str:
    """The body of a line as rules see it, with whatever label it has removed."""
    return parse_any(raw).body
