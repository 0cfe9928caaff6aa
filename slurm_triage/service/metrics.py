"""What the worker tells Prometheus, as a file for node_exporter's textfile collector.

Names end in base units (seconds, bytes) and ``_total`` as Prometheus wants them. Counters start at zero with each
worker, which is what ``rate()`` and ``increase()`` expect.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from slurm_triage.errors import TriageError
from slurm_triage.ledger.record import LedgerRecord

_HOUR_S = 3600.0
#: metric -> (type, help).
METRICS: dict[str, tuple[str, str]] = {
    "slurm_triage_jobs_total": ("counter", "Attempts triaged, by status and failure class (none for healthy ones)."),
    "slurm_triage_gpu_seconds_total": ("counter", "GPU time of triaged attempts."),
    "slurm_triage_gpu_lost_seconds_total": ("counter", "GPU time whose work was lost, by failure class."),
    "slurm_triage_rule_hits_total": ("counter", "Attempts whose cause a rule named."),
    "slurm_triage_scanned_bytes_total": ("counter", "Bytes of logs read."),
    "slurm_triage_scan_seconds_total": ("counter", "Time spent reading logs."),
    "slurm_triage_spool_files": ("gauge", "Events waiting in the spool."),
    "slurm_triage_worker_lag_seconds": ("gauge", "Age of the oldest event that waits."),
    "slurm_triage_last_report_timestamp_seconds": ("gauge", "When the last report was recorded."),
}

Labels = tuple[tuple[str, str], ...]


@dataclass
class Metrics:
    """Counts what is recorded; ``render`` is the text, ``write`` puts it where node_exporter looks."""

    values: dict[str, dict[Labels, float]] = field(default_factory=dict)

    def observe(self, record: LedgerRecord, *, scanned_bytes: int = 0, scan_s: float = 0.0) -> None:
        """One attempt that the ledger acknowledged."""
        cluster = ("cluster", record.cluster or "")
        cls = ("class", record.cls or "none")
        self._add("slurm_triage_jobs_total", 1, cluster, ("status", record.status), cls)
        self._add("slurm_triage_gpu_seconds_total", (record.gpu_hours or 0.0) * _HOUR_S, cluster)
        if record.gpu_hours_lost:
            self._add("slurm_triage_gpu_lost_seconds_total", record.gpu_hours_lost * _HOUR_S, cluster, cls)
        if record.rule:
            self._add("slurm_triage_rule_hits_total", 1, ("rule", record.rule))
        self._add("slurm_triage_scanned_bytes_total", scanned_bytes)
        self._add("slurm_triage_scan_seconds_total", scan_s)
        if record.generated_at is not None:
            self._set("slurm_triage_last_report_timestamp_seconds", record.generated_at)

    def gauge(self, *, spool_files: int, lag_s: float) -> None:
        """How the worker keeps up, at this moment."""
        self._set("slurm_triage_spool_files", spool_files)
        self._set("slurm_triage_worker_lag_seconds", lag_s)

    def _add(self, name: str, amount: float, *labels: tuple[str, str]) -> None:
        series = self.values.setdefault(name, {})
        series[labels] = series.get(labels, 0) + amount

    def _set(self, name: str, value: float) -> None:
        self.values[name] = {(): value}

    def render(self) -> str:
        """Text exposition format, metrics and labels in a fixed order."""
        lines = []
        for name, (kind, text) in METRICS.items():
            series = self.values.get(name, {})
            if series:
                lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
                lines += [f"{name}{_labels(labels)} {value!r}" for labels, value in sorted(series.items())]
        return "".join(line + "\n" for line in lines)

    def write(self, path: Path) -> None:
        """Replaces ``path`` (``.prom``) by rename: node_exporter never reads half a file. Raises TriageError."""
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            temporary.write_text(self.render(), encoding="utf-8")
            # The collector runs as another user.
            temporary.chmod(0o644)
            temporary.rename(path)
        except OSError as error:
            raise TriageError(f"cannot write {path} ({error.strerror}); check the directory of the metrics") from error


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels) + "}"


def _escape(value: str) -> str:
    clean = value.encode("utf-8", "replace").decode()
    return clean.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
