"""One file per rank, as on k8s, tells the same story as one file with labels."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slurm_triage.pipeline import Engine, triage_path
from tests.corpus.score import cases, report_for
from tests.properties.test_any_input import verdict

LABEL = re.compile(rb"^ *(\d+): ?")
JOB_ID = "k8s-20260310-080957-475e"
CASES = [c for c in cases(["runs"]) if not (c / "ray_logs").exists() and not (c / "kernel-dmesg.txt").exists()]


def split(case: Path, directory: Path) -> Path:
    """Rank 0 (and what has no label) goes into the primary log, every other rank into ``rank-N.log``."""
    job = directory / f"{JOB_ID}-JAX-x"
    job.mkdir()
    files: dict[int, list[bytes]] = {0: []}
    for line in (case / "log.txt").read_bytes().splitlines(keepends=True):
        match = LABEL.match(line)
        rank = int(match[1]) if match is not None else 0
        files.setdefault(rank, []).append(line[match.end() :] if match is not None else line)
    for rank, lines in files.items():
        path = directory / f"{JOB_ID}-JAX-x.log" if rank == 0 else job / f"rank-{rank}.log"
        path.write_bytes(b"".join(lines))
    (job / "log").symlink_to(f"../{JOB_ID}-JAX-x.log")
    return job


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_splitting_a_log_into_ranks_changes_no_verdict(case: Path, engine: Engine, tmp_path: Path) -> None:
    whole = verdict(report_for(case, engine))
    apart = verdict(triage_path(str(split(case, tmp_path)), engine=engine))
    assert apart[:2] == whole[:2]
