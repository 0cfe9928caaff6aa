"""What was run: the recorded submit command taken apart, from the best source there is.

Best is the launcher's ``submit_cmd.txt`` (quoted by bash), then the traced command line of the training together with
the log's header and accounting, then accounting's submit line. What a source cannot tell is said in ``doubts``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from slurm_triage.model.facts import AttemptFacts
from slurm_triage.model.job import Job
from slurm_triage.resubmit.options import Option, take_apart, words_of
from slurm_triage.resubmit.words import split

Kind = Literal["submit.sh", "k8s_submit.sh", "sbatch"]
_ASSIGNMENT = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*=")
#: Stage limits that the launcher uses without being told (its stage table shows them in every log).
_DEFAULT_LIMITS = {"preflight": 900.0, "pull": 900.0, "ecc": 300.0, "train": None}
#: Slurm prints huge limits for "no limit"; a year is nobody's wish.
_NO_LIMIT_S = 365 * 86_400.0
_NO_QUOTES = "accounting keeps the submit line without its quotes"
FROM_STDIN = "the script came from standard input and is not recorded: give it again, as a file or by <"


@dataclass(frozen=True, slots=True)
class Recorded:
    """``[env] program [spec] options [-- arguments]``. ``options`` are sbatch's, ``arguments`` the training's."""

    kind: Kind
    program: str
    spec: str | None
    options: tuple[str, ...]
    arguments: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    doubts: tuple[str, ...] = field(default=())


def recorded_command(job: Job, attempt: AttemptFacts, submit_cmd: str | None) -> Recorded | None:
    """The command as it was run, or None when nothing tells."""
    refused: tuple[str, ...] = ()
    if submit_cmd and submit_cmd.strip():
        found = from_words(_safe_split(submit_cmd.strip()))
        if found is not None:
            return found
        refused = ("submit_cmd.txt is left out: it calls neither the launcher nor sbatch",)
    found = from_header(job, attempt) if attempt.header.model_name is not None else _from_submit_line(job)
    return replace(found, doubts=(*refused, *found.doubts)) if found is not None else None


def _from_submit_line(job: Job) -> Recorded | None:
    """sbatch tells Slurm which words it was called with, so neither an assignment nor another program is ever before
    them, unless a client of the user's own told it. Nor does it make a program sbatch that it is called so."""
    program, *words = _submit_words(job)
    if program.rpartition("/")[2] != "sbatch":
        return None
    elsewhere = () if program == "sbatch" else (f"it was {program}; this is the sbatch that your shell finds",)
    return from_words(["sbatch", *words], doubts=(_NO_QUOTES, *elsewhere))


def _submit_words(job: Job) -> list[str]:
    """Slurm joins the words by single blanks and quotes nothing, so every other character is as it was. Where a word
    held blanks, what accounting knows of the job puts some of them together again."""
    line = job.submit_line or ""
    if job.source == "file" and any(" " in word for word in _safe_split(line)):
        # Somebody wrote it by hand, for a shell.
        return _safe_split(line)
    for known in (job.name, job.comment, job.work_dir):
        if known and " " in known:
            line = line.replace(known, known.replace(" ", "\0"))
    return [word.replace("\0", " ") for word in line.split(" ")]


def _safe_split(line: str) -> list[str]:
    try:
        return split(line)
    except ValueError:
        return line.split()


def from_words(words: Sequence[str], doubts: tuple[str, ...] = ()) -> Recorded | None:
    """``RAY=1 ./submit.sh spec -N 2 -- steps=5`` or ``sbatch -N 2 script args``."""
    env: list[tuple[str, str]] = []
    rest = list(words)
    while rest and _ASSIGNMENT.match(rest[0]):
        key, _, value = rest.pop(0).partition("=")
        env.append((key, value))
    if not rest:
        return None
    program = rest.pop(0)
    name = program.rsplit("/", 1)[-1]
    if name in {"submit.sh", "k8s_submit.sh"} and rest:
        spec = rest.pop(0)
        cut = rest.index("--") if "--" in rest else len(rest)
        kind: Kind = "submit.sh" if name == "submit.sh" else "k8s_submit.sh"
        return Recorded(kind, program, spec, tuple(rest[:cut]), tuple(rest[cut + 1 :]), tuple(env), doubts)
    if name == "sbatch":
        options, script = take_apart(rest)
        if options and options[-1].name == "wrap" and script:
            # sbatch takes no script beside --wrap, so these words were part of the wrapped command.
            *before, last = options[-1].words
            options[-1], script = Option("wrap", None, (*before, " ".join((last, *script)))), []
            doubts = (*doubts, "where the wrapped command ends is a guess: options behind it would look the same")
        elif not script and not any(o.name == "wrap" for o in options):
            doubts = (*doubts, FROM_STDIN)
        return Recorded("sbatch", program, None, tuple(words_of(options)), tuple(script), tuple(env), doubts)
    return None


def from_header(job: Job, attempt: AttemptFacts) -> Recorded:
    """From the log's header, the traced command line and accounting."""
    header = attempt.header
    doubts = ["rebuilt from the log's header; options that only the submit command had are not in it"]
    if not attempt.launch_args_exact and header.passthrough_args:
        doubts.append("the header does not keep quotes: check the arguments that hold blanks")
    arguments = attempt.launch_args
    env: list[tuple[str, str]] = []
    if header.ray_port is not None:
        env.append(("RAY", "1"))
    changed = [
        f"{stage}:{'none' if limit is None else f'{limit:g}'}"
        for stage, limit in attempt.stage_limits_s.items()
        if stage in _DEFAULT_LIMITS and limit != _DEFAULT_LIMITS[stage]
    ]
    if changed:
        env.append(("STAGE_TIMEOUTS", ",".join(changed)))
    options: list[str] = []
    if header.nnodes is not None:
        options += ["-N", str(header.nnodes)]
    if job.time_limit_s and job.time_limit_s < _NO_LIMIT_S:
        options.append(f"--time={_slurm_time(job.time_limit_s)}")
    for name, value in (("partition", job.partition), ("account", job.account), ("qos", job.qos)):
        if value and value != "normal":
            options.append(f"--{name}={value}")
    if job.requested_nodes:
        options += ["-w", job.requested_nodes]
    if job.excluded_nodes:
        options.append(f"--exclude={job.excluded_nodes}")
    spec = _spec(header.model_name or "", header.model_alias, header.exp_tag, arguments)
    return Recorded("submit.sh", "./submit.sh", spec, tuple(options), arguments, tuple(env), tuple(doubts))


def _spec(model: str, alias: str | None, exp_tag: str | None, arguments: Sequence[str]) -> str:
    """``model``, ``model:tag``, ``model:alias:`` or ``model:alias:tag``. The launcher appends the arguments to the tag:
    leading dashes off, "=" to "_", joined by "-"."""
    suffix = "-".join(tag_of(a) for a in arguments)
    tag = exp_tag or ""
    if tag == suffix:
        tag = ""
    elif suffix and tag.endswith("-" + suffix):
        tag = tag[: -len(suffix) - 1]
    if alias:
        return f"{model}:{alias}:{tag}"
    return f"{model}:{tag}" if tag else model


def tag_of(argument: str) -> str:
    return argument.removeprefix("--").removeprefix("-").replace("=", "_")


def _slurm_time(seconds: float) -> str:
    days, rest = divmod(int(seconds), 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, secs = divmod(rest, 60)
    clock = f"{hours:02d}:{minutes:02d}:{secs:02d}"
    return f"{days}-{clock}" if days else clock
