"""A log that repeats itself without end costs a bounded amount of work and memory, and its report stays short."""

from __future__ import annotations

from pathlib import Path

from slurm_triage.logs.scan import MAX_ATTEMPTS
from slurm_triage.pipeline import Engine, triage_path
from slurm_triage.report.build_document import report_document

_START = """JOB_ID=77
NODE_EXIT host=h{0} exit=1
completed step: 1, seconds: 1.0, TFLOP/s/device: 1, Tokens/s/device: 1, total_weights: 1, loss: 2.0
"""


def test_starts_without_end(tmp_path: Path) -> None:
    count = 500
    log = tmp_path / "x.log"
    log.write_text("".join(_START.format(i) for i in range(count)))
    document = report_document(triage_path(str(log), engine=Engine.load()))
    assert len(document["attempts"]) < MAX_ATTEMPTS
    assert any(f"{count} starts" in note for note in document["notes"])
    assert document["exits"][-1]["host"] == f"h{count - 1}"


def test_tasks_without_end(tmp_path: Path) -> None:
    """All of them are victims of something that the log does not show; no list grows with their number squared."""
    calls = {}
    for count in (1_000, 4_000):
        log = tmp_path / f"{count}.log"
        log.write_text("".join(f"srun: error: h{i}: task {i}: Exited with exit code 1\n" for i in range(count)))
        calls[count] = _calls(log)
    assert calls[4_000] < 6 * calls[1_000]


def _calls(log: Path) -> int:
    """How many times functions are called: grows with the work, on a busy machine too."""
    import sys

    engine = Engine.load()
    triage_path(str(log), engine=engine)
    seen = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal seen
        seen += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        triage_path(str(log), engine=engine)
    finally:
        sys.setprofile(None)
    return seen
