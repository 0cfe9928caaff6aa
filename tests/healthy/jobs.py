"""The ordinary jobs in ``jobs/``: what they need, their variants, and the logs that were recorded of them.

A job is a bash script. Its comments before the first command say what is tricky about its output, and:

    # needs: gcc torch ...      commands, or modules of the interpreter in use
    # variants: 2 4             runs once per word, with the word as $1
    # blind: REASON             the text alone cannot tell that the job was fine; its exit status does
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE / "jobs"
PROGRAMS = SCRIPTS / "programs"
LOGS = HERE / "logs"
MANIFEST = LOGS / "manifest.json"
SLURM_SCRIPTS = HERE / "slurm_jobs"
SLURM_LOGS = HERE / "slurm_logs"


@dataclass(frozen=True)
class OrdinaryJob:
    """One run of one script. ``blind`` is the reason why only its exit status shows that it was fine, or None."""

    name: str
    script: Path
    argument: str | None
    needs: tuple[str, ...]
    blind: str | None

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log.gz"

    def text(self) -> bytes:
        return gzip.decompress(self.log.read_bytes())


def ordinary_jobs() -> Iterator[OrdinaryJob]:
    """All jobs, one per variant, in order of name."""
    for script in sorted(SCRIPTS.glob("*.sh")):
        fields: dict[str, str] = {}
        for line in script.read_text().splitlines():
            if not line.startswith("#"):
                break
            key, colon, value = line.lstrip("# ").partition(": ")
            if colon and key in {"needs", "variants", "blind"}:
                fields[key] = value.strip()
        needs = tuple(fields.get("needs", "").split())
        for argument in fields.get("variants", "").split() or [None]:
            name = script.stem if argument is None else f"{script.stem}-{argument}"
            yield OrdinaryJob(name, script, argument, needs, fields.get("blind"))


def recorded() -> dict[str, dict[str, float]]:
    """Name of a recorded log -> how it was made: ``elapsed_s``."""
    found: dict[str, dict[str, float]] = json.loads(MANIFEST.read_text())
    return found
