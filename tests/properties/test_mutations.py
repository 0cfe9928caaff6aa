"""A verdict stands on its evidence, and on nothing else.

Over the whole labelled corpus: without the lines that tell the cause the verdict changes or becomes less sure; noise
that every healthy or dying job prints, other ranks' lines, labels, prefixes and time stamps change neither class nor
status.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import pytest
from _pytest.mark import ParameterSet

from slurm_triage.diagnosis.classes import STOPS
from slurm_triage.diagnosis.last_resort import SUGGESTED
from slurm_triage.logs.records import SAMPLE_BYTES, unwrapper
from slurm_triage.model.report import Report
from slurm_triage.pipeline import Engine, triage_path
from slurm_triage.rules.match_text import explain_text
from tests.corpus.score import KINDS, cases

#: One process's lines may be labelled, cut and dated anew only where the log has no such thing yet.
LABELLED = re.compile(r"^ *\d+: ", re.MULTILINE)
SURE = {"high": 2, "medium": 1, "low": 0}
#: How ranks ended; these lines are evidence of a crash even where no rule of the class matches them.
EXIT_KINDS = {"node_exit", "srun_exit", "train_rc", "torchrun_exit", "ray_exit"}
#: What tells that a job was stopped from outside.
STOP_KINDS = {"cancel", "sigterm", "summary", "teardown"}
#: Verdicts about what is missing or slow, which no line tells.
WITHOUT_LINES = {
    "hang", "soft-success", "unknown-death", "incomplete-success", "tgs-degradation", "stage-fail", "restore-straggler"
}  # fmt: skip
STOPPING = """\
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
srun: got SIGCONT
srun: forcing job termination
"""
CLEANING = """\
[INFO] chi2801: Cleaning up container maxtext-slurm-7-node0 ...
OCI runtime exec failed: exec failed: unable to start container process: error executing setns process: exit status 1
Error response from daemon: No such container: maxtext-slurm-7-node0
Error response from daemon: cannot remove container "x": could not kill container: tried to kill container, but did not receive an exit event
"""
PREFIXES = ("0: ", "(RayTrainWorker pid=690, ip=192.0.2.7) ", "\x1b[36m")
CHATTER = """\
{label}NCCL INFO Channel 00/08 : 0 1 2 3
{label}failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: UNKNOWN ERROR (303)
{label}chi2899:67:67 [0] /workspace/rccl/src/init.cc:2095 NCCL WARN MSCCL++: Feature not enabled. ENABLE_MSCCLPP must be defined at compile-time
{label}Token indices sequence length is longer than the specified maximum sequence length for this model (9182 > 4096).
"""

SHORT = {"made", "threads"}

LOGS = [c for c in cases(KINDS) if (c / "log.txt").is_file() and (c / "log.txt").stat().st_size < 300_000]


def name(case: Path) -> str:
    return f"{case.parent.name}/{case.name}"


def judged(text: str, engine: Engine, folder: Path) -> Report:
    """The verdict on the log alone: accounting would tell the same story again."""
    path = folder / "log.txt"
    path.write_text(text, encoding="utf-8", newline="")
    return triage_path(str(path), engine=engine)


def read(case: Path) -> str:
    return (case / "log.txt").read_bytes().decode("utf-8", "replace")


def as_read(raw: bytes) -> bytes:
    """With the ranks' labels in front of the clocks, and records unwrapped where they are a line each."""
    unwrap = unwrapper(raw[:SAMPLE_BYTES])
    read = raw if unwrap is None else unwrap(raw)
    return read if read.count(b"\n") == raw.count(b"\n") else raw


def without_cause(text: str, before: Report, engine: Engine) -> Iterator[str]:
    """Without any line that tells of the primary class (or of how the ranks ended); nothing where no line tells it."""
    primary = before.diagnosis.primary
    if primary is None or primary.cls in WITHOUT_LINES or primary.confidence == "low":
        return
    rules = {r.id for r in engine.ruleset.rules if r.cls == primary.cls}
    rules |= {f.rule for f in before.diagnosis.findings if f.cls == primary.cls}
    kinds = EXIT_KINDS | (STOP_KINDS if primary.cls in STOPS else set())
    exits = {r for r, kind in engine.ruleset.fact_kinds.items() if kind in kinds}
    told = {f.match.first.text for f in before.diagnosis.findings if f.cls == primary.cls and f.match is not None}
    numbers = set()
    for match in explain_text(as_read(text.encode()), engine.ruleset, engine.matcher):
        if match.rejected is None and match.rule.id in rules | exits:
            numbers.add(match.line)
    kept = (
        line
        for number, line in enumerate(text.split("\n"), 1)
        if number not in numbers and not any(t and t in line for t in told)
    )
    yield "\n".join(kept)


def another_or_less_sure(before: Report, after: Report) -> bool:
    first, second = before.diagnosis.primary, after.diagnosis.primary
    assert first is not None
    return second is None or second.cls != first.cls or SURE[second.confidence] < SURE[first.confidence]


def same_class(before: Report, after: Report) -> bool:
    first, second = before.diagnosis.primary, after.diagnosis.primary
    return (first.cls if first else None) == (second.cls if second else None)


