"""All logs of one job, read once, as facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slurm_triage.logs.fold import fold_attempt, with_inherited
from slurm_triage.logs.goes_on import EndOfFile, end_of_file
from slurm_triage.logs.scan import FileScan
from slurm_triage.logs.source import ByteSource, open_source
from slurm_triage.logs.tails import ABOUT_THE_END, rank_tails
from slurm_triage.logs.tally import AttemptTally
from slurm_triage.logs.telling import telling_lines
from slurm_triage.logs.windows import WINDOW_BYTES, windows
from slurm_triage.model.facts import LogFacts, RankTail, StepSeries, TellingLine
from slurm_triage.model.files import JobFiles, LogFile
from slurm_triage.model.rule import HARMLESS, RuleSet
from slurm_triage.rules.matcher import Matcher
from slurm_triage.rules.select import body_verdict

#: More than this share of control bytes (without those of terminals, and without the NULs that a lost write leaves) in
#: the first 64 KiB: not a text log. Programs have 10 %, compressed or random data 8 %, logs none.
_BINARY_SHARE = 0.05

#: A log that grows while it is read is still read in pieces of a useful size.
_SMALLEST_WINDOW_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class _ReadFile:
    log: LogFile
    scan: FileScan
    size_bytes: int
    damaged: str | None
    unwrapped: bool


def read_logs(files: JobFiles, ruleset: RuleSet, matcher: Matcher, *, max_bytes: int | None = None) -> LogFacts:
    """Facts of all attempts. Files are read in the order given; the first one defines the attempts.

    Raises NotFoundError when a file cannot be opened. ``max_bytes`` bounds each file (uncompressed).
    """
    read: list[_ReadFile] = []
    seq_base = 0
    truncated = False
    for index, log in enumerate(files.logs):
        with open_source(log.path) as source:
            scan = _read_one(source, index, seq_base, log, ruleset, matcher, max_bytes)
            size = source.size_bytes if source.size_bytes is not None else scan.bytes_scanned
            truncated = truncated or (max_bytes is not None and scan.bytes_scanned >= max_bytes)
            read.append(_ReadFile(log, scan, size, source.damaged, source.unwrapped))
        seq_base += scan.bytes_scanned + 1
    if not read:
        return LogFacts()
    hosts = {host: rank for r in read for a in r.scan.attempts for rank, host in a.rank_hosts.items()}
    count = len(read[0].scan.attempts)
    attempts = []
    for number in range(count):
        tallies: list[AttemptTally] = []
        series: list[StepSeries] = []
        tails: list[RankTail] = []
        telling: list[TellingLine] = []
        ends: dict[int, EndOfFile] = {}
        for file in read:
            # Attempts of other files are matched from the end: the last start is the one that all of them hold.
            place = len(file.scan.attempts) - (count - number)
            if place < 0:
                continue
            tally = file.scan.attempts[place]
            rank = rank_of(file.log, hosts)
            tallies.append(_with_rank(tally, rank))
            series.extend(tally.steps.series(files.logs.index(file.log), ruleset.dialects, rank))
            if number == count - 1:
                tails.extend(_tails(file, rank, ruleset, matcher))
                place = files.logs.index(file.log)
                telling.extend(telling_lines(file.scan, place, file.log, rank, ruleset.rules, matcher))
                if telling or tally.matches:
                    ends[place] = end_of_file(file.scan, ruleset.rules, matcher)
        attempt = fold_attempt(number, tallies, ruleset, series, tails)
        cut = number == count - 1 and _ends_mid_line(read[0].scan)
        attempts.append(
            replace(
                attempt,
                telling=tuple(telling),
                usual_seq={f: e.usual_seq for f, e in ends.items()},
                quiet_seq={f: e.quiet_seq for f, e in ends.items()},
                ends_mid_line=cut,
            )
        )
    return LogFacts(
        attempts=with_inherited(attempts),
        bytes_scanned=sum(r.scan.bytes_scanned for r in read),
        size_bytes=sum(r.size_bytes for r in read),
        truncated=truncated,
        binary=any(_is_binary(r.scan) for r in read),
        notes=_notes(read),
    )


def _notes(read: Sequence[_ReadFile]) -> tuple[str, ...]:
    """What a reader must know about the files before believing a verdict that rests on them."""
    notes = [f"{r.log.path}: {r.damaged}" for r in read if r.damaged]
    notes.extend(
        f"{r.log.path} holds records of a log shipper or a logger: places count in the text inside them"
        for r in read
        if r.unwrapped
    )
    if not any(r.scan.bytes_scanned for r in read):
        notes.append("The log is empty: the job printed nothing, or its output went elsewhere.")
    elif not any((r.scan.head + r.scan.tail).strip(b"\0") for r in read):
        notes.append("The log holds nothing but NUL bytes: what was written to it is lost (a crash, or truncation).")
    notes.extend(
        f"{r.log.path} shows {len(r.scan.attempts) + r.scan.attempts_dropped} starts; {r.scan.attempts_dropped} of "
        "those between the first and the last are left out"
        for r in read
        if r.scan.attempts_dropped
    )
    notes.extend(f"{r.log.path} is mostly binary data: is it a log?" for r in read if _is_binary(r.scan))
    return tuple(notes)


def _read_one(
    source: ByteSource,
    index: int,
    seq_base: int,
    log: LogFile,
    ruleset: RuleSet,
    matcher: Matcher,
    max_bytes: int | None,
) -> FileScan:
    scan = FileScan(ruleset, matcher, index, seq_base, source.mtime, log.host)
    for window in windows(source, _window_bytes(source)):
        scan.window(window)
        if max_bytes is not None and scan.bytes_scanned >= max_bytes:
            break
    return scan


def _window_bytes(source: ByteSource) -> int:
    """A whole small file at once: filling 8 MiB of fresh memory costs a short-lived process more than its triage."""
    if source.size_bytes is None or source.compressed or source.unwrapped:
        return WINDOW_BYTES
    return min(WINDOW_BYTES, max(_SMALLEST_WINDOW_BYTES, source.size_bytes))


def rank_of(log: LogFile, hosts: dict[str, int]) -> int | None:
    """The one rank a file belongs to, from its name or its node."""
    if len(log.ranks) == 1:
        return log.ranks[0]
    if log.host is None:
        return None
    short = log.host.split(".")[0]
    return next((rank for host, rank in hosts.items() if host.split(".")[0] == short), None)


def _with_rank(tally: AttemptTally, rank: int | None) -> AttemptTally:
    """Give the file's rank to matches that carry none."""
    if rank is None:
        return tally
    tally.facts = [replace(f, rank=rank) if f.rank is None else f for f in tally.facts]
    for value in (*tally.earlier, *tally.matches.values()):
        if value.first.rank is None:
            value.first = replace(value.first, rank=rank)
    return tally


