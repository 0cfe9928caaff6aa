"""Whether the end of a log looks as if the program goes on as usual, whatever stood before."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurm_triage.logs.line import parse
from slurm_triage.logs.telling import WEIGHTS, is_known
from slurm_triage.model.rule import Rule
from slurm_triage.rules.matcher import Matcher

if TYPE_CHECKING:
    from slurm_triage.logs.scan import FileScan

#: Lines of the end that are looked at, and those among them in which a last word may stand.
_MAX_LINES, _LAST_WORDS = 60, 4
#: An error that ends a program is its last word but for a line or so (measured: none in 70 logs of failed jobs from
#: public reports; two or more in 12 of 18 logs of healthy jobs that print an error).
_LAST_ORDINARY = 1
_DONE = re.compile(r"\b(?:done|finished|completed?|succe\w+)\b", re.IGNORECASE)
#: A line that only shows where an error went through: a frame of a stack in whatever notation, torchrun's list of the
#: workers that failed.
_UNWINDING = re.compile(
    r"\s*(?:File|at|by|from|in|\^|#\d|\[bt\]|frame #|@|\(?0x|\d+ +0x|\*\*\*|\W+$)|"
    r".*-> ?\d+$|.*\b0x|\s*\w+ {2,12}: |\[\d+\]:$|"
    # Of Fortran: image, address, routine, line.
    r"Image +PC +Routine|\S+ +[0-9A-F]{16} "
)
#: Above a source line that belongs to a stack.
_FRAME = re.compile(rb'File "[^"\n]{1,400}", line \d{1,9}')
#: What tells lines of several ranks apart that say the same.
_WHO = re.compile(r"\b(?:rank|process|proc|task|node|worker|host|gpu|device|pid|id)\W{0,3}\d+", re.IGNORECASE)
#: What is left of a line without its numbers, paths, quoted words and progress bars.
_VARYING = re.compile(r"\b[0-9a-f]{8,}\b|'[^']*'|\"[^\"]*\"|/\S+|[^A-Za-z]+")


@dataclass(frozen=True, slots=True)
class EndOfFile:
    """``usual_seq``: from where on the log goes on as usual, which is the last but one line of a kind that only differs
    in its numbers, or a last word which says that all is done; -1 if it does not. ``quiet_seq``: from where on hardly
    an ordinary line follows."""

    usual_seq: int
    quiet_seq: int


def end_of_file(scan: FileScan, rules: Sequence[Rule], matcher: Matcher) -> EndOfFile:
    """How the last lines of a file read. Lines that a rule knows or that sound bad are not ordinary."""
    tail = scan.tail
    base = scan.attempts[0].start_seq + scan.bytes_scanned - len(tail)
    seen: dict[tuple[int | None, str], str] = {}
    position = len(tail)
    ordinary, quiet_seq = 0, -1
    for number in range(_MAX_LINES):
        if position <= 0:
            break
        start = tail.rfind(b"\n", 0, position - 1) + 1
        raw, position = tail[start:position].rstrip(), start
        line = parse(raw, scan.labels)
        if not line.body.strip() or _UNWINDING.match(line.body) or any(stem in line.body.lower() for stem in WEIGHTS):
            continue
        if is_known(raw, line.body, rules, matcher):
            continue
        above = tail[tail.rfind(b"\n", 0, max(0, start - 1)) + 1 : start]
        if line.body.startswith("    ") and _FRAME.search(above):
            continue
        ordinary += 1
        if ordinary == _LAST_ORDINARY + 1:
            quiet_seq = base + start
        shape = (line.rank, _VARYING.sub("#", line.body))
        said = _WHO.sub("", line.body)
        if not seen and number < _LAST_WORDS and _DONE.search(line.body) is not None:
            # What stands behind "done" is the clean-up.
            return EndOfFile(base + len(tail), base + len(tail))
        if "#" in shape[1] and seen.get(shape, said) != said:
            return EndOfFile(base + start, max(quiet_seq, base + start))
        seen[shape] = said
    return EndOfFile(-1, quiet_seq)
