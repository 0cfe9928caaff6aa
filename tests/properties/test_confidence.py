"""What a verdict says of its own certainty is true, also for logs that are not over yet or lost their end."""

from __future__ import annotations

import json
import random
from pathlib import Path

from slurm_triage.pipeline import Engine, triage_path
from tests.corpus.score import KINDS, cases

CUTS = 3
#: Share of verdicts called "high" that are right. A log that stops in the middle cannot know what would have explained
#: it; measured: 0.982 of 1033 (0.905 of 1725 called "medium", 0.360 of 1480 called "low").
HIGH, MEDIUM = 0.97, 0.8


def accepted(case: Path) -> list[str | None]:
    truth = json.loads((case / "expect.json").read_text())
    listed = [truth.get("primary"), truth.get("primary_any")]
    flat = [c for one in listed for c in (one if isinstance(one, list) else [one])]
    return [*flat, "tgs-degradation", "nan-loss"] if truth.get("primary_or_none") else flat


def test_verdicts_on_cut_logs_are_as_sure_as_they_are_right(engine: Engine, tmp_path: Path) -> None:
    right: dict[str, list[bool]] = {"high": [], "medium": [], "low": []}
    for case in cases(KINDS):
        log = case / "log.txt"
        if not log.is_file():
            continue
        text, classes, rng = log.read_bytes(), accepted(case), random.Random(case.name)
        for _ in range(CUTS):
            copy = tmp_path / "cut.log"
            copy.write_bytes(text[: rng.randrange(len(text) // 3, len(text))])
            primary = triage_path(str(copy), engine=engine).diagnosis.primary
            if primary is not None:
                right[primary.confidence].append(primary.cls in classes)
    shares = {level: sum(found) / len(found) for level, found in right.items()}
    assert len(right["high"]) > 400
    assert shares["high"] >= HIGH
    assert shares["high"] > shares["medium"] >= MEDIUM
    assert shares["medium"] > shares["low"]
