"""Large arrays of instant jobs: what they cost accounting and us, and what we cost them. Minutes long, so outside the
default run:

SLURM_TRIAGE_LOAD_JOBS=10000 SLURM_TRIAGE_LOAD_ROUNDS=8 pytest -m slow tests/service/test_load_cluster.py -s
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.layout import USERS
from tests.service.site import Site

#: Tasks of the storm, and how many ABBA rounds of four blocks compare the speed with and without us.
JOBS = int(os.environ.get("SLURM_TRIAGE_LOAD_JOBS", "2000"))
ROUNDS = int(os.environ.get("SLURM_TRIAGE_LOAD_ROUNDS", "2"))
BLOCK = int(os.environ.get("SLURM_TRIAGE_LOAD_BLOCK", "200"))
USER = next(iter(USERS))

#: A site without hooks, but for an epilog.d with an empty script in it.
BARE = tuple(f"{name}=" for name in ("PrologSlurmctld", "EpilogSlurmctld", "JobCompType", "JobCompLoc", "MailProg"))
BARE += tuple(f"{name}=" for name in ("Prolog", "TaskProlog", "TaskEpilog"))

pytestmark = pytest.mark.slow


@dataclass
class Bench:
    """``with_us`` and ``without``: texts of slurm.conf; ``epilog``: what is in epilog.d with us."""

    site: Site
    with_us: str
    without: str
    epilog: str

    def configure(self, text: str) -> None:
        cluster = self.site.cluster
        cluster.path(cluster.layout.slurm_conf).write_text(text)
        cluster.set_hooks({"epilog.d/50-slurm-triage": self.epilog if text == self.with_us else None})
        cluster.ctld_restart()
        cluster.scontrol("reconfigure")
        cluster.wait_for("all nodes idle", cluster.all_idle, 60.0)

    def start_worker(self, **settings: str) -> int:
        """As our unit starts it (systemd/slurm-triage-worker.service): CPUSchedulingPolicy=idle, Nice=19."""
        pid = self.site.start_worker(**settings)
        os.setpriority(os.PRIO_PROCESS, pid, 19)
        os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
        return pid

    @property
    def waiting(self) -> int:
        """Events in the spool."""
        return sum(1 for _ in (self.site.prefix / "spool/new").iterdir())

    def wait_for_reports(self) -> None:
        self.site.cluster.wait_for("empty spool", lambda: self.waiting == 0, 1800.0, 0.5)

    def play(self, count: int, look: Callable[[], object] = lambda: None) -> tuple[str, float]:
        """An array of instant jobs. Returns its id and the seconds until its end; ``look`` is called every second."""
        cluster = self.site.cluster
        directory = cluster.workdir(USER, "load")
        began = time.monotonic()
        script = "echo here; exit $((SLURM_ARRAY_TASK_ID % 10 == 0))"
        job_id = cluster.submit(USER, script, "-a", f"0-{count - 1}", cwd=directory)
        states = ["PENDING", "RUNNING", "COMPLETING", "CONFIGURING"]
        looked = began
        while cluster.output("squeue", "-h", "-j", job_id, "-t", ",".join(states), "-o", "%i"):
            if time.monotonic() - looked >= 1.0:
                look()
                looked = time.monotonic()
            if time.monotonic() - began > 3600.0:
                raise TimeoutError(f"array {job_id} does not end")
            time.sleep(0.1)
        return job_id, time.monotonic() - began


@pytest.fixture(scope="module")
def bench(host_cluster: Cluster) -> Iterator[Bench]:
    cluster = host_cluster
    conf = cluster.path(cluster.layout.slurm_conf)
    cluster.reconfigure(*BARE)
    site = Site(cluster, cluster.dir / f"load-{os.getpid()}")
    without = conf.read_text()
    try:
        site.install("--edit-slurm-conf")
        yield Bench(site, conf.read_text(), without, (cluster.dir / "hooks/epilog.d/50-slurm-triage").read_text())
    finally:
        site.stop_worker()
        site.install("--uninstall", "--purge", check=False)
        cluster.reconfigure()


def test_a_storm_of_instant_jobs(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """All of them end within minutes: few questions, bounded memory, one right report for each."""
    site = bench.site
    bench.configure(bench.with_us)
    pid = bench.start_worker()
    depths = [0]
    try:
        job_id, jobs_s = bench.play(JOBS, lambda: depths.append(bench.waiting))
        began = time.monotonic()
        bench.wait_for_reports()
        rest_s = time.monotonic() - began
        peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    finally:
        site.stop_worker()
    records = site.records(job_id)[job_id]
    queries = re.search(r"(\d+) queries", site.worker_log())
    assert queries is not None
    assert peak is not None
    with capsys.disabled():
        print(
            f"\n{JOBS} jobs in {jobs_s:.0f} s ({JOBS / jobs_s:.1f}/s): at most {max(depths)} events waited, the last "
            f"report came {rest_s:.0f} s after the last job; {queries[1]} queries; worker's peak {int(peak[1]) >> 10} MiB"
        )
    assert len(records) == len({record["array_task_id"] for record in records}) == JOBS
    assert sum(record.get("status") == "failed" for record in records) == (JOBS + 9) // 10
    assert site.cluster.drained() == {}
    assert int(peak[1]) < 400 << 10
    assert int(queries[1]) <= 25 * max(1.0, JOBS / 10_000)


#: What install.sh --no-hooks writes into config.toml.
ASKED = {"reconcile_s": "15", "reconcile_lag_s": "5"}


def test_jobs_are_as_fast_with_us_as_without_us(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Installed with --no-hooks: Slurm does nothing for us, and the worker takes what is left of the processors."""
    median = compared(bench, capsys, bench.without, ASKED)
    assert median <= 1.05


