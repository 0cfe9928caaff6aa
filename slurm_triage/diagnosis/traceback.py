"""Python tracebacks: which exception ended it."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: An exception line: a dotted name that ends the traceback, with or without a message.
_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning|Failure|Timeout|Died|Killed|Stop\w*|[A-Z]\w*))(?::(?: (.*))?)?$")
_CHAIN = ("During handling of the above exception", "The above exception was the direct cause")
_FRAME = re.compile(r'^\s+(?:File "|\S)')


def final_exception(block: Sequence[str]) -> str | None:
    """The exception that the whole (possibly chained) traceback ends with: ``ValueError: bad value``.

    ``block`` holds the lines after "Traceback (most recent call last):". Text after the traceback's end is ignored.
    """
    last: str | None = None
    inside = True
    for line in block:
        if not inside:
            if line.startswith(_CHAIN):
                continue
            if line.startswith("Traceback (most recent call last):"):
                inside = True
                continue
            if not line.strip():
                continue
            break
        if not line.strip() or line[0] in " \t" or line.startswith(("|", "+")):
            continue
        match = _EXCEPTION.match(line.strip())
        if match is not None:
            last = line.strip()
        elif last is None and ":" in line and re.match(r"^[A-Za-z_][\w.]*:", line):
            last = line.strip()
        inside = False
    return last
