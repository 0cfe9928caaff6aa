"""The seed's training progress projection: its rows, in its order and words, as far as known, then what else is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_triage.model.duration import human
from slurm_triage.report.wording import UNKNOWN, is_live, number, plural, text

Row = tuple[str, str]
_NOT_APPLICABLE = "not applicable (the job has ended)"
NO_STEPS = "The log shows no training step."
Progress = Mapping[str, Any]


def progress_rows(document: Mapping[str, Any]) -> list[Row]:
    """(metric, value) rows. What is unknown is left out; empty when nothing about steps is known."""
    p = document["progress"]
    completed = document["status"] == "completed"
    rows = [
        ("Start", _start(p)),
        ("Steps completed (this run)", _steps(p)),
        ("Overall progress", _overall(p)),
        ("Steady-state step time", UNKNOWN if p["step_time_s"] is None else f"{number(p['step_time_s'])}s"),
        ("Expected step by now", _expected(p, document["status"])),
        ("Last periodic ckpt this run", _checkpoint(p)),
        ("Progress lost", _lost(p, document["status"])),
        ("Estimated time remaining", _remaining(p, completed, is_live(document))),
    ]
    known = [row for row in rows if row[1] != UNKNOWN]
    if all(row[1] == _NOT_APPLICABLE for row in known):
        known = []
    return known + _more(p, document["cost"])


def progress_parts(document: Mapping[str, Any]) -> list[str]:
    """The projection as the parts of one line; empty when no step was logged."""
    p, status = document["progress"], document["status"]
    if p["last_step"] is None:
        return []
    percent = "" if p["percent"] is None else f" ({p['percent']:.1f} %)"
    total = p["total_steps"]
    parts = [f"last step {p['last_step']}" if total is None else f"{p['last_step'] + 1} of {total} steps{percent}"]
    if p["step_time_s"] is not None:
        parts.append(f"{number(p['step_time_s'])} s per step")
    if p["start"] == "restored":
        parts.append(_start(p))
    if status != "completed":
        known = [("last ckpt", _checkpoint(p)), ("lost", _lost(p, status))]
        parts += [f"{name}: {value}" for name, value in known if value != UNKNOWN]
    if is_live(document) and p["expected_step"] is not None:
        parts.append(f"expected by now: step {p['expected_step']}")
    if is_live(document) and p["remaining_s"] is not None:
        parts.append(f"remaining: {human(p['remaining_s'])}")
    return parts


def _start(p: Progress) -> str:
    if p["start"] != "restored":
        return str(p["start"])
    return f"restored from ckpt {text(p['restored_from'])}"


def _steps(p: Progress) -> str:
    if p["steps_this_run"] is None:
        return UNKNOWN
    if not p["steps_this_run"] or p["first_step"] is None or p["last_step"] is None:
        return plural(p["steps_this_run"], "step")
    return f"{plural(p['steps_this_run'], 'step')} (step {p['first_step']} through {p['last_step']})"


def _overall(p: Progress) -> str:
    if p["last_step"] is None or p["total_steps"] is None:
        return UNKNOWN
    percent = "" if p["percent"] is None else f" ({p['percent']:.1f}%)"
    return f"{p['last_step'] + 1} / {p['total_steps']}{percent}"


def _expected(p: Progress, status: str) -> str:
    if p["expected_step"] is not None:
        return f"{p['expected_step']} (based on step time and run start)"
    return _NOT_APPLICABLE if status in {"completed", "failed", "cancelled"} else UNKNOWN


def _checkpoint(p: Progress) -> str:
    if p["last_checkpoint"] is not None:
        doubt = " (not confirmed by a log line or directory)" if p["last_checkpoint_confirmed"] is False else ""
        return f"step {p['last_checkpoint']}{doubt}"
    if p["checkpointing"] is False:
        return "none — checkpointing is off"
    period, last = p["checkpoint_period"], p["last_step"]
    if period is None or last is None:
        return UNKNOWN
    return f"none — didn't reach checkpoint_period ({period})" if last < period else "none confirmed"


def _lost(p: Progress, status: str) -> str:
    steps = p["lost_steps"]
    if steps is None:
        return "none" if status == "completed" else UNKNOWN
    if steps == 0:
        return "none"
    amount = plural(steps, "step") + ("" if p["lost_s"] is None else f" ({human(p['lost_s'])})")
    if status == "running":
        return f"none so far; {amount} not saved yet"
    if p["last_checkpoint"] is not None:
        return f"{amount} since last periodic ckpt"
    if p["start"] == "restored" and p["restored_from"] is not None:
        return f"all of this run, {amount} since ckpt {p['restored_from']} — no periodic ckpt"
    return f"all, {amount} — no periodic ckpt"


def _remaining(p: Progress, completed: bool, live: bool) -> str:
    if completed and not p["remaining_s"]:
        return "none"
    if p["remaining_s"] is None:
        return UNKNOWN
    return human(p["remaining_s"]) + (" (from last step)" if live else " (from last step, if job were healthy)")


def _more(p: Progress, cost: Mapping[str, Any]) -> list[Row]:
    """Rows that the seed's table does not have; left out when nothing is known."""
    rows: list[Row] = []
    if p["last_step_min"] is not None and p["last_step_min"] != p["last_step"]:
        rows.append(("Last step of the slowest rank", str(p["last_step_min"])))
    if p["sum_step_s"] is not None and p["wall_s"] is not None:
        gap = "" if p["unaccounted_s"] is None else f"; {human(p['unaccounted_s'])} unaccounted for"
        rows.append(("Time in steps", f"{human(p['sum_step_s'])} of {human(p['wall_s'])} wall time{gap}"))
    if p["setup_s"] is not None:
        rows.append(("Before the first step", human(p["setup_s"])))
    if p["silence_s"] is not None:
        rows.append(("Since the last step", human(p["silence_s"])))
    if p["checkpoint_cost_s"] is not None:
        rows.append(("Cost of one checkpoint", human(p["checkpoint_cost_s"])))
    if cost["gpu_hours"] is not None:
        lost = "" if cost["gpu_hours_lost"] is None else f", {number(cost['gpu_hours_lost'])} lost"
        rows.append(("GPU-hours", f"{number(cost['gpu_hours'])} spent{lost}"))
    return rows