def _tails(file: _ReadFile, rank: int | None, ruleset: RuleSet, matcher: Matcher) -> Sequence[RankTail]:
    scan, kinds = file.scan, ruleset.fact_kinds
    stopped: dict[int | None, int] = {}
    for fact in scan.attempt.facts:
        if fact.rank is not None and kinds.get(fact.rule) in {"teardown", "cleanup"}:
            stopped.setdefault(fact.rank, fact.first.offset)
        if kinds.get(fact.rule) == "cancel":
            # Slurm's own word: what follows without a label is said while everything ends.
            stopped.setdefault(rank, fact.first.offset)

    last_step = scan.attempt.steps.last_seq - scan.attempts[0].start_seq

    def is_noise(raw: bytes, body: str) -> bool:
        rules = [ruleset.rules[index] for index in set(matcher.scan(raw).rules)]
        empty = [rule for rule in rules if rule.cls == HARMLESS or rule.fact in ABOUT_THE_END]
        return any(body_verdict(rule, body) is not None for rule in empty)

    return rank_tails(scan.tail, scan.bytes_scanned, scan.labels, rank, scan.clock, is_noise, stopped, last_step)


def _ends_mid_line(scan: FileScan) -> bool:
    """A progress bar, which ends in a carriage return or begins with one, never ends its line."""
    last = scan.tail[scan.tail.rfind(b"\n") + 1 :]
    return bool(last.strip()) and b"\r" not in last


def _is_binary(scan: FileScan) -> bool:
    return bool(scan.head) and scan.control_bytes > _BINARY_SHARE * len(scan.head)
