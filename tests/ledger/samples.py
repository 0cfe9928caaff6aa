"""Records to write in tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slurm_triage.ledger.record import LedgerRecord

DAY_S = 86400.0
#: 2026-03-10 08:00 UTC.
T0 = 1_773_129_600.0
#: Where tests that sync thousands of times put their files; None if this host has no such place.
MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


def record(number: int = 1, **changes: Any) -> LedgerRecord:
    """A failed job of four nodes that ran an hour; ``number`` makes id and times differ."""
    start = T0 + 60 * number
    values: dict[str, Any] = {
        "job_id": str(7000 + number),
        "attempt": f"s{int(start)}",
        "revision": int((start + 3700) * 1000),
        "status": "failed",
        "cluster": "alpha",
        "user": "alice",
        "account": "llm",
        "partition": "gpu",
        "name": "JAX-llama2-70b",
        "state": "FAILED",
        "cls": "gpu-hw-fault",
        "rule": "gpu-ecc",
        "fingerprint": "00d1ce00d1ce00d1",
        "confidence": "high",
        "domain": "node",
        "nodes": "chi[2801-2804]",
        "node_count": 4,
        "submit": start - 30,
        "start": start,
        "end": start + 3600,
        "elapsed_s": 3600.0,
        "gpus": 32,
        "gpu_hours": 32.0,
        "gpu_hours_lost": 8.0,
        "generated_at": start + 3700,
        **changes,
    }
    return LedgerRecord(**values)
