"""The new command: the recorded one with arguments replaced and node options merged.

Facts it rests on (measured with sbatch 22.05): a repeated ``--exclude`` replaces the former one; ``-w`` and
``--exclude`` that intersect are refused, and so are fewer nodes in ``-w`` than ``-N`` asks for. The launcher refuses
job names of more than 243 bytes, and every argument becomes part of the name.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from slurm_triage.model import nodelist
from slurm_triage.model.diagnosis import Resubmit
from slurm_triage.model.facts import AttemptFacts
from slurm_triage.model.job import Job
from slurm_triage.model.report import Report
from slurm_triage.resubmit.recorded import Recorded, recorded_command, tag_of

MAX_JOB_NAME_BYTES = 243
_STAGES = "STAGE_TIMEOUTS"
_EXCLUDE = ("-x", "--exclude")
_NODELIST = ("-w", "--nodelist")
_COUNT = ("-N", "--nodes")


@dataclass(frozen=True, slots=True)
class Command:
    """``env`` and ``words`` as a process would get them; ``notes`` on what is uncertain."""

    env: tuple[tuple[str, str], ...]
    words: tuple[str, ...]
    notes: tuple[str, ...]

    def line(self) -> str:
        """One line for a shell, every word quoted."""
        parts = [f"{key}={shlex.quote(value)}" for key, value in self.env]
        return " ".join([*parts, *(shlex.quote(w) for w in self.words)])


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
    return rebuild(resubmit, report.job, report.facts.last, report.files.submit_cmd, report.nodes, pin=pin)


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
        options = recorded.options
    else:
        pinned = nodes if pin else ()
        options = _node_options(
            recorded.options, resubmit.exclude, pinned, notes, elsewhere=resubmit.action == "other-nodes"
        )
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


def _node_options(
    options: Sequence[str], exclude: Sequence[str], pinned: Sequence[str], notes: list[str], *, elsewhere: bool
) -> tuple[str, ...]:
    """One ``--exclude`` with the old nodes and the new ones, and a ``-w`` that does not contradict it."""
    rest, old_exclude = _taken_out(options, _EXCLUDE)
    rest, old_nodes = _taken_out(rest, _NODELIST)
    _, counts = _taken_out(rest, _COUNT)
    excluded = {n for text in old_exclude[-1:] for n in nodelist.expand(text)} | set(exclude)
    wanted = [n for text in old_nodes[-1:] for n in nodelist.expand(text)] or list(pinned)
    kept = [n for n in wanted if n not in excluded]
    count = int(counts[-1].split("-")[0]) if counts and counts[-1].split("-")[0].isdigit() else None
    if wanted and len(kept) < len(wanted) and count is not None and len(kept) < count:
        notes.append(
            f"-w is left out: without {nodelist.fold(set(wanted) & excluded)} it names fewer nodes than -N {count}"
        )
        kept = []
    if elsewhere and kept == wanted != []:
        notes.append(f"-w {nodelist.fold(wanted)} is left out: other nodes are asked for")
        kept = []
    result = list(rest)
    if kept:
        result += ["-w", nodelist.fold(kept)]
    if excluded:
        result.append(f"--exclude={nodelist.fold(excluded)}")
    return tuple(result)


def _taken_out(options: Sequence[str], names: tuple[str, str]) -> tuple[list[str], list[str]]:
    """(options without the named one in any spelling, its values)."""
    short, long = names
    rest: list[str] = []
    values: list[str] = []
    i = 0
    while i < len(options):
        word = options[i]
        if word in (short, long) and i + 1 < len(options):
            values.append(options[i + 1])
            i += 2
            continue
        if word.startswith(long + "="):
            values.append(word[len(long) + 1 :])
        elif word.startswith(short) and not word.startswith("--") and len(word) > 2:
            values.append(word[2:])
        else:
            rest.append(word)
        i += 1
    return rest, values


def _job_name(spec: str, arguments: Sequence[str]) -> str:
    model, _, tag = spec.partition(":")
    tag = tag.rpartition(":")[2]
    parts = [p for p in (tag, *(tag_of(a) for a in arguments)) if p]
    return f"JAX-{model}" + (f"-{'-'.join(parts)}" if parts else "")
