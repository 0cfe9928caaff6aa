"""What was run: the recorded submit command taken apart, from the best source there is.

Best is the launcher's ``submit_cmd.txt`` (quoted by bash), then the traced command line of the training together with
the log's header and accounting, then accounting's submit line. What a source cannot tell is said in ``doubts``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Literal

from slurm_triage.model.facts import AttemptFacts
from slurm_triage.model.job import Job
from slurm_triage.resubmit.options import Option, take_apart, words_of
from slurm_triage.resubmit.words import split

Kind = Literal["submit.sh", "k8s_submit.sh", "sbatch"]
_ASSIGNMENT = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*=")
#: Stage limits that the launcher uses without being told (its stage table shows them in every log).
_DEFAULT_LIMITS = {"preflight": 900.0, "pull": 900.0, "ecc": 300.0, "train": None}
#: The launcher's own image needs no word; it is in every log.
_DEFAULT_IMAGE = "rocm/jax-training:maxtext-v26.2"
_JOB_SCRIPT = "_job.sbatch"
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
            return _with_environment(found, attempt)
        refused = ("submit_cmd.txt is left out: it calls neither the launcher nor sbatch",)
    found = from_header(job, attempt) if attempt.header.model_name is not None else _from_submit_line(job)
    return replace(found, doubts=(*refused, *found.doubts)) if found is not None else None


def _with_environment(recorded: Recorded, attempt: AttemptFacts) -> Recorded:
    """``submit_cmd.txt`` has RAY and JOB_WORKSPACE; what else the launcher took from the environment, the log shows."""
    if recorded.kind != "submit.sh":
        return recorded
    known = {key for key, _ in recorded.env}
    return replace(recorded, env=(*recorded.env, *(e for e in _environment(attempt) if e[0] not in known)))


def _environment(attempt: AttemptFacts) -> list[tuple[str, str]]:
    changed = [
        f"{stage}:{'none' if limit is None else f'{limit:g}'}"
        for stage, limit in attempt.stage_limits_s.items()
        if stage in _DEFAULT_LIMITS and limit != _DEFAULT_LIMITS[stage]
    ]
    image, branch = attempt.env.get("image", _DEFAULT_IMAGE), attempt.env.get("Checking out")
    env = [("STAGE_TIMEOUTS", ",".join(changed))] if changed else []
    if image != _DEFAULT_IMAGE:
        env.append(("DOCKER_IMAGE", image))
    if branch and not any(a.startswith("_env_MAXTEXT_PATCH_BRANCH=") for a in attempt.launch_args):
        env.append(("MAXTEXT_PATCH_BRANCH", branch))
    return env


def _from_submit_line(job: Job) -> Recorded | None:
    """sbatch tells Slurm which words it was called with, so neither an assignment nor another program is ever before
    them, unless a client of the user's own told it. Nor does it make a program sbatch that it is called so."""
    program, *words = _submit_words(job)
    if program.rpartition("/")[2] != "sbatch":
        return None
    launched = _from_launcher_line(job)
    if launched is not None:
        return launched
    elsewhere = () if program == "sbatch" else (f"it was {program}; this is the sbatch that your shell finds",)
    return from_words(["sbatch", *words], doubts=(_NO_QUOTES, *elsewhere))


def _from_launcher_line(job: Job) -> Recorded | None:
    """Of a job that left no log: the launcher calls ``sbatch ... _job.sbatch MODEL TAG ALIAS -- arguments``. To call
    sbatch so again would fail, since the launcher deletes the copy of the script that it gave to it."""
    options = _launcher_options(job)
    if options is None:
        return None
    given, script = take_apart(_submit_words(job)[1:])
    if len(script) < 5 or script[4] != "--" or not script[1]:
        return None
    _, model, tag, alias, _, *arguments = script
    ray = any(o.name == "export" and "USE_RAY=true" in (o.value or "") for o in given)
    workspace = _workspace(job)
    env = [("JOB_WORKSPACE", workspace)] if workspace is not None else []
    env += [("RAY", "1")] if ray else []
    doubts = (_NO_QUOTES, "there is no log: other variables that the launcher was called with are not known")
    spec = _spec(model, alias, tag, arguments)
    return Recorded("submit.sh", "./submit.sh", spec, tuple(options), tuple(arguments), tuple(env), doubts)


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
    given = _launcher_options(job)
    if given is None:
        doubts = ["rebuilt from the log's header; options that only the submit command had are not in it"]
    else:
        doubts = [f"rebuilt from the log's header and accounting: {_NO_QUOTES}"]
    if not attempt.launch_args_exact and header.passthrough_args:
        doubts.append("the header does not keep quotes: check the arguments that hold blanks")
    env = [("RAY", "1")] if header.ray_port is not None else []
    workspace = _workspace(job)
    if workspace is not None:
        env.insert(0, ("JOB_WORKSPACE", workspace))
    options = _options_by_accounting(job, header.nnodes) if given is None else given
    arguments = attempt.launch_args
    spec = _spec(header.model_name or "", header.model_alias, header.exp_tag, arguments)
    env += _environment(attempt)
    return Recorded("submit.sh", "./submit.sh", spec, tuple(options), arguments, tuple(env), tuple(doubts))


def _launcher_options(job: Job) -> list[str] | None:
    """What the user gave to the launcher for sbatch. The launcher puts its own options first, of which ``--output`` and
    what it exports for Ray are the last, and its job script behind the user's. None where that is not what was called
    or cannot be told apart."""
    program, *words = _submit_words(job)
    options, script = take_apart(words)
    if program.rpartition("/")[2] != "sbatch" or not script or script[0].rpartition("/")[2] != _JOB_SCRIPT:
        return None
    own = next((at for at, o in enumerate(options, 1) if o.name in ("output", "o")), None)
    if own is None:
        return None
    exported = options[own : own + 1]
    if exported and exported[0].name == "export" and "USE_RAY=" in (exported[0].value or ""):
        own += 1
    return words_of(options[own:])


def _options_by_accounting(job: Job, nnodes: int | None) -> list[str]:
    options: list[str] = []
    if nnodes is not None:
        options += ["-N", str(nnodes)]
    if job.time_limit_s and job.time_limit_s < _NO_LIMIT_S:
        options.append(f"--time={_slurm_time(job.time_limit_s)}")
    for name, value in (("partition", job.partition), ("account", job.account), ("qos", job.qos)):
        if value and value != "normal":
            options.append(f"--{name}={value}")
    if job.requested_nodes:
        options += ["-w", job.requested_nodes]
    if job.excluded_nodes:
        options.append(f"--exclude={job.excluded_nodes}")
    return options


def _workspace(job: Job) -> str | None:
    """Where the launcher was told to put its outputs, as far as accounting knows; None for its usual place. A job name
    with a slash in it makes directories below that."""
    path = PurePosixPath(job.stdout or "")
    named = [p for p in (path, *path.parents) if re.match(rf"(%j|{re.escape(job.job_id or '%j')})-", p.name)]
    if not named or not path.is_absolute():
        return None
    directory = named[-1].parent
    usual = directory.name == "outputs" and (job.work_dir is None or directory.parent == PurePosixPath(job.work_dir))
    return None if usual else str(directory)


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
