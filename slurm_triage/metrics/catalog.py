"""Every metric that is exported. The dashboard and docs/metrics.md use these names; tests compare them.

Names that end in ``_total`` are counters. The others are gauges: counts of a window can shrink when a report is
replaced by a later revision, and a counter that shrinks is read as a restart. Units are Prometheus' base units
(seconds, bytes), so GPU hours are exported as GPU seconds.
"""

from __future__ import annotations

from typing import Final

PREFIX: Final = "slurm_triage_"

CATALOG: Final[dict[str, str]] = {
    "jobs": "Triaged job attempts that ended in the window, by verdict.",
    "gpu_seconds": "GPU time used by attempts that ended in the window, by class of failure.",
    "gpu_seconds_lost": "GPU time lost (steps after the last checkpoint, silence, set-up) in the window, by class.",
    "rule_jobs": "Attempts in the window whose cause rests on this rule.",
    "outbreak_jobs": "Jobs of the last hour that an outbreak of this class hit.",
    "provisional_jobs": "Attempts in the window whose report waits for accounting's final record, or for room on disk.",
    "window_seconds": "Length of the window that the counts of jobs cover.",
    "ledger_readable": "1 if the ledger could be read.",
    "ledger_size_bytes": "Size of the ledger's segments.",
    "ledger_segments": "Segments that the ledger holds.",
    "ledger_damaged_places": "Damaged places in the segments that the window needs.",
    "ledger_quarantined_places": "Damaged places that repair has put into quarantine.",
    "ledger_lost_records": "Acknowledged records that repair has noted as gone.",
    "last_report_timestamp_seconds": "When the newest report in the ledger was made.",
    "reconciled_timestamp_seconds": "Until when accounting was asked for jobs that no hook reported.",
    "spool_readable": "1 if the spool could be listed.",
    "spool_events": "Events in the spool that wait for the worker.",
    "spool_oldest_event_age_seconds": "Age of the oldest event that waits: how far the worker is behind.",
    "spool_refused_files": "Files that were refused because no hook can have written them.",
    "reports_total": "Reports that the worker's children have made.",
    "scanned_bytes_total": "Bytes of logs that they have read.",
    "scan_seconds_total": "Time that they spent from opening the logs to the verdict.",
    "rule_hits_total": "Matches of this rule in these logs.",
    "metrics_timestamp_seconds": "When these metrics were computed.",
}
