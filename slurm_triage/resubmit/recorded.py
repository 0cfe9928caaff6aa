"""What was run: the recorded submit command taken apart, from the best source there is.

Best is the launcher's ``submit_cmd.txt`` (quoted by bash), then the traced command line of the training together with
the log's header and accounting, then accounting's submit line. What a source cannot tell is said in ``doubts``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from slurm_triage.model.facts import AttemptFacts
from slurm_triage.model.job import Job
from slurm_triage.resubmit.words import split

Kind = Literal["submit.sh", "k8s_submit.sh", "sbatch"]
_ASSIGNMENT = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*=")
#: Stage limits that the launcher uses without being told (its stage table shows them in every log).
_DEFAULT_LIMITS = {"preflight": 900.0, "pull": 900.0, "ecc": 300.0, "train": None}
#: Slurm prints huge limits for "no limit"; a year is nobody's wish.
_NO_LIMIT_S = 365 * 86_400.0


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
    if submit_cmd and submit_cmd.strip():
        found = from_words(_safe_split(submit_cmd.strip()))
        if found is not None:
            return found
    if attempt.header.model_name is not None:
        return from_header(job, attempt)
    if job.submit_line:
        return from_words(_safe_split(job.submit_line), doubts=("accounting keeps the submit line without its quotes",))
    return None


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
        count = _sbatch_option_count(rest)
        return Recorded("sbatch", program, None, tuple(rest[:count]), tuple(rest[count:]), tuple(env), doubts)
    return None


#: sbatch options with a value in a word of its own (single letters, and long names without "=").
_VALUE_LETTERS = frozenset("aAbBcCdDeEFgGhiJkLmMnNoOpqQsStwWxX")
_FLAGS = frozenset(
    [
        "hold",
        "exclusive",
        "overcommit",
        "oversubscribe",
        "requeue",
        "no-requeue",
        "parsable",
        "test-only",
        "wait",
        "quiet",
        "verbose",
        "spread-job",
        "contiguous",
        "reboot",
        "use-min-nodes",
        "ignore-pbs",
        "overlap",
        "get-user-env",
    ]
)


def _sbatch_option_count(words: Sequence[str]) -> int:
    """Words before the script (or before what follows the last option)."""
    i = 0
    while i < len(words):
        word = words[i]
        if word == "--":
            return i + 1
        if word.startswith("--"):
            i += 1 if "=" in word or word[2:] in _FLAGS else 2
        elif word.startswith("-") and len(word) > 1:
            takes_next = len(word) == 2 and word[1] in _VALUE_LETTERS and word[1] not in "HhkOQsWX"
            i += 2 if takes_next else 1
        else:
            return i
    return len(words)


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
