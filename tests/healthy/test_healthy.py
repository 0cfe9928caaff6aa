"""No false alarms: healthy jobs, however noisy, are never called failed, hanging or cancelled, and nobody is blamed.

Real logs of ordinary jobs (recorded by make.py) and assembled training logs, each as the hook would see it (accounting
says COMPLETED), while it was still running, and without any accounting at all, where the text alone has to do.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_triage.model.report import Report
from slurm_triage.model.rule import RuleSet
from slurm_triage.pipeline import Engine, triage_path
from slurm_triage.rules.load import load_rules
from slurm_triage.slurm.record_file import job_from_record, load_record
from tests.healthy.assemble import START, assembled
from tests.healthy.jobs import LOGS, SLURM_LOGS, SLURM_SCRIPTS, OrdinaryJob, ordinary_jobs, recorded

JOBS = [job for job in ordinary_jobs() if job.log.exists()]
ASSEMBLED = range(160)
_START = START.timestamp()


@pytest.fixture(scope="module")
def all_rules() -> RuleSet:
    return load_rules(site_dirs=[], samples=True)


def test_there_are_enough_logs() -> None:
    """At least 200 in all, at least 60 of them from real programs; no log without its script, none too large."""
    assert len(JOBS) >= 60
    assert len(SLURM_JOBS) >= 10
    assert len(JOBS) + len(SLURM_JOBS) + len(ASSEMBLED) >= 200
    assert {job.name for job in JOBS} == set(recorded()) == {p.name.removesuffix(".log.gz") for p in LOGS.glob("*.gz")}
    assert sum(p.stat().st_size for p in LOGS.iterdir()) < 3_000_000


def srun_labels(text: bytes) -> bytes:
    """As `srun -l` prints it for one of two tasks."""
    return b"".join(b"1: " + line + b"\n" for line in text.rstrip(b"\n").split(b"\n"))


def time_stamps(text: bytes) -> bytes:
    """As a log shipper writes it."""
    return b"".join(b"2026-11-30T02:00:07.123456Z " + line + b"\n" for line in text.rstrip(b"\n").split(b"\n"))


FORMS: tuple[tuple[str, Callable[[bytes], bytes]], ...] = (
    ("plain", bytes),
    ("srun", srun_labels),
    ("stamped", time_stamps),
)


def blamed(report: Report) -> list[str]:
    """What a user would see wrongly: the status and the cause, if they accuse anybody."""
    diagnosis = report.diagnosis
    wrong = [f"status {diagnosis.status}"] if diagnosis.status in {"failed", "hanging", "cancelled"} else []
    if diagnosis.primary is not None:
        wrong.append(f"primary {diagnosis.primary.cls}: {diagnosis.primary.title}")
        wrong.extend(f"{f.rule}: {f.match.first.text}" for f in diagnosis.findings if f.match and f.role == "root")
    return wrong


def records(seconds: float) -> Iterator[tuple[str, dict[str, object] | None]]:
    """What accounting may know of a healthy job."""
    yield "unknown", None
    base = {"job_id": "4711", "nodes": "node01", "start": _START, "elapsed": seconds}
    yield "completed", {**base, "state": "COMPLETED", "exit_code": "0:0", "end": _START + seconds}
    yield "running", {**base, "state": "RUNNING"}


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f[0])
@pytest.mark.parametrize("job", JOBS, ids=lambda j: j.name)
def test_ordinary_job(
    job: OrdinaryJob, form: tuple[str, Callable[[bytes], bytes]], engine: Engine, tmp_path: Path
) -> None:
    path = tmp_path / "slurm-4711.out"
    path.write_bytes(form[1](job.text()))
    for name, record in records(recorded()[job.name]["elapsed_s"]):
        if job.blind is not None and name != "completed":
            continue
        known = {} if record is None else {"job": job_from_record(record)}
        report = triage_path(str(path), engine=engine, now=_START + recorded()[job.name]["elapsed_s"], **known)
        assert not blamed(report), f"accounting: {name}"
        if name == "completed":
            assert report.diagnosis.status == "completed"


SLURM_JOBS = sorted(p.name.removesuffix(".log.gz") for p in SLURM_LOGS.glob("*.gz"))


@pytest.mark.parametrize("name", SLURM_JOBS)
def test_ordinary_slurm_job(name: str, engine: Engine, tmp_path: Path) -> None:
    """Real sbatch scripts with srun's and slurmstepd's own lines, judged with accounting's record and without."""
    path = tmp_path / f"{name}.log"
    path.write_bytes(gzip.decompress((SLURM_LOGS / f"{name}.log.gz").read_bytes()))
    report = triage_path(str(path), engine=engine, job=load_record(str(SLURM_LOGS / f"{name}.json")))
    assert not blamed(report)
    assert report.diagnosis.status == "completed"
    script = next(p for p in SLURM_SCRIPTS.glob("*.sh") if name == p.stem or name.startswith(f"{p.stem}-"))
    if "# blind: " not in script.read_text():
        assert not blamed(triage_path(str(path), engine=engine))


@pytest.mark.parametrize("number", ASSEMBLED)
def test_assembled_log(number: int, engine: Engine, all_rules: RuleSet, tmp_path: Path) -> None:
    log = assembled(number, all_rules)
    path = tmp_path / "4711-JAX-model.log"
    path.write_text(log.text)
    for name, record in records(log.seconds):
        if log.accounting is not None and name != "unknown":
            record = {**log.accounting, "state": record["state"]} if record else None
        known = {} if record is None else {"job": job_from_record(record)}
        report = triage_path(str(path), engine=engine, now=_START + log.seconds if record else None, **known)
        assert not blamed(report), f"{log.name}, accounting: {name}"
        assert not report.throughput.degraded, f"{log.name}: {report.throughput}"
        if name == "completed":
            assert report.diagnosis.status == "completed"
