"""A verdict stands on its evidence, and on nothing else.

Over the whole labelled corpus: without the lines that tell the cause the verdict changes or becomes less sure; noise
that every healthy or dying job prints, other ranks' lines, labels, prefixes and time stamps change neither class nor
status.
"""

from __future__ import annotations

import re
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


def of_all(mutation: str) -> list[ParameterSet]:
    """All logs for a mutation. Of real launchers and real runs each meets every one; of the many short ones each meets
    half of them, and the others with ``--slow``: all would take a third of the whole suite's time."""
    return [
        pytest.param(
            case,
            id=name(case),
            marks=[pytest.mark.slow]
            if case.parent.name in SHORT and crc32(f"{mutation} {name(case)}".encode()) % 2
            else [],
        )
        for case in LOGS
    ]


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


def without_cause(text: str, report: Report, engine: Engine) -> str:
    """The log without any line that tells of the primary class (or of how the ranks ended)."""
    primary = report.diagnosis.primary
    assert primary is not None
    rules = {r.id for r in engine.ruleset.rules if r.cls == primary.cls}
    rules |= {f.rule for f in report.diagnosis.findings if f.cls == primary.cls}
    kinds = EXIT_KINDS | (STOP_KINDS if primary.cls in STOPS else set())
    exits = {r for r, kind in engine.ruleset.fact_kinds.items() if kind in kinds}
    told = {f.match.first.text for f in report.diagnosis.findings if f.cls == primary.cls and f.match is not None}
    numbers = set()
    for match in explain_text(as_read(text.encode()), engine.ruleset, engine.matcher):
        if match.rejected is None and match.rule.id in rules | exits:
            numbers.add(match.line)
    kept = (
        line
        for number, line in enumerate(text.split("\n"), 1)
        if number not in numbers and not any(t and t in line for t in told)
    )
    return "\n".join(kept)


@pytest.mark.parametrize("case", of_all("cause"))
def test_without_its_cause_a_verdict_changes_or_is_less_sure(case: Path, engine: Engine, tmp_path: Path) -> None:
    text = read(case)
    before = judged(text, engine, tmp_path)
    primary = before.diagnosis.primary
    if primary is None or primary.cls in WITHOUT_LINES or primary.confidence == "low":
        pytest.skip("no line tells this verdict")
    after = judged(without_cause(text, before, engine), engine, tmp_path).diagnosis.primary
    assert after is None or after.cls != primary.cls or SURE[after.confidence] < SURE[primary.confidence]


def same_verdict(before: Report, after: Report) -> bool:
    first, second = before.diagnosis.primary, after.diagnosis.primary
    if second is None and after.diagnosis.status == "unknown" and rests_on_last_words(before):
        # What a log complains of at its very end explains the end; once other lines follow, that guess is withdrawn.
        return True
    classes = [p.cls if p is not None else None for p in (first, second)]
    return before.diagnosis.status == after.diagnosis.status and classes[0] == classes[1]


def rests_on_last_words(report: Report) -> bool:
    cause = next((f for f in report.diagnosis.findings if f.role == "root"), None)
    return cause is not None and cause.guess and cause.why == SUGGESTED


def test_the_whole_corpus_is_tried() -> None:
    assert {case.parent.name for case in LOGS} == set(KINDS)
    assert len(LOGS) > 0.9 * len(cases(KINDS))


@pytest.mark.parametrize("case", of_all("teardown"))
def test_teardown_noise_after_the_end_changes_nothing(case: Path, engine: Engine, tmp_path: Path) -> None:
    text = read(case)
    before = judged(text, engine, tmp_path)
    # Behind an excerpt in which nothing fails and nothing ends, srun's words are news: somebody stopped it. They also
    # tell more than a guess from the last words.
    roots = [f for f in before.diagnosis.findings if f.match is not None and f.role == "root"]
    known = [f for f in roots if not rests_on_last_words(before)]
    ended = bool(known) or any(a.summaries for a in before.facts.attempts)
    noise = STOPPING + CLEANING if ended else CLEANING
    assert same_verdict(before, judged(text.rstrip("\n") + "\n" + noise, engine, tmp_path))


@pytest.mark.parametrize("case", of_all("rank"))
def test_lines_of_another_healthy_rank_change_nothing(case: Path, engine: Engine, tmp_path: Path) -> None:
    text = read(case)
    labels = LABELLED.findall(text)
    before = judged(text, engine, tmp_path)
    lines = text.split("\n")
    if not labels:
        # One process's lines cannot be told from another's inside a message: before and behind all of them.
        chatter = CHATTER.format(label="")
        assert same_verdict(before, judged(chatter + text.rstrip("\n") + "\n" + chatter, engine, tmp_path))
        return
    label = max(labels, key=lambda found: int(found.strip(" :")))
    own = [n for n, line in enumerate(lines) if line.startswith(label)]
    # Behind a finished step: inside a message of several lines they would be other lines of the same rank.
    steps = [n for n in own if "completed step: " in lines[n]]
    places = {own[0], *(n + 1 for n in (steps[len(steps) // 2 :][:1] + steps[-1:]))}
    chatter = CHATTER.format(label=label)
    mixed = "\n".join((chatter if n in places else "") + line for n, line in enumerate(lines))
    assert same_verdict(before, judged(mixed, engine, tmp_path))


def plain(case: Path, engine: Engine, folder: Path) -> tuple[str, Report]:
    """Text and verdict of a log whose lines may get prefixes: it has none yet, and they are a task's, not the
    launcher's, which never have any."""
    text = read(case)
    before = judged(text, engine, folder)
    if LABELLED.search(text):
        pytest.skip("the lines have labels")
    last = before.facts.last
    if last.header.job_id is not None or last.summaries or last.cancellations:
        pytest.skip("the launcher's and Slurm's own lines never have a prefix")
    return text, before


@pytest.mark.parametrize("case", of_all("clock"))
def test_time_stamps_in_front_of_the_ranks_lines_change_nothing(case: Path, engine: Engine, tmp_path: Path) -> None:
    text = read(case)
    before = judged(text, engine, tmp_path)
    attempt = before.facts.last
    if attempt.start_time is not None or (attempt.header.job_id is not None and not attempt.rank_hosts):
        pytest.skip("the log has clocks, or consists of the launcher's own lines, which never have one")

    def stamped(number: int, line: str) -> str:
        label = LABELLED.match(line)
        start = label.end() if label is not None else 0
        if not line[start:].strip() or (label is None and attempt.header.job_id is not None):
            return line
        clock = f"2026-11-30T{2 + number // 36000:02}:{number // 600 % 60:02}:{number // 10 % 60:02}.{number % 10}00Z "
        return line[:start] + clock + line[start:]

    after = judged("\n".join(stamped(n, line) for n, line in enumerate(text.split("\n"))), engine, tmp_path)
    assert same_verdict(before, after)


@pytest.mark.parametrize("prefix", ["0: ", "(RayTrainWorker pid=690, ip=192.0.2.7) ", "\x1b[36m"])
@pytest.mark.parametrize("case", of_all("prefix"))
def test_prefixes_in_front_of_every_line_change_nothing(
    case: Path, prefix: str, engine: Engine, tmp_path: Path
) -> None:
    text, before = plain(case, engine, tmp_path)
    after = judged("\n".join(f"{prefix}{line}" for line in text.rstrip("\n").split("\n")) + "\n", engine, tmp_path)
    first, second = before.diagnosis.primary, after.diagnosis.primary
    assert (first.cls if first else None) == (second.cls if second else None)
