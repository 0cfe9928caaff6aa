"""Short names of job states, as sacct and squeue take and print them."""

from __future__ import annotations

#: Short name, or other spelling, to the state.
STATE_NAMES = {
    "BF": "BOOT_FAIL",
    "CA": "CANCELLED",
    "CANCELED": "CANCELLED",
    "CD": "COMPLETED",
    "CG": "COMPLETING",
    "DL": "DEADLINE",
    "F": "FAILED",
    "NF": "NODE_FAIL",
    "OOM": "OUT_OF_MEMORY",
    "PD": "PENDING",
    "PR": "PREEMPTED",
    "R": "RUNNING",
    "RQ": "REQUEUED",
    "RV": "REVOKED",
    "S": "SUSPENDED",
    "TO": "TIMEOUT",
}
