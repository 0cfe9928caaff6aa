"""A document in words: the sentences and table rows that Markdown, terminal and HTML have in common.

Everything returned here may hold log text and is not escaped; each view escapes it for its own medium.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any

from slurm_triage.model.duration import human
from slurm_triage.model.exit_status import signal_name
from slurm_triage.model.nodelist import fold, fold_ranks
from slurm_triage.model.sentence import located
from slurm_triage.report.plain_text import cut, plain

UNKNOWN = "unknown"

Document = Mapping[str, Any]

_LIVE = frozenset({"running", "hanging"})
#: Seed: more than 10 % below the steady state is worth a word.
_NOTICED_CHANGE = 0.1
#: Slow steps that a verdict on the throughput takes.
_MIN_SLOW_STEPS = 25
#: Accounting counts whole seconds. A shorter time is that between two clocks in the log, not that of the job.
_SHORTEST_RUN_S = 1.0

_RETRY = {
    "same-nodes": "run again on the same nodes",
    "other-nodes": "run again on other nodes",
    "after-fix": "fix, then run again",
    "pointless": "running again does not help",
    "not-needed": "no need to run again",
}
_NO_RUN = frozenset({"pointless", "not-needed"})
#: The cause in the causal chain, which the story above has in full.
_MAX_LINK = 140


def number(value: float | None) -> str:
    """Three significant digits after the point at most, no powers of ten: ``3.01``, ``154316.6``, ``0.000412``."""
    if value is None:
        return UNKNOWN
    if isinstance(value, int) or float(value).is_integer():
        return str(int(value))
    if abs(value) < 0.1:
        return f"{value:.3g}"
    decimals = 1 if abs(value) >= 100 else 2 if abs(value) >= 1 else 3
    return f"{value:.{decimals}f}".rstrip("0").rstrip(".")


def text(value: Any) -> str:
    """A value as a table shows it."""
    if value is None or value == "":
        return UNKNOWN
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def plural(count: float, noun: str) -> str:
    return f"{number(count)} {noun}" if count == 1 else f"{number(count)} {noun}s"


def some_ranks(ranks: list[int], limit: int = 24) -> str:
    """``rank 3``, ``ranks 0-2,5``, or ``62 ranks (0-2,5,…)`` where the list is long."""
    if not ranks:
        return "all ranks"
    folded = fold_ranks(ranks)
    if len(ranks) == 1:
        return f"rank {folded}"
    return f"ranks {folded}" if len(folded) <= limit else f"{len(ranks)} ranks ({cut(folded, limit)})"


def some_nodes(nodes: list[str], limit: int = 60) -> str:
    """A folded node list, with the number of nodes where the list had to be cut."""
    folded = fold(nodes)
    return folded if len(folded) <= limit else f"{len(nodes)} nodes ({cut(folded, limit)})"


def job_label(document: Document) -> str:
    """``7877``, ``7877_3`` for an array task, else the name of the log."""
    job = document["job"]
    if job["array_job_id"] is not None and job["array_task_id"] is not None:
        return f"{job['array_job_id']}_{job['array_task_id']}"
    path = document["log"]["path"]
    return str(job["id"] or (posixpath.basename(path) if path else "job"))


def log_path(document: Document) -> str:
    """What the report is about: the log, the job directory, or the job id."""
    log = document["log"]
    return str(log["path"] or log["job_dir"] or f"job {job_label(document)}")


def is_healthy(document: Document) -> bool:
    return document["primary"] is None and document["status"] in {"completed", "running"}


def is_live(document: Document) -> bool:
    return document["status"] in _LIVE


def where(primary: Mapping[str, Any]) -> str:
    """``rank 3 on gpu07, step 12`` as far as known and not in the title already."""
    ranks = [primary["rank"]] if primary["rank"] is not None else primary["ranks"]
    rank = some_ranks(ranks) if ranks else ""
    node = f"on {primary['node']}" if primary["node"] else ""
    all_done = primary["class"] == "soft-success"
    step = "" if primary["step"] is None or all_done else f"step {primary['step']}"
    rank, step = (part if _is_news(part, primary["title"]) else "" for part in (rank, step))
    node = node if _is_news(node.removeprefix("on "), primary["title"]) else ""
    return ", ".join(part for part in (f"{rank} {node}".strip(), step) if part)


def _is_news(part: str, title: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(part)}(?!\w)", title, re.IGNORECASE) is None


def cause_clause(document: Document) -> str:
    """Why, in one clause."""
    primary, progress = document["primary"], document["progress"]
    if primary is not None:
        return located(str(primary["title"]), where(primary))
    last, total = progress["last_step"], progress["total_steps"]
    if last is not None and total is not None:
        return f"all {total} steps done" if last + 1 >= total else f"{last + 1} of {total} steps"
    if last is not None:
        return f"last step {last}"
    return "no failure found" if is_healthy(document) else "no cause found"


def chain_lines(document: Document) -> list[str]:
    """The causal chain. Empty if there is nothing but the cause, with which the story begins."""
    chain = [cut(line, _MAX_LINK) if number == 0 else line for number, line in enumerate(document["chain"])]
    return chain if len(chain) > 1 else []


def cost_clause(document: Document) -> str:
    """What the failure cost: GPU-hours and steps. Of a running job nothing is lost yet."""
    cost, progress = document["cost"], document["progress"]
    hours, lost, steps = cost["gpu_hours"], cost["gpu_hours_lost"], progress["lost_steps"]
    time = "" if progress["lost_s"] is None else f" ({human(progress['lost_s'])})"
    if document["status"] == "running":
        spent = "" if hours is None else f"{plural(hours, 'GPU-hour')} used"
        saved = f"{plural(steps, 'step')}{time} not saved yet" if steps else ""
        return ", ".join(part for part in (spent, saved) if part)
    if lost or steps:
        gone = [_share_of(lost, hours)] if lost and hours is not None else []
        gone += [plural(steps, "step") + time] if steps else []
        return "lost " + " and ".join(gone) if gone else ""
    return "" if hours is None else plural(hours, "GPU-hour") + (" used" if lost is None else ", none lost")


def _share_of(lost: float, hours: float) -> str:
    """``9.6 of 67.6 GPU-hours``, ``all 67.6 GPU-hours``."""
    everything = number(lost) == number(hours)
    return f"all {plural(hours, 'GPU-hour')}" if everything else f"{number(lost)} of {plural(hours, 'GPU-hour')}"


def action_clause(document: Document) -> str:
    """What to do, in one clause."""
    primary, resubmit = document["primary"], document["resubmit"]
    if document["status"] == "completed" and primary is None:
        return "nothing to do"
    if document["status"] == "running" and primary is None:
        return "let it run"
    action, steps = resubmit["action"], document["next_steps"]
    if action == "other-nodes" and resubmit["exclude"]:
        return f"run again without {some_nodes(resubmit['exclude'])}"
    if action in {"same-nodes", "other-nodes"}:
        return _RETRY[action]
    if action == "after-fix" and resubmit["args"] and resubmit["changes"]:
        return "fix first: " + _clause(resubmit["changes"][0])
    if action == "after-fix" and steps:
        return "fix first: " + _clause(steps[0])
    if steps:
        return _clause(steps[0])
    return retry_clause(document) if primary else _clause(default_step(document))


def _clause(sentence: str) -> str:
    return cut(plain(sentence), 120).removesuffix(".")


def resubmit_sentence(document: Document) -> str:
    """Whether to run the job again, why, and what changes. Empty for a healthy job."""
    resubmit = document["resubmit"]
    if is_healthy(document) or not (resubmit["why"] or resubmit["command"]):
        return ""
    if document["status"] == "unknown" and document["primary"] is None:
        # Nothing is known: neither that a new run would help nor that it is not needed.
        return ""
    action, exclude = resubmit["action"], resubmit["exclude"]
    heads = {
        "none": "No need to run it again",
        "same-nodes": "Run it again on the same nodes",
        "other-nodes": f"Run it again without {some_nodes(exclude)}" if exclude else "Run it again on other nodes",
        "after-fix": "Run it again after the fix",
    }
    why = f": {resubmit['why'].removesuffix('.')}." if resubmit["why"] else "."
    changes = f" Changed: {', '.join(resubmit['changes'])}." if resubmit["changes"] else ""
    return f"{heads.get(action, action)}{why}{changes}"


def retry_clause(document: Document) -> str:
    """What to do about running again, in the words of the report's last sentence: the class's own advice where the
    diagnosis did not decide otherwise."""
    action, retry = document["resubmit"]["action"], document["primary"]["retry"]
    if action == "none":
        # "Pointless" and "not needed" are both no new run; a completed job needs none.
        action = "not-needed" if document["status"] == "completed" or retry not in _NO_RUN else retry
    return _RETRY.get(action, str(action))


def chat_line(document: Document) -> str:
    """The whole report in one line that can be pasted into a chat."""
    job, primary = document["job"], document["primary"]
    name = f" {cut(plain(job['name']), 60)}" if job["name"] else ""
    attempt = f" (attempt {job['attempt']})" if job["attempt"] and job["attempt"] > 1 else ""
    cls = "" if primary is None else f", {primary['class']} ({primary['confidence']} confidence)"
    parts = [
        f"{job_label(document)}{name}{attempt}: {document['status']}{cls}",
        cut(plain(cause_clause(document)), 160),
        cost_clause(document),
        action_clause(document),
    ]
    return " · ".join(filter(None, parts))


def job_facts(document: Document) -> list[str]:
    """Who, where, how long, how it ended: the parts of one line."""
    job = document["job"]
    parts = [f"{key} {job[key]}" for key in ("user", "account", "partition", "cluster") if job[key]]
    if job["node_count"] is not None:
        parts.append(plural(job["node_count"], "node") + (f" {some_nodes(job['nodes'])}" if job["nodes"] else ""))
    if document["cost"]["gpus"] is not None:
        parts.append(plural(document["cost"]["gpus"], "GPU"))
    elapsed = job["elapsed_s"] if job["elapsed_s"] is not None else document["progress"]["wall_s"]
    if elapsed is not None and (elapsed >= _SHORTEST_RUN_S or job["elapsed_s"] is not None):
        limit = "" if job["time_limit_s"] is None else f" of {human(job['time_limit_s'])}"
        # Without accounting: by the launcher's summary, or from the first clock in the log to the last.
        source = "" if job["elapsed_s"] is not None else " by the log"
        parts.append(f"ran {human(elapsed)}{limit}{source}")
    if job["state"]:
        parts.append(f"Slurm {job['state']}" + (f" ({job['reason']})" if job["reason"] not in {None, "None"} else ""))
    if job["exit_code"] is not None:
        signal = "" if job["exit_signal"] is None else f", {signal_name(job['exit_signal'])}"
        parts.append(f"exit {job['exit_code']}{signal}")
    return parts


def throughput_lines(document: Document) -> list[str]:
    """The throughput verdict: one sentence of numbers, then hints. Empty when there are no numbers."""
    data = document["throughput"]
    if data["early"] is None and data["recent"] is None:
        return []
    unit = f" {data['unit']}" if data["unit"] else ""
    if data["early"] is None or data["recent"] is None:
        known = data["recent"] if data["early"] is None else data["early"]
        return [f"Steady state {number(known)}{unit}; too few steps for a trend.", *data["hints"]]
    change = "" if data["change"] is None else f" ({signed_percent(data['change'])})"
    line = f"Steady state {number(data['early'])} → recent {number(data['recent'])}{unit}"
    if not data["degraded"]:
        lasting = data["change"] is None or data["change"] >= -_NOTICED_CHANGE
        verdict = (
            "no degradation"
            if lasting
            else f"too few slow steps outside of saves for a verdict (it takes {_MIN_SLOW_STEPS})"
        )
        return [f"{line}{change}: {verdict}.", *data["hints"]]
    pattern = f", {data['pattern']}" if data["pattern"] else ""
    first, last = data["from_step"], data["to_step"]
    steps = "" if first is None else f", from step {first}" + ("" if last is None else f" to step {last}")
    # The change is that of the slowest phase, which a run may have left behind since.
    worst = "" if data["change"] is None else f", worst window {signed_percent(data['change'])}"
    return [f"{line}: degraded{pattern}{worst}{steps}.", *data["hints"]]


def signed_percent(change: float) -> str:
    return f"{100 * change:+.1f} %"


def suspect_lines(document: Document) -> list[str]:
    """One sentence per suspect node."""
    return [
        f"Suspect node `{suspect['node']}` ({suspect['confidence']} confidence"
        + (", exclude it" if suspect["exclude"] else ", do not exclude it yet")
        + (f"): {'; '.join(suspect['why'])}" if suspect["why"] else ")")
        for suspect in document["suspects"]
    ]


def attempt_lines(document: Document) -> list[str]:
    """One sentence per earlier attempt."""
    return [_attempt(attempt) for attempt in document["attempts"]]


def history_lines(document: Document) -> list[str]:
    """What other jobs say about this one, one sentence each."""
    return document["history"]["sentences"] if document["history"] else []


def all_notes(document: Document) -> list[str]:
    """Notes of the diagnosis, then of the reading, each once."""
    log = document["log"]
    problem = [log["problem"]] if log["problem"] else []
    told = (document["narrative"] or "").lower().removesuffix(".")
    texts = dict.fromkeys([*document["notes"], *problem, *log["notes"]])
    return [text for text in texts if text.lower().removesuffix(".") != told]


def _attempt(attempt: Mapping[str, Any]) -> str:
    first, last = attempt["first_step"], attempt["last_step"]
    steps = "" if last is None else f", steps {text(first)} to {last}"
    nodes = f" on {some_nodes(attempt['nodes'])}" if attempt["nodes"] else ""
    cause = "" if attempt["class"] is None else f", `{attempt['class']}`"
    title = f": {attempt['title']}" if attempt["title"] else ""
    return f"Attempt {attempt['index']}: {attempt['status']}{cause}{steps}{nodes}{title}"


def dashboards_sentence(document: Document) -> str:
    """What the dashboards of a Ray job are good for now."""
    data = document["dashboards"]
    head = f"Head node `{data['head_node']}`" if data["head_node"] else "Head node unknown"
    port = data["prometheus_port"]
    where_at = f"{head}, Prometheus " + (f"on port {port}." if port is not None else "port unknown.")
    if data["live"]:
        return (
            f"{where_at} The job is live: open the tunnel, then `http://localhost:8265` (Ray), `http://localhost:6006` "
            f"(TensorBoard) and `http://localhost:{9190 if port is None else port}` (Prometheus)."
        )
    kept = f" Metrics were kept: `utils/prometheus.sh view {data['tsdb_path']}`." if data["tsdb_path"] else ""
    return f"{where_at} The job has ended, and the live dashboards with it.{kept}"


def default_step(document: Document) -> str:
    """What to do when no class says anything."""
    if is_healthy(document):
        return "Let it run." if document["status"] == "running" else "Nothing to do."
    log = document["log"]
    if log["size_bytes"] == 0:
        return "Find where the job's output went (`#SBATCH --output`, redirections in the script); this log is empty."
    if log["binary"]:
        return "Name the job's text log; this file is mostly binary data."
    quoted = document["telling"] or document["evidence"] or any(f["first"] for f in document["findings"])
    source = "the evidence above and the last lines of the log" if quoted else "the last lines of the log"
    return f"Read {source}; no known failure explains this end."
