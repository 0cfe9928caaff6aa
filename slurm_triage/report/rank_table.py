"""The per-rank view as a table: ranks with the same story share a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from slurm_triage.model.same_text import normalise
from slurm_triage.model.sentence import sentence
from slurm_triage.report.plain_text import shown
from slurm_triage.report.wording import UNKNOWN, plural, some_nodes, some_ranks, text

MAX_ROWS = 12
#: Log text in a table is a reminder; the evidence quotes it in full.
MAX_CELL = 90
#: The same in a sentence: groups told of, ranks listed one by one, text of an error.
MAX_TOLD, MAX_LISTED, MAX_SAID = 4, 8, 70
#: A rank that much behind the last one heard of fell silent.
SILENT_S = 60.0


@dataclass(frozen=True, slots=True)
class RankTable:
    """``summary``: the same in one sentence. ``rest`` says what was left out, if anything."""

    summary: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    rest: str | None


def rank_table(document: Mapping[str, Any]) -> RankTable | None:
    """None when all ranks tell the same story (or none is known). Columns that nobody fills are left out."""
    views, primary = document["ranks"], document.get("primary")
    went_well = primary is None and document.get("status") == "completed"
    if len(views) < 2 or (went_well and not any(map(_in_trouble, views))):
        return None
    cause = "" if primary is None else f"{primary['class']}: {primary['title']}"
    kept = _most_telling(views)
    columns = {
        ("Ranks", "ranks"): [_ranks(v) for v in kept],
        ("Nodes", "nodes"): [some_nodes(v["nodes"], 40) if v["nodes"] else UNKNOWN for v in kept],
        ("Last step", "last_step"): [text(v["last_step"]) for v in kept],
        ("Last heard", "last_time"): [text(_clock(v["last_time"])) for v in kept],
        ("Exit", "exit"): [shown(text(v["exit"]), MAX_CELL) for v in kept],
        ("First error", "first_error"): [shown(v["first_error"] or "none", MAX_CELL) for v in kept],
        ("Last words", "last_words"): [shown(v["last_words"] or UNKNOWN, MAX_CELL) for v in kept],
    }
    used = {name: cells for (name, key), cells in columns.items() if any(v[key] not in (None, "", []) for v in kept)}
    rest = len(views) - len(kept)
    left_out = f"{plural(rest, 'more group')} of ranks in triage.json." if rest else None
    return RankTable(_summary(views, cause), tuple(used), tuple(zip(*used.values(), strict=True)), left_out)


def _in_trouble(view: Mapping[str, Any]) -> bool:
    return bool(view["first_error"]) or view["exit"] not in {None, "", "exit 0"}


def _summary(views: list[Mapping[str, Any]], cause: str) -> str:
    """``62 ranks say X; chi[2813,2827]: Y; chi2841 said nothing after 12:03:44Z``, the largest group first."""
    latest = max((view["last_time"] for view in views if view["last_time"]), default=None)
    largest = sorted(_by_story(views, latest, cause), key=lambda view: -len(view["ranks"]))
    parts = [f"{_who(view)} {_story(view, latest, cause)}" for view in largest[:MAX_TOLD]]
    rest = len(largest) - MAX_TOLD
    return sentence("; ".join(parts) + (f"; {plural(rest, 'more group')} of ranks" if rest > 0 else ""))


def _by_story(views: list[Mapping[str, Any]], latest: str | None, cause: str) -> list[Mapping[str, Any]]:
    """Rows that differ in something the sentence does not tell (the last step of ranks with the same error) as one."""
    stories: dict[str, dict[str, Any]] = {}
    for view in views:
        error = view["first_error"]
        story = f"says {normalise(error)}" if error else _story(view, latest, cause).partition(" ")[2]
        one = stories.setdefault(story, {**view, "ranks": [], "nodes": []})
        one["ranks"] = sorted([*one["ranks"], *view["ranks"]])
        one["nodes"] = [*one["nodes"], *(node for node in view["nodes"] if node not in one["nodes"])]
    return list(stories.values())


def _who(view: Mapping[str, Any]) -> str:
    ranks, nodes = view["ranks"], view["nodes"]
    who = f"{len(ranks)} ranks" if len(ranks) > MAX_LISTED else some_ranks(ranks)
    return who if not nodes or len(ranks) > MAX_LISTED else f"{who} ({some_nodes(nodes, 40)})"


def _story(view: Mapping[str, Any], latest: str | None, cause: str) -> str:
    """``cause``: what needs only its class here, the report begins with it."""
    verb = "say" if len(view["ranks"]) > 1 else "says"
    if view["first_error"] and normalise(view["first_error"]) == normalise(cause):
        return f"{verb} {cause.partition(':')[0]}"
    if view["first_error"]:
        return f"{verb} {shown(view['first_error'], MAX_SAID)}"
    bad_exit = view["exit"] and not view["exit"].endswith("(stopped)") and view["exit"] != "exit 0"
    if bad_exit:
        return f"ended with {view['exit']}"
    said, step = view["last_time"], view["last_step"]
    if said and latest and _seconds(latest) - _seconds(said) > SILENT_S:
        return f"said nothing after {_clock(said)}"
    return "reported nothing wrong" + ("" if step is None else f", last step {step}")


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def _most_telling(views: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Too many rows: the largest group shows what is usual, the smallest ones are the odd ones out."""
    if len(views) <= MAX_ROWS:
        return views
    by_size = sorted(range(len(views)), key=lambda i: (len(views[i]["ranks"]), i))
    kept = {by_size[-1], *by_size[: MAX_ROWS - 1]}
    return [view for index, view in enumerate(views) if index in kept]


def _ranks(view: Mapping[str, Any]) -> str:
    ranks = view["ranks"]
    folded = some_ranks(ranks).removeprefix("ranks ").removeprefix("rank ")
    return folded if len(ranks) < 2 or "(" in folded else f"{folded} ({len(ranks)})"


def _clock(time: str | None) -> str | None:
    """``12:03:44Z`` of an ISO time."""
    return None if time is None else time[11:19] + ("Z" if time.endswith("+00:00") else time[19:])