def same_verdict(before: Report, after: Report) -> bool:
    if after.diagnosis.primary is None and after.diagnosis.status == "unknown" and rests_on_last_words(before):
        # What a log complains of at its very end explains the end; once other lines follow, that guess is withdrawn.
        return True
    return before.diagnosis.status == after.diagnosis.status and same_class(before, after)


def rests_on_last_words(report: Report) -> bool:
    cause = next((f for f in report.diagnosis.findings if f.role == "root"), None)
    return cause is not None and cause.guess and cause.why == SUGGESTED


def with_teardown_noise(text: str, before: Report, _: Engine) -> Iterator[str]:
    """After the end."""
    # Behind an excerpt in which nothing fails and nothing ends, srun's words are news: somebody stopped it. They also
    # tell more than a guess from the last words.
    roots = [f for f in before.diagnosis.findings if f.match is not None and f.role == "root"]
    known = [f for f in roots if not rests_on_last_words(before)]
    ended = bool(known) or any(a.summaries for a in before.facts.attempts)
    yield text.rstrip("\n") + "\n" + (STOPPING + CLEANING if ended else CLEANING)


def with_another_healthy_rank(text: str, _: Report, __: Engine) -> Iterator[str]:
    labels = LABELLED.findall(text)
    lines = text.split("\n")
    if not labels:
        # One process's lines cannot be told from another's inside a message: before and behind all of them.
        chatter = CHATTER.format(label="")
        yield chatter + text.rstrip("\n") + "\n" + chatter
        return
    label = max(labels, key=lambda found: int(found.strip(" :")))
    own = [n for n, line in enumerate(lines) if line.startswith(label)]
    # Behind a finished step: inside a message of several lines they would be other lines of the same rank.
    steps = [n for n in own if "completed step: " in lines[n]]
    places = {own[0], *(n + 1 for n in (steps[len(steps) // 2 :][:1] + steps[-1:]))}
    chatter = CHATTER.format(label=label)
    yield "\n".join((chatter if n in places else "") + line for n, line in enumerate(lines))


def with_time_stamps(text: str, before: Report, _: Engine) -> Iterator[str]:
    """In front of the ranks' lines. Not where the log has clocks, or consists of the launcher's own lines, which never
    have one."""
    attempt = before.facts.last
    if attempt.start_time is not None or (attempt.header.job_id is not None and not attempt.rank_hosts):
        return

    def stamped(number: int, line: str) -> str:
        label = LABELLED.match(line)
        start = label.end() if label is not None else 0
        if not line[start:].strip() or (label is None and attempt.header.job_id is not None):
            return line
        clock = f"2026-11-30T{2 + number // 36000:02}:{number // 600 % 60:02}:{number // 10 % 60:02}.{number % 10}00Z "
        return line[:start] + clock + line[start:]

    yield "\n".join(stamped(n, line) for n, line in enumerate(text.split("\n")))


def with_prefixes(text: str, before: Report, _: Engine) -> Iterator[str]:
    """In front of every line. Not where they have labels, nor to the launcher's and Slurm's own lines: those never have
    any."""
    last = before.facts.last
    if LABELLED.search(text) or last.header.job_id is not None or last.summaries or last.cancellations:
        return
    for prefix in PREFIXES:
        yield "\n".join(f"{prefix}{line}" for line in text.rstrip("\n").split("\n")) + "\n"


#: What is done to a log, and what then holds of the verdicts before and after. Where it does not apply it gives nothing.
MUTATIONS: dict[str, tuple[Callable[[str, Report, Engine], Iterator[str]], Callable[[Report, Report], bool]]] = {
    "cause": (without_cause, another_or_less_sure),
    "teardown": (with_teardown_noise, same_verdict),
    "rank": (with_another_healthy_rank, same_verdict),
    "clock": (with_time_stamps, same_verdict),
    "prefix": (with_prefixes, same_class),
}


def tried() -> Iterator[ParameterSet]:
    """Logs with the mutations that each meets. Those of real launchers and real runs meet every one; the many short ones
    meet half of them, and the others with ``--slow``."""
    for case in LOGS:
        short = case.parent.name in SHORT
        later = [m for m in MUTATIONS if short and crc32(f"{m} {name(case)}".encode()) % 2]
        now = [m for m in MUTATIONS if m not in later]
        if now:
            yield pytest.param(case, now, id=name(case))
        if later:
            yield pytest.param(case, later, id=f"{name(case)}-{'-'.join(later)}", marks=pytest.mark.slow)


@pytest.mark.parametrize("case, mutations", [*tried()])
def test_a_verdict_stands_on_its_evidence_alone(
    case: Path, mutations: list[str], engine: Engine, tmp_path: Path
) -> None:
    text = read(case)
    before = judged(text, engine, tmp_path)
    wrong = []
    for mutation in mutations:
        mutate, holds = MUTATIONS[mutation]
        for number, changed in enumerate(mutate(text, before, engine)):
            after = judged(changed, engine, tmp_path)
            if not holds(before, after):
                wrong.append((mutation, number, after.diagnosis.status, after.diagnosis.primary))
    assert not wrong, (before.diagnosis.status, before.diagnosis.primary)


def test_the_whole_corpus_is_tried() -> None:
    assert {case.parent.name for case in LOGS} == set(KINDS)
    assert len(LOGS) > 0.9 * len(cases(KINDS))
