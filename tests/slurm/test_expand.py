"""File name patterns of sbatch, as tables; the same patterns on real clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_triage.model.job import Job
from slurm_triage.slurm import expand
from slurm_triage.slurm.accounting import select
from tests.cluster.cluster import Cluster
from tests.slurm.played import accounting

PLAIN = Job(job_id="36", name="nm", user="alice", nodes=("node02.cluster", "node03"), work_dir="/w")
TASK = Job(job_id="39", array_job_id="37", array_task_id="7", name="nm", user="alice", nodes=("node02",), work_dir="/w")

#: (pattern, file of a plain job, file of an array task), as Slurm 22.05 and 26.05 made them.
PATTERNS = [
    ("%A-A", "/w/36-A", "/w/37-A"),
    ("%a-a", "/w/4294967294-a", "/w/7-a"),
    ("%j-j", "/w/36-j", "/w/39-j"),
    ("%J-J", "/w/36-J", "/w/39-J"),
    ("%N-N", "/w/node02-N", "/w/node02-N"),
    ("%n-%s-%t", "/w/0-batch-0", "/w/0-batch-0"),
    ("%u-%x", "/w/alice-nm", "/w/alice-nm"),
    ("%%-pc", "/w/%-pc", "/w/%-pc"),
    ("%5j", "/w/00036", "/w/00039"),
    ("%12j", "/w/0000000036", "/w/0000000039"),
    ("%5A-%4a", "/w/00036-4294967294", "/w/00037-0007"),
    ("%03a", "/w/4294967294", "/w/007"),
    ("%3x", "/w/nm", "/w/nm"),
    ("%z-%-", "/w/%z-%-", "/w/%z-%-"),
    (r"a\%j-%j", "/w/a%j-%j", "/w/a%j-%j"),
    (r"\%j", "/w/%j", "/w/%j"),
    ("x%%jx", "/w/x%jx", "/w/x%jx"),
    ("%%%j", "/w/%36", "/w/%39"),
    ("sub/%j", "/w/sub/36", "/w/sub/39"),
    ("/abs/%x.%j", "/abs/nm.36", "/abs/nm.39"),
]


@pytest.mark.parametrize("pattern, plain, task", PATTERNS)
def test_pattern(pattern: str, plain: str, task: str) -> None:
    assert expand.path(pattern, PLAIN) == plain
    assert expand.path(pattern, TASK) == task


def test_what_is_not_known_gives_no_path() -> None:
    assert expand.path("%N", Job(job_id="1", work_dir="/w")) is None
    assert expand.path("%u-%j", Job(job_id="1", work_dir="/w")) is None
    assert expand.path("slurm-%j.out", Job(job_id="1")) is None
    assert expand.path(None, PLAIN) is None
    assert expand.path("", PLAIN) is None


def test_default_patterns() -> None:
    assert expand.path(expand.default_pattern(PLAIN), PLAIN) == "/w/slurm-36.out"
    assert expand.path(expand.default_pattern(TASK), TASK) == "/w/slurm-37_7.out"


def test_percent_in_a_job_name_is_not_expanded_again() -> None:
    job = Job(job_id="36", name="50%j", work_dir="/w")
    assert expand.path("%x-%j", job) == "/w/50%j-36"


def test_slurm_makes_the_same_files(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", str(cluster.layout.slurm_conf))
    patterns = [pattern for pattern, *_ in PATTERNS if not pattern.startswith("/")]
    places: dict[str, tuple[str, Path]] = {}
    for index, pattern in enumerate(patterns):
        for kind, options in (("plain", ()), ("task", ("-a", "7"))):
            directory = cluster.workdir("alice", f"expand-{kind}-{index}")
            cluster.run(["mkdir", "sub"], user="alice", cwd=directory)
            job_id = cluster.submit("alice", "true", "-J", "nm", "-o", pattern, *options, cwd=directory)
            places[job_id] = (pattern, directory)
    cluster.wait(*places)
    jobs = accounting(cluster).jobs(list(places))
    for job_id, (pattern, directory) in places.items():
        (job,) = select(jobs, job_id)
        expected = expand.path(pattern, job)
        outside = cluster.path(directory)
        made = [cluster.layout.inside / path.relative_to(cluster.dir) for path in outside.rglob("*") if path.is_file()]
        assert [str(path) for path in made] == [expected], pattern
