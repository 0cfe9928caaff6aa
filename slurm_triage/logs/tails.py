"""The last words of every rank, read from the end of a file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from slurm_triage.logs.clock import Clock
from slurm_triage.logs.line import LabelFormat, parse
from slurm_triage.model.facts import RankTail

MAX_RANKS = 4096
#: Last words are looked for in this many lines of the end of a file: they hold the end of some thousand ranks.
_MAX_LINES = 20_000
_MAX_TEXT_CHARS = 400
#: Kinds of facts that say how a rank ended or was stopped: what it said before that are its last words.
ABOUT_THE_END = frozenset(
    {
        "node_exit",
        "srun_exit",
        "train_rc",
        "torchrun_exit",
        "stage",
        "summary",
        "cancel",
        "teardown",
        "cleanup",
        "sigterm",
    }
)
#: Lines of a rank in which a clock is looked for; most logs have it on every line or on none.
_MAX_FOR_CLOCK = 16
#: Lines put to the rules (30 us each) before all others are taken as they are.
_MAX_ASKED = 3_000
#: A line that begins at the margin and holds a word: not a rule of dashes, not a stack frame.
_WORDS = re.compile(r"(?=\S).*[^\W\d_]{2}")


def rank_tails(
    tail: bytes,
    file_end: int,
    labels: LabelFormat,
    rank_of_file: int | None,
    clock: Clock,
    is_noise: Callable[[bytes, str], bool],
    stopped: Mapping[int | None, int],
    last_step: int,
) -> tuple[RankTail, ...]:
    """Last words of each rank in ``tail``, the last bytes of a file that ends at offset ``file_end``.

    ``clock`` has read the file up to its end. Lines are read backwards, so none is later than the last one.
    ``is_noise``: the line says nothing of the rank's own. ``stopped``: offsets from which on a rank only cleans up.
    Where such lines are all there is, the last of them is taken; they always tell when the rank was heard of last.
    ``last_step``: offset of the last step line; clocks before it say nothing about the end.
    """
    asked = 0
    waited: Counter[int | None] = Counter()
    end: float | None = None
    found: dict[int | None, RankTail] = {}
    spoken: set[int | None] = set()
    done: set[int | None] = set()
    position = len(tail)
    for _ in range(_MAX_LINES):
        if position <= 0 or len(done) - (None in done) == labels.ntasks:
            break
        start = tail.rfind(b"\n", 0, position - 1) + 1 if position > 1 else 0
        raw = tail[start:position].rstrip(b"\r\n")
        position = start
        if not raw.strip():
            continue
        rank, rest = labels.split(raw)
        rank = rank_of_file if rank is None else rank
        known = found.get(rank)
        if rank in done or (known is None and len(found) >= MAX_RANKS) or not rest.strip():
            continue
        # Of a progress bar only the last state counts; it carries no label of its own.
        line = parse(raw if labels.width is not None else raw.rsplit(b"\r", 1)[-1], labels)
        if not line.body.strip() or line.is_echo:
            continue
        offset = file_end - len(tail) + start
        moment = clock.read(line.text) if known is None or offset >= last_step else None
        end = moment if end is None else end
        if moment is not None and end is not None:
            moment = min(moment, end)
        own = _WORDS.match(line.body) is not None and offset < stopped.get(rank, file_end)
        if own and rank not in spoken and asked < _MAX_ASKED:
            asked += 1
            own = not is_noise(raw, line.body)
        if known is None or (own and rank not in spoken):
            said = RankTail(rank, line.text[:_MAX_TEXT_CHARS], offset, moment, moment if own else None)
        else:
            said = known
        heard = known.time if known is not None and known.time is not None else moment
        found[rank] = replace(said, time=heard)
        if own:
            spoken.add(rank)
        waited[rank] += 1
        if rank in spoken and (heard is not None or waited[rank] >= _MAX_FOR_CLOCK or offset <= last_step):
            done.add(rank)
    return tuple(found[rank] for rank in sorted(found, key=lambda r: (r is not None, r or 0)))
