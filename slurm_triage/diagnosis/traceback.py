"""Python tracebacks: which exception ended it."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: An exception line: a dotted name, or one with a capital, that ends the traceback, with or without a message. Names of
#: programs that report something of their own (``srun: ...``) have neither.
_EXCEPTION = re.compile(r"^(?:(?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*|_*[A-Z]\w*)(?::(?: .*)?)?$")
DURING = "During handling of the above exception"
#: Before the traceback of another process or worker which the last exception only passes on: of multiprocessing's
#: children (torch.multiprocessing.spawn), of a DataLoader's workers.
_CHAIN = (DURING, "The above exception was the direct cause", "-- Process ")
_HEADER = "Traceback (most recent call last):"
_ORIGINAL = f"Original {_HEADER}"
#: Other threads of the process write between the frames; more lines than this in a row are no traceback any more.
_MAX_FOREIGN_LINES = 8


def traceback_lines(block: Sequence[str]) -> Sequence[str]:
    """The part of ``block`` (the lines after "Traceback (most recent call last):") that is the (possibly chained)
    traceback itself, with the lines that directly follow its last exception: long messages have several."""
    end, _ = _walk(block)
    while end < len(block) and block[end].strip() and not block[end].startswith(_HEADER):
        end += 1
    return block[:end]


def final_exception(block: Sequence[str]) -> str | None:
    """The exception that the whole (possibly chained) traceback ends with: ``ValueError: bad value``.

    ``block`` holds the lines after "Traceback (most recent call last):". Text after the traceback's end is ignored.
    """
    return _walk(block)[1]


def _walk(block: Sequence[str]) -> tuple[int, str | None]:
    """(number of lines that belong to the traceback, its last exception)."""
    last: str | None = None
    end = 0
    inside, chained, foreign = True, False, 0
    for number, line in enumerate(block):
        if not inside:
            if line.startswith(_CHAIN):
                chained = True
                continue
            if (line.startswith(_HEADER) and chained) or line.startswith(_ORIGINAL):
                inside, chained = True, False
                continue
            if not line.strip():
                continue
            break
        if not line.strip() or line[0] in " \t" or line.startswith(("|", "+")):
            foreign = 0
            continue
        if _EXCEPTION.match(line.strip()) is None:
            foreign += 1
            if foreign > _MAX_FOREIGN_LINES:
                break
            continue
        last = line.strip()
        inside = False
        end = number + 1
    return end, last
