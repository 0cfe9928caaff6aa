"""On the whole corpus: unpacked elsewhere, a bundle gives the verdict of the job, and a shared one names nobody.

A sample of 60 by default; all of them with SLURM_TRIAGE_BUNDLE_CASES=all (three minutes).
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from slurm_triage.locate import locate
from slurm_triage.model.job import NO_JOB
from slurm_triage.model.report import Report
from slurm_triage.pipeline import Engine, triage, triage_path
from slurm_triage.report.markdown import to_markdown
from slurm_triage.report.to_json import to_json
from slurm_triage.slurm.record_file import load_record

from .conftest import Pack, Unpacked, corpus_cases, target_of

ALL = corpus_cases()
WHOLE = os.environ.get("SLURM_TRIAGE_BUNDLE_CASES") == "all"
SAMPLE = ALL if WHOLE else ALL[:: max(1, len(ALL) // 60)][:60]

_ADDRESS = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\w)")
_NO_ADDRESS = re.compile(r"127\.|0\.0\.0\.0|\d+\.0\.0\.0$")
_PRIVATE_PATH = re.compile(
    r"(?<![\w.])/(?:home|mnt|scratch|lustre|shared|nfs|workspace|Users|gpfs|fsx|root|outputs)/[\w./+-]+"
)


def case_id(case: Path) -> str:
    return f"{case.parent.name}/{case.name}"


def record_of(case: Path) -> Path:
    return case / "accounting.json"


def original(case: Path, engine: Engine) -> Report:
    job = load_record(str(record_of(case))) if record_of(case).exists() else NO_JOB
    return triage(job, locate(str(target_of(case)), job=job), engine)


def replay(unpacked: Unpacked, engine: Engine) -> Report:
    """What the README says to run."""
    command = next(line for line in (unpacked.tree / "README").read_text().splitlines() if "slurm-triage log" in line)
    words = shlex.split(command)
    home = unpacked.tree.parent
    job = load_record(str(home / words[words.index("--accounting") + 1]))
    now = float(words[words.index("--now") + 1]) if "--now" in words else None
    if "--outputs" in words:
        return triage_path(
            words[2], engine=engine, job=job, outputs=home / words[words.index("--outputs") + 1], now=now
        )
    return triage_path(str(home / words[2]), engine=engine, job=job, now=now)


def outcome(report: Report) -> tuple[str, str | None, int | None]:
    primary = report.diagnosis.primary
    return report.diagnosis.status, primary.cls if primary else None, primary.rank if primary else None


def known_names(report: Report, case: Path) -> set[str]:
    """Hosts, user and paths that accounting or the log name for certain."""
    job = load_record(str(record_of(case))) if record_of(case).exists() else NO_JOB
    names: set[str | None] = {*report.nodes, job.user, job.work_dir, job.stdout, job.stderr, job.failed_node}
    for attempt in report.facts.attempts:
        names |= {*attempt.rank_hosts.values(), *(e.host for e in attempt.exits)}
        names |= {match.node for match in (*attempt.matches, *attempt.facts)}
    # An alias may happen to be a name of the input; short and local names tell nobody anything.
    return {
        n for n in names if n and len(n) > 3 and not re.match(r"\d+$|localhost|127\.|.*:|(?:node|user|path)-\d+$", n)
    }


@pytest.mark.parametrize("case", SAMPLE, ids=case_id)
def test_the_same_verdict_elsewhere(case: Path, engine: Engine, pack: Pack) -> None:
    unpacked = pack(target_of(case), record_of(case))
    assert unpacked.made.same
    assert outcome(replay(unpacked, engine)) == outcome(original(case, engine))


@pytest.mark.parametrize("case", SAMPLE if WHOLE else SAMPLE[::2], ids=case_id)
def test_a_shared_bundle_gives_the_same_verdict_and_no_names(case: Path, engine: Engine, pack: Pack) -> None:
    unpacked = pack(target_of(case), record_of(case), share=True)
    report = original(case, engine)
    assert outcome(replay(unpacked, engine)) == outcome(report)
    texts = {**unpacked.texts(), "triage.json": to_json(report, share=True).decode()}
    texts |= {"TRIAGE.md": to_markdown(report, share=True), "names of members": "\n".join(unpacked.texts())}
    for where, text in texts.items():
        for name in known_names(report, case):
            assert not re.search(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", text), (where, name)
        addresses = [a for a in _ADDRESS.findall(text) if not _NO_ADDRESS.match(a) and _is_address(a)]
        assert not addresses, (where, addresses)
        assert not _PRIVATE_PATH.findall(text), where


def _is_address(text: str) -> bool:
    return all(part.isdigit() and int(part) < 256 for part in text.split("."))


LARGE = [c for c in ALL if target_of(c).is_file() and target_of(c).stat().st_size > 80_000]


@pytest.mark.parametrize("case", LARGE if WHOLE else LARGE[:8], ids=case_id)
def test_a_large_log_is_cut_and_still_gives_the_verdict(case: Path, engine: Engine, pack: Pack) -> None:
    size = target_of(case).stat().st_size
    unpacked = pack(target_of(case), record_of(case), max_bytes=60_000)
    text = "".join(unpacked.texts().values())
    gaps = [int(n) for n in re.findall(r"^\[slurm-triage bundle: (\d+) bytes left out\]$", text, re.MULTILINE)]
    assert gaps
    assert sum(gaps) == unpacked.made.left_out_bytes
    assert size < sum(gaps) + 66_000
    assert outcome(replay(unpacked, engine)) == outcome(original(case, engine))
