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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from slurm_triage.service.batch_file import events_by_name
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


@dataclass(frozen=True)
class Setup:
    """``conf``: lines added to the bare slurm.conf. ``epilog``: a second script in epilog.d. ``settings``: of the
    worker, SLURM_TRIAGE_...; None: there is none."""

    conf: str = ""
    epilog: str | None = None
    settings: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Load:
    """Tasks of one array: how many, what each does, further options of sbatch."""

    count: int
    script: str = "echo here; exit $((SLURM_ARRAY_TASK_ID % 10 == 0))"
    options: tuple[str, ...] = ()


NOTHING = Setup()
EMPTY_SCRIPT = Setup(epilog="#!/bin/sh\nexit 0\n")


@dataclass
class Bench:
    """``conf``: the bare slurm.conf; ``installed``: all that the installer adds, unasked."""

    site: Site
    conf: str
    installed: Setup

    def configure(self, setup: Setup) -> None:
        cluster = self.site.cluster
        cluster.path(cluster.layout.slurm_conf).write_text(self.conf + setup.conf)
        cluster.set_hooks({"epilog.d/50-slurm-triage": setup.epilog})
        cluster.ctld_restart()
        cluster.scontrol("reconfigure")
        cluster.wait_for("all nodes idle", cluster.all_idle, 60.0)

    def start_worker(self, settings: Mapping[str, str]) -> int:
        """As our unit starts it (systemd/slurm-triage-worker.service): CPUSchedulingPolicy=idle, Nice=19. It is at work
        when this returns, as it is on a site, where it was started days ago."""
        begun = self.begun
        pid = self.site.start_worker(**settings)
        os.setpriority(os.PRIO_PROCESS, pid, 19)
        os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
        self.site.cluster.wait_for("a worker at work", lambda: self.begun > begun, 60.0)
        return pid

    @property
    def begun(self) -> int:
        """How many workers have begun their work."""
        log = self.site.prefix / "worker.log"
        return log.read_text(errors="replace").count("at work: spool") if log.exists() else 0

    @property
    def waiting(self) -> int:
        """Events in the spool."""
        return sum(events_by_name(path.name) for path in (self.site.prefix / "spool/new").iterdir())

    def wait_for_reports(self, job_id: str, count: int) -> None:
        """Of every task of the array; and nothing is left to do."""
        wait_for, records = self.site.cluster.wait_for, self.site.records
        wait_for("empty spool", lambda: self.waiting == 0, 1800.0, 0.5)
        wait_for("a report of every job", lambda: len(records(job_id)[job_id]) == count, 1800.0, 2.0)
        wait_for("empty spool", lambda: self.waiting == 0, 1800.0, 0.5)

    def play(self, load: Load, look: Callable[[], object] = lambda: None) -> tuple[str, float]:
        """Returns the array's id and the seconds until its end; ``look`` is called every second."""
        cluster = self.site.cluster
        directory = cluster.workdir(USER, "load")
        began = time.monotonic()
        job_id = cluster.submit(USER, load.script, "-a", f"0-{load.count - 1}", *load.options, cwd=directory)
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
    path = cluster.path(cluster.layout.slurm_conf)
    cluster.reconfigure(*BARE)
    site = Site(cluster, cluster.dir / f"load-{os.getpid()}")
    # In memory, as /run is on a node; here it may be on the disk.
    site.queue = Path(f"/dev/shm/slurm-triage-load-{os.getpid()}")
    site.queue.mkdir(0o700)
    conf = path.read_text()
    try:
        site.install("--edit-slurm-conf")
        added = path.read_text().removeprefix(conf)
        epilog = (cluster.dir / "hooks/epilog.d/50-slurm-triage").read_text()
        yield Bench(site, conf, Setup(added, epilog, {}))
    finally:
        site.stop_worker()
        site.install("--uninstall", "--purge", check=False)
        cluster.reconfigure()
        shutil.rmtree(site.queue)


def test_a_storm_of_instant_jobs(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """All of them end within minutes: few questions, bounded memory, one right report for each."""
    site = bench.site
    bench.configure(bench.installed)
    pid = bench.start_worker({})
    depths = [0]
    try:
        job_id, jobs_s = bench.play(Load(JOBS), lambda: depths.append(bench.waiting))
        began = time.monotonic()
        bench.wait_for_reports(job_id, JOBS)
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
ASKED = {"completion_log": "", "reconcile_s": "15", "reconcile_lag_s": "5"}


def test_jobs_are_as_fast_with_us_as_without_us(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """As the installer does it unasked, on a site without an Epilog."""
    assert compared(bench, capsys, replace(bench.installed, epilog=None), NOTHING) <= 1.05


def test_jobs_are_as_fast_without_hooks(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Installed with --no-hooks: Slurm does nothing for us, and the worker takes what is left of the processors."""
    assert compared(bench, capsys, Setup(settings=ASKED), NOTHING) <= 1.05


def test_jobs_are_as_fast_with_the_nodes_epilog_as_with_an_empty_one(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Six nodes, controller, database and worker share the processors of one machine here, so that what a node does for
    its own jobs counts against all. A kernel that has just killed for want of memory has the most to tell."""
    assert compared(bench, capsys, bench.installed, EMPTY_SCRIPT) <= 1.05


def test_jobs_of_a_second_are_as_fast_with_the_nodes_epilog(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """One on each node at a time, as on nodes that have processors of their own."""
    load = Load(BLOCK // 5, "sleep 1", ("--exclusive",))
    assert compared(bench, capsys, bench.installed, NOTHING, load) <= 1.05


def test_what_a_script_of_the_controller_costs(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """--jobcomp-script: slurmctld pays for each process that it starts. docs/operations.md says how much."""
    script = f"JobCompType=jobcomp/script\nJobCompLoc={bench.site.prefix}/libexec/jobcomp\n"
    assert compared(bench, capsys, Setup(script, settings={"completion_log": ""}), NOTHING) <= 2.0


def compared(
    bench: Bench, capsys: pytest.CaptureFixture[str], with_us: Setup, without: Setup, load: Load | None = None
) -> float:
    """Median of with / without in blocks in the order ABBA: a machine that gets slower or faster meanwhile does so for
    both. Every job of a block with us has its report before the next block begins."""
    site, load = bench.site, load or Load(BLOCK)
    seconds: dict[str, list[float]] = {"A": [], "B": []}
    ratios = []
    for _ in range(ROUNDS):
        for arm in "ABBA":
            setup = without if arm == "A" else with_us
            bench.configure(setup)
            if setup.settings is not None:
                bench.start_worker(setup.settings)
            job_id, took_s = bench.play(load)
            seconds[arm].append(took_s)
            if setup.settings is not None:
                bench.wait_for_reports(job_id, load.count)
                site.stop_worker()
        ratios.append(sum(seconds["B"][-2:]) / sum(seconds["A"][-2:]))
    median = statistics.median(ratios)
    with capsys.disabled():
        shown = {arm: " ".join(f"{value:.1f}" for value in values) for arm, values in seconds.items()}
        print(
            f"\n{ROUNDS} x ABBA, {load.count} jobs a block: without {shown['A']} s; with {shown['B']} s; "
            f"with / without by round {' '.join(f'{ratio:.3f}' for ratio in ratios)}, median {median:.3f}"
        )
    assert site.cluster.drained() == {}
    return median