def test_jobs_are_as_fast_with_a_completion_log(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Installed with --completion-log: slurmctld writes a line about each job and starts nothing."""
    log = bench.site.prefix / "var/completed/jobs.log"
    log.parent.mkdir(exist_ok=True)
    shutil.chown(log.parent, "slurm")
    lines = f"JobCompType=jobcomp/filetxt\nJobCompLoc={log}\n"
    median = compared(bench, capsys, bench.without + lines, {"completion_log": str(log), "reconcile_s": "600"})
    assert median <= 1.05


def test_jobs_are_as_fast_with_hooks_as_without(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Nodes, controller, database and worker share the processors of one machine here, with both hooks in use: measured
    1.2 to 1.8 on two cores; --completion-log is for those whom that concerns."""
    median = compared(bench, capsys, bench.with_us, {})
    assert median <= 1.05


def compared(bench: Bench, capsys: pytest.CaptureFixture[str], with_us: str, settings: dict[str, str]) -> float:
    """Median of with / without in blocks in the order ABBA: a machine that gets slower or faster meanwhile does so for
    both. Every job of a block with us has its report before the next block begins."""
    site = bench.site
    seconds: dict[str, list[float]] = {"A": [], "B": []}
    ratios = []
    for _ in range(ROUNDS):
        for arm in "ABBA":
            bench.configure(bench.without if arm == "A" else with_us)
            if arm == "B":
                bench.start_worker(**settings)
            job_id, took_s = bench.play(BLOCK)
            seconds[arm].append(took_s)
            if arm == "B":
                done = lambda job_id=job_id: len(site.records(job_id)[job_id]) == BLOCK  # noqa: E731
                site.cluster.wait_for("a report of every job", done, 1800.0, 0.5)
                bench.wait_for_reports()
                site.stop_worker()
        ratios.append(sum(seconds["B"][-2:]) / sum(seconds["A"][-2:]))
    median = statistics.median(ratios)
    with capsys.disabled():
        shown = {arm: " ".join(f"{value:.1f}" for value in values) for arm, values in seconds.items()}
        print(
            f"\n{ROUNDS} x ABBA, {BLOCK} jobs a block: without {shown['A']} s; with {shown['B']} s; "
            f"with / without by round {' '.join(f'{ratio:.3f}' for ratio in ratios)}, median {median:.3f}"
        )
    assert site.cluster.drained() == {}
    return median
