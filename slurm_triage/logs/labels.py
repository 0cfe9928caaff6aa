"""Finds out how a file labels its ranks, from the launcher's header or from the lines themselves."""

from __future__ import annotations

import re
from collections import Counter

from slurm_triage.logs.line import NO_LABELS, LabelFormat

_NNODES = re.compile(rb"^(?:NNODES|SLURM_JOB_NUM_NODES)=(\d{1,6})\r?$", re.MULTILINE)
_LABEL_AT_START = re.compile(rb"^( *)(\d{1,6}): ", re.MULTILINE)

#: Without a header, labels are believed only if this share of the lines carries one of the same width. Real multi-rank
#: output is nearly all labelled; numbered listings inside ordinary output are not.
_MIN_SHARE = 0.3
_SAMPLE_BYTES = 256 << 10


def detect(head: bytes) -> LabelFormat:
    """Label format of a file that begins with ``head``."""
    head = head[:_SAMPLE_BYTES]
    widths: Counter[int] = Counter()
    highest: dict[int, int] = {}
    for match in _LABEL_AT_START.finditer(head):
        width = match.end(2) - match.start(1)
        # printf pads with blanks to the width of the highest rank: no leading zeros, no needless blanks.
        if match[2] == b"0" or not match[2].startswith(b"0"):
            widths[width] += 1
            highest[width] = max(highest.get(width, 0), int(match[2]))
    if not widths:
        return NO_LABELS
    header = _NNODES.search(head)
    if header is not None and int(header[1]) > 0:
        ntasks = int(header[1])
        width = len(str(ntasks - 1))
        return LabelFormat(width, ntasks) if widths[width] else NO_LABELS
    width, count = widths.most_common(1)[0]
    lines = head.count(b"\n") + 1
    return LabelFormat(width) if count >= _MIN_SHARE * lines else NO_LABELS
