"""Amounts of memory as people read them."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"(\d{1,20})(?: ?(?:[Bb]ytes?|B))?")
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
#: Below a mebibyte the very number may tell something (a header, a page).
_EXACT_BELOW = 1 << 20


def human_size(text: str) -> str:
    """``39.5 GiB`` for ``42405855232 bytes``; a size with a unit, or a small one, as it is written."""
    match = _PLAIN.fullmatch(text.strip())
    if match is None or int(match[1]) < _EXACT_BELOW:
        return text
    size = int(match[1])
    power = min((size.bit_length() - 1) // 10, len(_UNITS) - 1)
    amount = size / (1 << (10 * power))
    return f"{amount:.3g} {_UNITS[power]}" if amount < 999.5 else f"{amount:.0f} {_UNITS[power]}"
