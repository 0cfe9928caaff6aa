"""Many ended jobs in one answer of squeue, whose exit code looks different from release to release."""

from __future__ import annotations

import pytest

from slurm_triage.slurm.controller import _COLUMNS, parse_ended

DELIMITER = "\x1f0123456789abcdef\x1f"


def answer(*rows: dict[str, str]) -> str:
    return "".join(
        "".join(row.get(name, "").ljust(width) + DELIMITER for name, width in _COLUMNS.items()) + "\n" for row in rows
    )


@pytest.mark.parametrize(
    ("printed", "code", "signal"),
    [
        # 22.05 and 26.05: a wait status.
        ("51200", 200, None),
        ("0", 0, None),
        ("11", 0, 11),
        ("13568", 53, None),
        # 24.11
        ("200:0", 200, None),
        ("0:0", 0, None),
        ("0:11", 0, 11),
        ("0:53", 0, 53),
        # nothing that can be read
        ("", None, None),
        ("n/a", None, None),
        ("1:2:3", None, None),
    ],
)
def test_exit_codes_of_every_release(printed: str, code: int | None, signal: int | None) -> None:
    views = parse_ended(answer({"JobID": "7", "State": "FAILED", "exit_code": printed}), DELIMITER)
    assert (views["7"].exit_code, views["7"].exit_signal) == (code, signal)
