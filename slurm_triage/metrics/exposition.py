"""The text format that node_exporter's textfile collector reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_triage.errors import TriageError
from slurm_triage.ledger.files import Files, put
from slurm_triage.metrics.catalog import CATALOG, PREFIX

#: The collector reads every ``*.prom`` of its directory.
FILE_NAME = "slurm-triage.prom"
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric. ``name`` is a key of CATALOG."""

    name: str
    value: float
    labels: Mapping[str, str]


def exposition(samples: Iterable[Sample]) -> bytes:
    """The text: metrics in the catalog's order, each with HELP and TYPE once, samples in the order given."""
    by_name: dict[str, list[Sample]] = {name: [] for name in CATALOG}
    for sample in samples:
        by_name[sample.name].append(sample)
    lines: list[str] = []
    for name, found in by_name.items():
        if found:
            lines += [f"# HELP {PREFIX}{name} {CATALOG[name]}", f"# TYPE {PREFIX}{name} {_kind(name)}"]
            lines += [f"{PREFIX}{name}{_labels(sample.labels)} {_number(sample.value)}" for sample in found]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _kind(name: str) -> str:
    return "counter" if name.endswith("_total") else "gauge"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items()) + "}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(round(value, 3))


def write(directory: Path, text: bytes) -> Path:
    """Replace the file in the collector's directory in one step, readable by all. Raises TriageError."""
    path = directory / FILE_NAME
    try:
        # The temporary name ends in .tmp, which the collector does not read.
        put(Files(), path, text, 0o644)
    except OSError as error:
        raise TriageError(
            f"cannot write {path} ({error.strerror}); --write takes the directory of node_exporter's textfile collector"
        ) from error
    return path
