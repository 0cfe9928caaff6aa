"""Scores the engine on the labelled logs beside this file.

    python tests/corpus/score.py [KIND ...] [--verbose] [--json]

Prints, per case that is wrong, what was expected and what came out; then status accuracy, precision and recall per
class, macro-F1, progress errors, false alarms on healthy logs, and for every level of confidence how often a verdict
was right.
Exits with 1 when a figure is below the recorded level (level.json).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from slurm_triage.model.report import Report  # noqa: E402
from slurm_triage.pipeline import Engine, triage_path  # noqa: E402
from slurm_triage.report.build_document import report_document  # noqa: E402
from slurm_triage.slurm.record_file import load_record  # noqa: E402

KINDS = ("launcher", "runs", "public", "threads", "made")
LEVEL = HERE / "level.json"


@dataclass
class Outcome:
    """What one case expected and got; ``problems`` is empty when everything is right."""

    case: str
    expected: list[str | None]
    got: str | None
    confidence: str | None
    healthy: bool
    problems: list[str] = field(default_factory=list)
    status_ok: bool | None = None
    primary_ok: bool = True
    progress_checks: int = 0
    progress_errors: int = 0


def cases(kinds: Iterable[str] = KINDS) -> list[Path]:
    return [p.parent for kind in kinds for p in sorted((HERE / kind).glob("*/expect.json"))]


def report_for(case: Path, engine: Engine) -> Report:
    record = case / "accounting.json"
    target = case / "job" if (case / "job").is_dir() else case / "log.txt"
    if record.exists():
        return triage_path(str(target), engine=engine, job=load_record(record))
    return triage_path(str(target), engine=engine)


def judge(case: Path, report: Report) -> Outcome:
    """Compare a report with the case's truth."""
    truth = json.loads((case / "expect.json").read_text())
    document = report_document(report)
    primary = document["primary"]
    got = primary["class"] if primary else None
    accepted = _listed(truth.get("primary"))
    healthy = accepted == [None]
    accepted += _listed(truth.get("primary_any")) if "primary_any" in truth else []
    if truth.get("primary_or_none"):
        accepted.append(None)
    outcome = Outcome(
        f"{case.parent.name}/{case.name}", accepted, got, primary["confidence"] if primary else None, healthy
    )
    if "primary" in truth and got not in accepted:
        outcome.primary_ok = False
        outcome.problems.append(f"primary {got}, expected {' | '.join(map(str, accepted))}")
    if got in _listed(truth.get("must_not_primary", [])):
        outcome.primary_ok = False
        outcome.problems.append(f"primary must not be {got}")
    status = document["status"]
    if "status" in truth and not truth.get("status_hint"):
        outcome.status_ok = status in _listed(truth["status"])
        if not outcome.status_ok:
            outcome.problems.append(f"status {status}, expected {truth['status']}")
    if status in _listed(truth.get("must_not_status", [])):
        outcome.status_ok = False
        outcome.problems.append(f"status must not be {status}")
    _judge_findings(truth, document, got, outcome)
    _judge_numbers(truth, document, outcome)
    return outcome


def _judge_findings(truth: dict[str, Any], document: dict[str, Any], got: str | None, outcome: Outcome) -> None:
    found = {f["class"] for f in document["findings"]} | ({got} if got else set())
    for cls in _listed(truth.get("must_find", [])):
        if cls not in found:
            outcome.problems.append(f"{cls} not among the findings")
    for cls in _listed(truth.get("must_not_find", [])):
        if cls in found:
            outcome.problems.append(f"{cls} must not be among the findings")
    if "rank" in truth and document["primary"] and truth["rank"] is not None:
        ranks = {document["primary"]["rank"], *document["primary"]["ranks"]}
        if truth["rank"] not in ranks:
            outcome.problems.append(f"rank {document['primary']['rank']}, expected {truth['rank']}")


