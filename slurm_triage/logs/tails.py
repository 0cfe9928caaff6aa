"""The last words of every rank, read from the end of a file."""

from __future__ import annotations

from slurm_triage.logs.clock import Clock
from slurm_triage.logs.line import LabelFormat, parse
from slurm_triage.model.facts import RankTail

MAX_RANKS = 4096
#: Last words are looked for in this much of the end of a file: 1 MiB holds the end of some thousand ranks.
_MAX_LINES = 20_000


def rank_tails(
    tail: bytes, file_end: int, seq_base: int, labels: LabelFormat, rank_of_file: int | None
) -> tuple[RankTail, ...]:
    """Last non-empty line of each rank in ``tail``, the last bytes of a file that ends at offset ``file_end``."""
    clock = Clock()
    found: dict[int | None, RankTail] = {}
    counts: dict[int | None, int] = {}
    position = len(tail)
    lines = 0
    while position > 0 and lines < _MAX_LINES:
        start = tail.rfind(b"\n", 0, position - 1) + 1 if position > 1 else 0
        raw = tail[start:position].rstrip(b"\r\n")
        lines += 1
        if raw.strip():
            rank, rest = labels.split(raw[-4096:] if labels.width is None else raw)
            if rank is None:
                rank = rank_of_file
            counts[rank] = counts.get(rank, 0) + 1
            if rank not in found and len(found) < MAX_RANKS and rest.strip():
                line = parse(raw.rsplit(b"\r", 1)[-1] if labels.width is None else raw, labels)
                if line.body.strip() and not line.is_echo:
                    found[rank] = RankTail(
                        rank, line.text[:400], seq_base + file_end - len(tail) + start, clock.read(line.text), 0
                    )
        position = start
    return tuple(
        RankTail(t.rank, t.text, t.seq, t.time, counts[rank])
        for rank, t in sorted(found.items(), key=lambda i: (i[0] is not None, i[0] or 0))
    )
