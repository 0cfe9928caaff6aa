"""The new command: the recorded one with arguments replaced and node options merged.

Facts it rests on (measured with sbatch 22.05): a repeated ``--exclude`` replaces the former one; ``-w`` and
``--exclude`` that intersect are refused, and so are fewer nodes in ``-w`` than ``-N`` asks for. The launcher refuses
job names of more than 243 bytes, and every argument becomes part of the name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from slurm_triage.model import nodelist
from slurm_triage.model.diagnosis import Resubmit
from slurm_triage.model.facts import AttemptFacts
from slurm_triage.model.job import NO_JOB, Job
from slurm_triage.model.report import Report
from slurm_triage.model.shell_word import shell_word
from slurm_triage.resubmit.options import COMPONENT, Option, components, take_apart, words_of
from slurm_triage.resubmit.recorded import Recorded, recorded_command, tag_of

MAX_JOB_NAME_BYTES = 243
_STAGES = "STAGE_TIMEOUTS"
_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Command:
    """``env`` and ``words`` as a process would get them; ``notes`` on what is uncertain."""

    env: tuple[tuple[str, str], ...]
    words: tuple[str, ...]
    notes: tuple[str, ...]

    def line(self) -> str:
        """One line for bash, every word quoted."""
        parts = [f"{key}={shell_word(value)}" for key, value in self.env]
        return " ".join([*parts, *map(shell_word, self.words)])


def with_command(report: Report) -> Resubmit:
    """The report's advice with its command line; unchanged when running again is pointless or nothing tells what was
    run."""
    resubmit = report.diagnosis.resubmit
    if report.job.is_queued_again and resubmit.action != "none":
        return _already_queued(resubmit, report.job)
    command = command_of(report)
    if command is None:
        return resubmit
    changes = tuple(dict.fromkeys((*resubmit.changes, *command.notes)))
    return replace(resubmit, command=command.line(), changes=changes)


def _already_queued(resubmit: Resubmit, job: Job) -> Resubmit:
    """Submitting it as well would run it twice."""
    avoid = f"scontrol update JobId={job.job_id} ExcNodeList={nodelist.fold(resubmit.exclude)}"
    changes = (f"before it starts: {avoid}",) if resubmit.exclude and job.job_id else ()
    why = "Slurm has put the job back into its queue and runs it again by itself"
    return replace(resubmit, action="none", why=why, command=None, changes=changes)


def command_of(report: Report) -> Command | None:
    """A hang asks for the very same nodes (the seed's retry-first policy), unless others were advised."""
    resubmit, primary = report.diagnosis.resubmit, report.diagnosis.primary
    pin = primary is not None and primary.cls == "hang" and resubmit.action == "same-nodes"
    command = rebuild(resubmit, report.job, report.facts.last, report.files.submit_cmd, report.nodes, pin=pin)
    restart = _where_it_starts(report) if command is not None else None
    return replace(command, notes=(*command.notes, restart)) if command is not None and restart else command


def _where_it_starts(report: Report) -> str | None:
    """MaxText goes on from the newest complete step directory. What lies on disk counts more than what the log says;
    the reason for a retry on the same nodes names the log's already."""
    progress, reason = report.progress, report.diagnosis.resubmit.why
    complete = [c.step for c in report.files.checkpoints if c.committed]
    if complete:
        return f"it continues from checkpoint {max(complete)}, the newest that is complete on disk"
    last = progress.last_checkpoint if progress.last_checkpoint is not None else progress.restored_from
    if last is None or progress.checkpointing is False or "continues from checkpoint" in reason:
        return None
    return f"it continues from checkpoint {last}, if that directory has its final name"


def rebuild(
    resubmit: Resubmit,
    job: Job,
    attempt: AttemptFacts,
    submit_cmd: str | None,
    nodes: Sequence[str],
    *,
    pin: bool = False,
) -> Command | None:
    if resubmit.action == "none":
        return None
    recorded = recorded_command(job, attempt, submit_cmd)
    if recorded is None:
        return None
    notes = list(recorded.doubts)
    arguments, env = _changed_arguments(recorded, resubmit.args)
    if recorded.kind == "k8s_submit.sh":
        if resubmit.exclude:
            notes.append(
                f"k8s has no --exclude: keep the job off {nodelist.fold(resubmit.exclude)} with K8S_NODE_SELECTOR"
            )
        options = list(recorded.options)
    else:
        options = _slurm_options(recorded, resubmit, job, nodes if pin else (), notes)
    words = [recorded.program, *([recorded.spec] if recorded.spec is not None else []), *options]
    if arguments:
        words += ["--", *arguments] if recorded.kind != "sbatch" else list(arguments)
    if recorded.kind != "sbatch":
        name = _job_name(recorded.spec or "", arguments)
        if len(name.encode()) > MAX_JOB_NAME_BYTES:
            notes.append(
                f"the job name would be {len(name.encode())} bytes long and the launcher refuses more than "
                f"{MAX_JOB_NAME_BYTES}: drop an argument or move it into the model's configuration"
            )
    return Command(tuple(env), tuple(words), tuple(notes))


def _changed_arguments(recorded: Recorded, changes: Mapping[str, str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Arguments with the given keys replaced in place (the last one counts in MaxText) or appended; stage limits go
    into the environment. Plain sbatch scripts get no MaxText arguments."""
    env = list(recorded.env)
    arguments = list(recorded.arguments)
    for key, value in changes.items():
        if key == _STAGES:
            env = _merged_stages(env, value)
        elif recorded.kind != "sbatch":
            places = [i for i, a in enumerate(arguments) if a.partition("=")[0].lstrip("-") == key]
            if places:
                arguments[places[-1]] = f"{key}={value}"
                arguments = [a for i, a in enumerate(arguments) if i not in places[:-1]]
            else:
                arguments.append(f"{key}={value}")
    return arguments, env


def _merged_stages(env: Iterable[tuple[str, str]], value: str) -> list[tuple[str, str]]:
    """One STAGE_TIMEOUTS with the new limits over the old ones."""
    rest = [(k, v) for k, v in env if k != _STAGES]
    limits: dict[str, str] = {}
    for text in (*(v for k, v in env if k == _STAGES), value):
        for item in text.split(","):
            stage, _, limit = item.partition(":")
            if limit:
                limits[stage] = limit
    return [*rest, (_STAGES, ",".join(f"{s}:{limit}" for s, limit in limits.items()))]


def _slurm_options(
    recorded: Recorded, resubmit: Resubmit, job: Job, pinned: Sequence[str], notes: list[str]
) -> list[str]:
    """The recorded options with the nodes that are wanted now, and of an array only the task that is asked for."""
    options, _ = take_apart(recorded.options)
    parts = components(options)
    if len(parts) > 1:
        notes.append("all components of the heterogeneous job are submitted again, with the same exclusions")
        # What accounting knows is about one of them.
        job, pinned = NO_JOB, ()
    words: list[str] = []
    for number, part in enumerate(parts):
        words += [COMPONENT] if number else []
        words += words_of(_with_nodes(part, resubmit, job, pinned, notes))
    if job.array_task_id is not None:
        options, _ = take_apart(words)
        notes.append(f"--array={job.array_task_id}: the other tasks of the array are not run again")
        words = [*words_of(o for o in options if o.name != "array"), f"--array={job.array_task_id}"]
    return words


def _with_nodes(
    options: Sequence[Option], resubmit: Resubmit, job: Job, pinned: Sequence[str], notes: list[str]
) -> list[Option]:
    """One ``--exclude`` with the old nodes and the new ones, and a ``-w`` that does not contradict it. What the script
    itself asks for is known from accounting; a word on the command line replaces it."""
    result = [o for o in options if o.name not in ("exclude", "nodelist")]
    old_exclude, old_nodes, counts = (_last(options, name) for name in ("exclude", "nodelist", "nodes"))
    in_script = old_nodes is None and job.requested_nodes is not None
    excluded = {*_nodes(old_exclude), *_nodes(job.excluded_nodes), *resubmit.exclude}
    wanted = list(_nodes(old_nodes) or _nodes(job.requested_nodes) or pinned)
    kept = [n for n in wanted if n not in excluded]
    digits = (counts or "").split("-")[0]
    # Without -N on the command line it is as many as the job got.
    count = int(digits) if _NUMBER.fullmatch(digits) else job.node_count or 0
    if len(kept) < len(wanted) and len(kept) < max(count, 1):
        gone = nodelist.fold(set(wanted) & excluded)
        few = f"fewer nodes than -N {count}" if kept else "none"
        notes.append(f"-w is left out: without {gone} it names {few}")
        kept = []
    elif resubmit.action == "other-nodes" and kept == wanted != []:
        notes.append(f"-w {nodelist.fold(wanted)} is left out: other nodes are asked for")
        kept = []
    if in_script and wanted and not kept:
        # An empty list on the command line takes the script's place (measured with sbatch 22.05).
        result.append(Option("nodelist", None, ("--nodelist=",)))
    if old_nodes is not None and "/" in old_nodes:
        notes.append(f"-w names a file: see that {old_nodes} names no excluded node")
        result += [o for o in options if o.name == "nodelist"][-1:]
    elif kept and not (in_script and kept == wanted):
        result.append(Option("nodelist", None, ("-w", nodelist.fold(kept))))
    if old_exclude is not None and "/" in old_exclude:
        if excluded:
            notes.append(f"{old_exclude} holds the excluded nodes: add {nodelist.fold(excluded)}")
        result += [o for o in options if o.name == "exclude"][-1:]
    elif excluded and not (old_exclude is None and excluded == set(_nodes(job.excluded_nodes))):
        result.append(Option("exclude", None, (f"--exclude={nodelist.fold(excluded)}",)))
    return result


def _last(options: Sequence[Option], name: str) -> str | None:
    """Of an option that is repeated the last one counts."""
    return next((o.value for o in reversed(options) if o.name == name), None)


def _nodes(text: str | None) -> tuple[str, ...]:
    """sbatch takes a list with a slash in it for a file."""
    return nodelist.expand(text) if text and "/" not in text else ()


def _job_name(spec: str, arguments: Sequence[str]) -> str:
    model, _, tag = spec.partition(":")
    tag = tag.rpartition(":")[2]
    parts = [p for p in (tag, *(tag_of(a) for a in arguments)) if p]
    return f"JAX-{model}" + (f"-{'-'.join(parts)}" if parts else "")