def _judge_numbers(truth: dict[str, Any], document: dict[str, Any], outcome: Outcome) -> None:
    for key, value in truth.get("progress", {}).items():
        outcome.progress_checks += 1
        got = document["progress"].get(key)
        same = math.isclose(got, value, rel_tol=1e-3) if isinstance(got, float) and value is not None else got == value
        if not same:
            outcome.progress_errors += 1
            outcome.problems.append(f"progress.{key} {got}, expected {value}")
    if "throughput_degraded" in truth:
        degraded = document["throughput"]["degraded"]
        if degraded != truth["throughput_degraded"]:
            outcome.problems.append(f"throughput degraded {degraded}, expected {truth['throughput_degraded']}")
        elif degraded and truth.get("throughput_from_step") is not None:
            start = document["throughput"]["from_step"]
            if start is None or abs(start - truth["throughput_from_step"]) > 5:
                outcome.problems.append(f"throughput from step {start}, expected {truth['throughput_from_step']}")


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def figures(outcomes: list[Outcome]) -> dict[str, Any]:
    """Scores over all outcomes. A case with several acceptable classes counts for the one that was given."""
    true_positive: dict[str, int] = defaultdict(int)
    false_positive: dict[str, int] = defaultdict(int)
    false_negative: dict[str, int] = defaultdict(int)
    for outcome in outcomes:
        got = str(outcome.got)
        if outcome.primary_ok:
            true_positive[got] += 1
        else:
            false_positive[got] += 1
            false_negative[str(outcome.expected[0])] += 1
    f1 = {}
    for cls in set(true_positive) | set(false_negative):
        tp, fp, fn = true_positive[cls], false_positive[cls], false_negative[cls]
        f1[cls] = 2 * tp / (2 * tp + fp + fn)
    status = [o.status_ok for o in outcomes if o.status_ok is not None]
    high = [o.primary_ok for o in outcomes if o.confidence == "high"]
    healthy = [o for o in outcomes if o.healthy]
    return {
        "cases": len(outcomes),
        "all_right": sum(not o.problems for o in outcomes),
        "primary_accuracy": sum(o.primary_ok for o in outcomes) / max(1, len(outcomes)),
        "status_accuracy": sum(status) / max(1, len(status)),
        "macro_f1": sum(f1.values()) / max(1, len(f1)),
        "progress_errors": sum(o.progress_errors for o in outcomes),
        "healthy_cases": len(healthy),
        "false_alarms": sum(not o.primary_ok for o in healthy),
        "high_confidence_right": sum(high) / max(1, len(high)),
        "confidence": {level: _right_of(level, outcomes) for level in ("high", "medium", "low")},
        "per_class": {
            cls: {
                "precision": round(true_positive[cls] / max(1, true_positive[cls] + false_positive[cls]), 3),
                "recall": round(true_positive[cls] / max(1, true_positive[cls] + false_negative[cls]), 3),
                "f1": round(f1[cls], 3),
            }
            for cls in sorted(f1)
        },
    }


def _right_of(level: str, outcomes: list[Outcome]) -> dict[str, float]:
    """Of the verdicts given with this confidence: how many, and the share that is right."""
    right = [o.primary_ok for o in outcomes if o.confidence == level]
    return {"cases": len(right), "right": round(sum(right) / max(1, len(right)), 4)}


def below_level(scores: dict[str, Any], level: dict[str, float]) -> list[str]:
    """Figures that are worse than the recorded ones. Counts of errors may not grow, shares may not fall."""
    worse = []
    for name, bound in level.items():
        value = scores[name]
        if (value > bound) if name in {"progress_errors", "false_alarms"} else (value < bound - 1e-9):
            worse.append(f"{name} is {value:.4g}, recorded level {bound:.4g}")
    return worse


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--verbose", action="store_true", help="show every case")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    engine = Engine.load()
    outcomes = [judge(case, report_for(case, engine)) for case in cases(args.kinds)]
    scores = figures(outcomes)
    if args.json:
        print(json.dumps(scores, indent=1))
        return 0
    for outcome in outcomes:
        if outcome.problems or args.verbose:
            print(f"{outcome.case}: {'; '.join(outcome.problems) or 'right'} [{outcome.got}, {outcome.confidence}]")
    per_class, confidence = scores.pop("per_class"), scores.pop("confidence")
    print(f"\n{'class':24} {'precision':>9} {'recall':>7} {'f1':>6}")
    for cls, row in per_class.items():
        print(f"{cls:24} {row['precision']:9.3f} {row['recall']:7.3f} {row['f1']:6.3f}")
    print()
    for name, value in scores.items():
        print(f"{name:24} {value:.4f}" if isinstance(value, float) else f"{name:24} {value}")
    for level, row in confidence.items():
        print(f"{level + ' confidence':24} {row['right']:.4f} right of {row['cases']}")
    levels = json.loads(LEVEL.read_text()) if LEVEL.exists() else {}
    name = "+".join(args.kinds)
    worse = below_level(scores, levels.get(name, {}))
    for line in worse:
        print(f"BELOW LEVEL: {line}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
