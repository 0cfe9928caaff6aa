"""The last words of every rank, read from the end of a file."""

from __future__ import annotations

from slurm_triage.logs.clock import Clock
from slurm_triage.logs.line import LabelFormat, parse
from slurm_triage.model.facts import RankTail

MAX_RANKS = 4096
#: Last words are looked for in this many lines of the end of a file: they hold the end of some thousand ranks.
_MAX_LINES = 20_000
_MAX_TEXT_CHARS = 400


def rank_tails(
    tail: bytes, file_end: int, labels: LabelFormat, rank_of_file: int | None, clock: Clock
) -> tuple[RankTail, ...]:
    """Last line with text of each rank in ``tail``, the last bytes of a file that ends at offset ``file_end``.

    ``clock`` has read the file up to its end. Lines are read backwards, so none is later than the last one.
    """
    end: float | None = None
    found: dict[int | None, RankTail] = {}
    position = len(tail)
    for _ in range(_MAX_LINES):
        if position <= 0 or len(found) - (None in found) == labels.ntasks:
            break
        start = tail.rfind(b"\n", 0, position - 1) + 1 if position > 1 else 0
        raw = tail[start:position].rstrip(b"\r\n")
        position = start
        if not raw.strip():
            continue
        rank, rest = labels.split(raw)
        rank = rank_of_file if rank is None else rank
        if rank in found or len(found) >= MAX_RANKS or not rest.strip():
            continue
        # Of a progress bar only the last state counts; it carries no label of its own.
        line = parse(raw if labels.width is not None else raw.rsplit(b"\r", 1)[-1], labels)
        if not line.body.strip() or line.is_echo:
            continue
        moment = clock.read(line.text)
        end = moment if end is None else end
        if moment is not None and end is not None:
            moment = min(moment, end)
        found[rank] = RankTail(rank, line.text[:_MAX_TEXT_CHARS], file_end - len(tail) + start, moment)
    return tuple(found[rank] for rank in sorted(found, key=lambda r: (r is not None, r or 0)))
