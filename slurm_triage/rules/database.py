"""hyperscan: expressions compiled together and searched for in one linear pass.

Nothing here may be used by two threads at once: a database comes with one scratch space.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from slurm_triage.errors import TriageError

#: An expression in hyperscan's dialect, the number that its matches report, and hyperscan's flags.
Expression = tuple[bytes, int, int]

#: Processor features that decide which database hyperscan builds.
_CPU_FEATURES = frozenset({"avx2", "avx512bw", "avx512vbmi", "bmi2", "asimd", "sve", "sve2"})


def library() -> Any:
    """The module. Raises TriageError where there is none for the machine."""
    try:
        import hyperscan
    except ImportError as error:
        machine = os.uname().machine
        raise TriageError(
            f"the hyperscan library does not load on this machine ({machine}: {error}); "
            "install it with: pip install hyperscan (x86_64 and aarch64 Linux)"
        ) from error
    return hyperscan


def build(expressions: Sequence[Expression]) -> Any:
    """Raises ``hyperscan.error``, which does not say which expression it is about."""
    hyperscan = library()
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    texts, ids, flags = map(list, zip(*expressions, strict=True))
    database.compile(expressions=texts, ids=ids, elements=len(texts), flags=flags)
    return database


def dump(database: Any) -> bytes:
    stored: bytes = library().dumpb(database)
    return stored


def restore(stored: bytes) -> Any:
    """The database, or None when it does not fit this processor or this library."""
    hyperscan = library()
    try:
        database = hyperscan.loadb(stored, hyperscan.HS_MODE_BLOCK)
        # loadb leaves the scratch space out; scanning without one crashes.
        database.scratch = hyperscan.Scratch(database)
    except hyperscan.error:
        return None
    return database


def literal(text: bytes) -> bytes:
    """An expression for the bytes themselves."""
    return b"".join(b"\\x%02x" % byte for byte in text)


def platform() -> str:
    """What a stored database depends on. Hosts that share a home directory may differ in their processors."""
    try:
        with open("/proc/cpuinfo", "rb") as file:
            # The first processor is enough, and reading hundreds of them costs milliseconds.
            words = set(file.read(4096).decode(errors="replace").split())
        features = " ".join(sorted(_CPU_FEATURES & words))
    except OSError:
        features = "unknown"
    return f"{library().__version__} {os.uname().machine} {features}"


class Search:
    """One expression that is known only once a log is read. Several times as fast as ``bytes.find``."""

    __slots__ = ("_database",)

    def __init__(self, expression: bytes, *, once: bool = False) -> None:
        """``once``: the first match of a scan is enough."""
        self._database = build([(expression, 0, library().HS_FLAG_SINGLEMATCH if once else 0)])

    def ends(self, data: bytes | bytearray, start: int, end: int) -> list[int]:
        """Offsets just behind the matches within ``data[start:end]``, ascending."""
        found: list[int] = []

        def on_match(_id: int, _from: int, to: int, _flags: int, _context: object) -> None:
            found.append(start + to)

        if start < end:
            with memoryview(data) as view:
                self._database.scan(view[start:end], match_event_handler=on_match)
        return found
