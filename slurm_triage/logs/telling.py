"""Lines near the end that look like trouble although no rule knows them: all that an unexplained end has to show.

What makes a line telling is how it is written, not what it says: words of severity, a shape that the log does not
repeat, its place (behind the last step, the last of its rank), the form of an exception. Reading stays within the last
bytes of a file, which the scan keeps anyway.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurm_triage.logs.line import LabelFormat, parse
from slurm_triage.model.facts import Place, TellingLine
from slurm_triage.model.files import LogFile
from slurm_triage.model.rule import Rule
from slurm_triage.rules.matcher import Matcher
from slurm_triage.rules.select import body_verdict

if TYPE_CHECKING:
    from slurm_triage.logs.scan import FileScan

#: Kept per file; a report shows three.
MAX_LINES = 24
#: How much of the end is looked at: 5 ms of a job's own log, less of each of many rank files.
PRIMARY_BYTES, OTHER_BYTES = 256 << 10, 32 << 10
#: Lines that are taken apart, from the end, and candidates that are checked against the rules (30 us each).
_MAX_CANDIDATES, _MAX_CHECKED = 500, 48
_MAX_PER_RANK = 4
#: A warning counts only behind the last step.
_MIN_SCORE = 3
_MAX_TEXT_CHARS = 400
#: Lines of one shape by one rank from which on the shape is chatter.
_CHATTER = 4

#: English for "it broke", "something did not work", "be careful", as stems, with their weight. Names such as
#: ``RuntimeError`` end in one.
_STEMS = {
    6: "fatal panic exception segfault segmentation core+dumped abort assert crash killed unhandled uncaught critical",
    4: "error fail cannot can't could+not couldn't unable denied refused invalid illegal corrupt unreachable no+such "
    "not+found missing mismatch lost broken unexpected giving+up stuck nccl+warn",
    2: "warn timeout timed+out terminat expired exceed out+of exit",
}
_ERROR_WEIGHT = 4
WEIGHTS = {stem.replace("+", " "): weight for weight, stems in _STEMS.items() for stem in stems.split()}
#: Counts of nothing, and names of options.
_NOTHING = re.compile(
    r"\b(?:no|0|without|zero|any) (?:\w+ )?(?:error|fail|warning)|"
    r"(?:error|fail\w*|warning)s?\b\W{1,3}(?:0\b|none\b|false\b|true\b|\[\])|"
    # The name of a function in a C++ stack.
    r"^\s*(?:(?:@|#\d{1,3}) +0x[0-9a-f]+ |frame #\d{1,3}: )",
    re.IGNORECASE,
)
#: What is tried again, or was expected, is not over; what is said as information, or while looking around, is not meant
#: as trouble.
_NOT_MEANT = re.compile(
    r"\b(?:retry|retries|retrying|try(?:ing)? again|skipped|skipping|ignor(?:ed|ing)|optional|as expected|"
    r"expected failure|harmless)\b|\bV?INFO\b|^(?:ls|find|du|grep|stat|which|locate|pgrep): ",
    re.IGNORECASE,
)
#: The letter of a level, as glog, absl and PyTorch write it: an error or worse, whatever the words.
_LEVEL = re.compile(rb"(?m)^.{0,80}?(?:\b[EF]\d{3,4} [\d:.]{8}|: [EF] [\w./-]{1,120}:\d|\[E [\w.]{1,60}:\d)")
#: A frame of a stack: Python's, also as its crash handler and IPython print it, and glibc's. Where a log breaks off
#: within one, that is all it has to say.
_FRAME = re.compile(
    rb'File (?:"[^"\n]{1,400}", line \d{1,9},? in |[^\s":]{1,400}:\d{1,9}, in )|'
    rb"\([\w:~<>, ]{0,200}\+0x[0-9a-f]{1,16}\) \[0x[0-9a-f]{4,16}\]"
)
_FRAME_WEIGHT, _FRAME_LINES = 6, 4
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*[.:]{1,2})*[A-Za-z_]\w*(?:Error|Exception|Failure|Exit)\b(?:\(|: |$)")
_VARYING = re.compile(r"0x[0-9a-fA-F]+|\d+|\b[0-9a-f]{8,}\b|'[^']*'|\"[^\"]*\"|/\S+")
_SHAPE_CHARS = 100


@dataclass(slots=True)
class _Candidate:
    start: int
    raw: bytes
    rank: int | None
    host: str | None
    text: str
    body: str
    shape: str
    score: int


def telling_lines(
    scan: FileScan, file: int, log: LogFile, rank: int | None, rules: Sequence[Rule], matcher: Matcher
) -> tuple[TellingLine, ...]:
    """The most telling lines of the last attempt in one file, in log order. ``rank``: that of the whole file."""
    if log.role == "node":
        # A kernel's messages are full of such words; rules know the ones that matter.
        return ()
    if any(fact.captures.get("result") == "SUCCESS" for fact in scan.attempt.facts):
        # A job that ended well needs no explanation, and most do.
        return ()
    tail = scan.tail[-(PRIMARY_BYTES if log.role == "primary" else OTHER_BYTES) :]
    base = scan.bytes_scanned - len(tail)
    seq_base = scan.attempts[0].start_seq
    begin = max(0, scan.attempt.start_seq - seq_base - base, scan.quoted_until - base)
    start = 0 if base + begin == 0 else tail.find(b"\n", begin) + 1
    candidates = list(_candidates(tail, start, scan.labels, rank, log.host))
    _weigh(candidates, scan.attempt.steps.last_seq - seq_base - base)
    told = _block_lines(scan)
    kept: list[_Candidate] = []
    seen: set[tuple[int | None, str]] = set()
    per_rank: Counter[int | None] = Counter()
    for candidate in sorted(candidates, key=lambda c: (-c.score, -c.start))[:_MAX_CHECKED]:
        key = (candidate.rank, candidate.shape)
        if candidate.score < _MIN_SCORE or key in seen or per_rank[candidate.rank] >= _MAX_PER_RANK:
            continue
        if candidate.body in told or is_known(candidate.raw, candidate.body, rules, matcher):
            continue
        seen.add(key)
        per_rank[candidate.rank] += 1
        kept.append(candidate)
        if len(kept) == MAX_LINES:
            break
    kept.sort(key=lambda c: c.start)
    result = []
    for candidate in kept:
        number = None if scan.lines is None else scan.lines - tail.count(b"\n", candidate.start)
        place = Place(file, base + candidate.start, candidate.text[:_MAX_TEXT_CHARS], number)
        seq = seq_base + base + candidate.start
        result.append(
            TellingLine(place, candidate.rank, candidate.host, seq, candidate.score, candidate.body[:_MAX_TEXT_CHARS])
        )
    return tuple(result)


def _weigh(candidates: Sequence[_Candidate], last_step: int) -> None:
    """What the place of a line, and how often its shape comes, adds to its words. ``last_step``: offset in the tail."""
    shapes = Counter((c.rank, c.shape) for c in candidates)
    latest = {c.rank: c.start for c in candidates}
    for candidate in candidates:
        candidate.score += 1 if candidate.start > last_step else -1
        candidate.score += 1 if candidate.start == latest[candidate.rank] else 0
        candidate.score -= 3 if shapes[candidate.rank, candidate.shape] >= _CHATTER else 0


def _candidates(
    tail: bytes, begin: int, labels: LabelFormat, rank: int | None, host: str | None
) -> Iterator[_Candidate]:
    """The last lines with a word of severity that are not merely repeated settings, in log order. Stack frames, which
    are indented, weigh less."""
    weights = _weights(tail, begin)
    for start in sorted(weights)[-_MAX_CANDIDATES:]:
        end = tail.find(b"\n", start)
        raw = tail[start : len(tail) if end < 0 else end].rstrip(b"\r")
        line = parse(raw if labels.width is not None else raw.rsplit(b"\r", 1)[-1], labels)
        if line.is_echo or not line.body.strip() or _NOTHING.search(line.body):
            continue
        score = weights[start] + (2 if _EXCEPTION.match(line.body) else 0) - (2 if line.body[0] in " \t" else 0)
        score -= 5 if _NOT_MEANT.search(line.body) else 0
        shape = _VARYING.sub("#", line.body[:_SHAPE_CHARS])
        who = (line.rank if line.rank is not None else rank, line.host or host)
        yield _Candidate(start, raw, *who, line.text, line.body, shape, score)


def _weights(tail: bytes, begin: int) -> dict[int, int]:
    """Offset of each line with such a word, and the weight of its worst."""
    lowered = tail.lower()
    found: dict[int, int] = {}
    for stem, weight in WEIGHTS.items():
        word = stem.encode()
        position = lowered.find(word, begin)
        while position >= 0:
            start = max(begin, lowered.rfind(b"\n", 0, position) + 1)
            found[start] = max(weight, found.get(start, 0))
            newline = lowered.find(b"\n", position)
            position = lowered.find(word, newline) if newline >= 0 else -1
    for match in _LEVEL.finditer(tail, begin):
        found[match.start()] = max(_ERROR_WEIGHT, found.get(match.start(), 0))
    last = len(tail.rstrip())
    for _ in range(_FRAME_LINES):
        start = max(begin, tail.rfind(b"\n", begin, last) + 1)
        if _FRAME.search(tail, start, last):
            found[start] = _FRAME_WEIGHT
        last = max(begin, start - 1)
    return found


def _block_lines(scan: FileScan) -> set[str]:
    """Lines that belong to a message that is known."""
    attempt = scan.attempt
    known = (*attempt.facts, *(tally.first for tally in (*attempt.matches.values(), *attempt.earlier)))
    return {line for match in known for line in match.block}


def is_known(raw: bytes, body: str, rules: Sequence[Rule], matcher: Matcher) -> bool:
    """Whether a rule speaks for the line: it is a finding, harmless, or a fact already. One that only counts in
    training does not say what the line means at a start."""
    hits = {rules[index] for index in matcher.scan(raw).rules}
    return any(rule.after_step is None and body_verdict(rule, body) is not None for rule in hits)
