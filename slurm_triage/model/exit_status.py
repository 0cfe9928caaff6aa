"""Exit numbers in their local meaning: shell 128+n, Ray 256-n, torchrun -n, Slurm n:m, raw wait status."""

from __future__ import annotations

import signal as _signal

#: Signals that a user or the scheduler sends to stop a job, as opposed to a crash.
STOP_SIGNALS = frozenset({2, 15})


def signal_name(number: int | None) -> str | None:
    """``SIGSEGV`` for 11; ``signal 53`` for numbers without a name."""
    if number is None:
        return None
    try:
        return _signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def decode_signal(code: int | None, *, ray: bool = False) -> int | None:
    """The signal behind an exit code, or None. ``ray``: the launcher exits with 256-n there (n < 64)."""
    if code is None:
        return None
    if -64 <= code < 0:
        return -code
    if ray and 192 < code < 256:
        return 256 - code
    if 128 < code <= 192:
        return code - 128
    return None


def parse_slurm_exit(text: str | None) -> tuple[int | None, int | None]:
    """(exit code, signal) of Slurm's ``1:0``; signal 0 is None."""
    code, colon, sig = (text or "").partition(":")
    if not colon or not code.strip().isdigit() or not sig.strip().isdigit():
        return None, None
    return int(code), int(sig) or None


def decode_wait_status(raw: int) -> tuple[int, int | None]:
    """(exit code, signal) of a raw wait status such as Slurm puts into SLURM_JOB_EXIT_CODE."""
    return (raw >> 8) & 0xFF, (raw & 0x7F) or None
