"""Which lines of the log a report quotes, and how the other findings are summed up."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slurm_triage.model.rank_label import RANK_LABEL
from slurm_triage.model.same_text import normalise
from slurm_triage.model.sentence import sentence
from slurm_triage.report.plain_text import shown
from slurm_triage.report.wording import plural, some_ranks

Document = Mapping[str, Any]
Finding = Mapping[str, Any]

#: A page at 3 am: the cause, what fed it and what followed fit into five quotes; the rest stands behind the report.
MAX_QUOTES = 5
#: When few kinds of lines were found, further lines of the same kind are quoted up to this many: an unknown end is
#: reported with its three most telling lines.
MIN_QUOTES = 3
MAX_BLOCK_LINES = 4
MAX_GROUPS = 12
MAX_MORE_QUOTES = 30
TELLING = "No rule knows these lines; of all that look like trouble they are the most telling:"
#: A finding in a list; its line is quoted in the evidence.
MAX_TITLE = 160
#: Of two lines that say the same one may be cut.
_COMPARED_CHARS = 200
#: A longer name than this pushes the quoted text off the line; the log of a job is then called "log".
_MAX_NAME = 24

_PRIORITY = {"root": 1, "contributor": 2, "consequence": 3, "teardown": 4, "context": 5}


@dataclass(frozen=True, slots=True)
class Quote:
    """A line of a log. ``block`` are the lines of the same rank that belong to it."""

    place: str
    rank: int | None
    text: str
    block: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """One kind of finding over all ranks that showed it."""

    cls: str
    role: str
    title: str
    who: str
    count: int
    place: str | None
    why: str | None


@dataclass(frozen=True, slots=True)
class Evidence:
    """``unseen``: why the cause is known although no line shows it; ``last_words`` are then all there is to quote.
    ``telling``: lines that no rule knows. ``legend``: what "log" stands for, if used."""

    quotes: tuple[Quote, ...]
    more: tuple[Quote, ...]
    unseen: tuple[str, ...]
    last_words: tuple[str, ...]
    telling: tuple[Quote, ...]
    legend: str | None


def select(document: Document) -> Evidence:
    """The quotes of a report: at most ``MAX_QUOTES`` first, others of their kind after the report."""
    names = _short_names(document)
    seen = [f for f in document["findings"] if f["first"] is not None]
    importance = [_importance(finding, document) for finding in seen]
    ranked = sorted(range(len(seen)), key=lambda i: (importance[i], i))
    chosen, others = _one_of_each_kind(ranked, seen)
    causes = _unseen_causes(document)
    unseen = _reasons(causes, document)
    telling = [i for i in chosen if seen[i]["role"] not in {"context", "teardown"}]
    quotable = telling if telling or causes or document["primary"] is None else chosen
    first, more = quotable[:MAX_QUOTES], quotable[MAX_QUOTES : MAX_QUOTES + MAX_MORE_QUOTES]
    first += others[: max(0, MIN_QUOTES - len(first))] if first else []
    # The cause comes first, whatever file it stands in; the rest follows as it happened.
    quotes = tuple(_quote(seen[i], names) for i in sorted(first, key=lambda i: (importance[i][0] > 0, i)))
    extra = tuple(_quote(seen[i], names) for i in sorted(more))
    strange = tuple(Quote(_place(t, names), t["rank"], shown(t["text"]), ()) for t in document["telling"])
    log = document["log"]["path"]
    used = any(quote.place.startswith(("log:", "log,")) for quote in (*quotes, *extra, *strange))
    legend = log if used and names.get(log) == "log" and posixpath.basename(log) != "log" else None
    return Evidence(quotes, extra, unseen, _last_words(document) if causes else (), strange, legend)


def groups(document: Document) -> tuple[list[Group], int]:
    """Findings other than the cause, one entry per kind, and how many kinds were left out."""
    names = _short_names(document)
    nodes = tuple(document["job"]["nodes"])
    kinds: dict[tuple[str, str, str, str], list[Finding]] = {}
    for finding in document["findings"]:
        if _is_cause(finding, document) or _repeats_cause(finding, document):
            continue
        key = (finding["class"], finding["role"], finding["rule"], normalise(finding["title"], nodes))
        kinds.setdefault(key, []).append(finding)
    ordered = sorted(kinds.values(), key=lambda members: _PRIORITY.get(members[0]["role"], 9))
    return [_group(members, names) for members in ordered[:MAX_GROUPS]], max(0, len(ordered) - MAX_GROUPS)


def _one_of_each_kind(ranked: list[int], seen: list[Finding]) -> tuple[list[int], list[int]]:
    """The most important line of each kind, and the others that say something else than all before: not the same of
    another rank, number or file. What only followed from the cause is quoted once per class."""
    kinds: set[tuple[str, str | None]] = set()
    texts: set[str] = set()
    chosen: list[int] = []
    others: list[int] = []
    for index in ranked:
        finding = seen[index]
        initiates = finding["role"] in {"root", "contributor"}
        kind, line = (finding["class"], finding["rule"] if initiates else None), finding["first"]["text"]
        said = _said(line)
        if said in texts:
            continue
        texts.add(said)
        texts.update(map(_said, finding["block"]))
        (others if kind in kinds else chosen).append(index)
        kinds.add(kind)
    return chosen, others


def _said(line: str) -> str:
    return normalise(line[:_COMPARED_CHARS])


def _importance(finding: Finding, document: Document) -> tuple[int, int]:
    """Order of importance: the cause as its own rank tells it, then by role. A message that stands in one line says
    more than the head of a long one (a traceback)."""
    if _is_cause(finding, document):
        primary = document["primary"]
        return 0, 0 if primary["rank"] is not None and finding["rank"] == primary["rank"] else 1
    return _PRIORITY.get(finding["role"], 9), len(finding["block"])


def _is_cause(finding: Finding, document: Document) -> bool:
    primary = document["primary"]
    return primary is not None and finding["class"] == primary["class"] and finding["role"] == "root"


def _repeats_cause(finding: Finding, document: Document) -> bool:
    """The last line of a traceback is a finding of its own, with the same words."""
    primary = document["primary"]
    return primary is not None and (
        finding["class"] == primary["class"] and normalise(finding["title"]) == normalise(primary["title"])
    )


def _unseen_causes(document: Document) -> list[Finding]:
    """The findings that are the cause, when no line of the log shows it."""
    causes = [finding for finding in document["findings"] if _is_cause(finding, document)]
    return [] if any(finding["first"] is not None for finding in causes) else causes


def _reasons(causes: list[Finding], document: Document) -> tuple[str, ...]:
    """Why the cause is known, where that says more than its title."""
    said = sentence(document["primary"]["title"]) if causes else ""
    reasons = dict.fromkeys(sentence(finding["why"] or finding["title"]) for finding in causes[:2])
    return tuple(reason for reason in reasons if reason != said)


def _last_words(document: Document) -> tuple[str, ...]:
    said = [view for view in document["ranks"] if view["last_words"] and document["status"] != "completed"]
    return tuple(f"[{some_ranks(v['ranks'])}] last words: {shown(v['last_words'])}" for v in said[:MIN_QUOTES])


def _quote(finding: Finding, names: Mapping[str, str]) -> Quote:
    block = tuple(shown(line) for line in _telling_part(finding["block"], finding["title"]))
    return Quote(_place(finding["first"], names), _rank(finding), shown(finding["first"]["text"]), block)


def _rank(finding: Finding) -> int | None:
    """The global rank that PyTorch puts before a line, else the task behind whose label it was printed: several
    workers share one."""
    named = RANK_LABEL.match(finding["first"]["text"]) if finding["first"] is not None else None
    return int(named[1]) if named is not None else finding["rank"]


def _telling_part(block: Sequence[str], title: str) -> Sequence[str]:
    """The beginning of a message; of a traceback, whose title is its exception, the end."""
    # Backticks mark code in a report, so titles have lost them.
    start = title[:MAX_TITLE].replace("`", "")
    end = next((n for n, line in enumerate(block, 1) if start and line.strip().replace("`", "").startswith(start)), 0)
    # Behind the exception others speak: srun, the launcher.
    return block[max(0, end - MAX_BLOCK_LINES) : end if end > 1 else MAX_BLOCK_LINES]


def _group(members: list[Finding], names: Mapping[str, str]) -> Group:
    first = members[0]
    ranks = sorted({rank for rank in map(_rank, members) if rank is not None})
    nodes = sorted({f["node"] for f in members if f["node"]})
    count = sum(f["count"] for f in members)
    who = some_ranks(ranks) if ranks else ""
    if len(nodes) == 1 and len(ranks) <= 1:
        who = f"{who} on {nodes[0]}".strip()
    if first["first"] is not None:
        titles = {f["title"] for f in members}
        alike = f"{len(titles)} that differ in numbers or names" if len(titles) > 1 else ""
        who = ", ".join(part for part in (who, plural(count, "line"), alike) if part)
    place = None if first["first"] is None else _place(first["first"], names)
    return Group(first["class"], first["role"], shown(first["title"], MAX_TITLE), who, count, place, first["why"])


def _place(place: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """``log:1234``; ``log, byte 98765`` where lines were not counted."""
    name = names.get(place["file"], "log") if place["file"] else "log"
    return f"{name}:{place['line']}" if place["line"] is not None else f"{name}, byte {place['offset']}"


def _short_names(document: Document) -> dict[str, str]:
    """Path to the name that quotes use: relative to the job directory, or "log" for a log with a long name."""
    log = document["log"]
    main = log["path"]
    base = log["job_dir"] or (posixpath.dirname(main) if main else None)
    paths: Iterable[str] = [f["path"] for f in log["files"]]
    return {path: _short_name(path, base, path == main) for path in (*paths, *([main] if main else []))}


def _short_name(path: str, base: str | None, is_main: bool) -> str:
    name = posixpath.basename(path) if is_main else path
    if not is_main and base and path.startswith(base.rstrip("/") + "/"):
        name = path[len(base.rstrip("/")) + 1 :]
    name = shown(name, 4096)
    if len(name) <= _MAX_NAME:
        return name
    # The middle of a long name says least: worker files differ in host (front) and number (end).
    return "log" if is_main else f"{name[:18]}…{name[-20:]}"
