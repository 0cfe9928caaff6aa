"""Speed of the worker on small logs: from events in the spool to reports, durable records and an empty spool.

    python tests/bench/worker.py [--jobs 1000] [--rounds 3]

The logs are those of the launcher in ``tests/corpus`` (0.1 to 38 kB), spread over four users, whom the children become
when this runs as root. Three ways take turns, so that all meet the same machine:

* floor: one child per job that becomes the owner, writes two files of a report's size and ends; no worker at all.
* one child per job: the worker, with batches of one.
* worker: as it is.

Everything runs on one core, with one child at a time; its worth is jobs per CPU second of worker and children together.
Ends with 1 if the worker makes less than 100 reports per second of it.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from slurm_triage.pipeline import Engine  # noqa: E402
from slurm_triage.report.write import write_files  # noqa: E402
from slurm_triage.service import build, pool, privilege  # noqa: E402
from slurm_triage.settings import Settings  # noqa: E402
from slurm_triage.slurm.record_file import load_record  # noqa: E402
from tests.service.fake_site import FakeSite  # noqa: E402

MIN_PER_CORE = 100.0
#: What a report of these logs has.
JSON_BYTES, MARKDOWN_BYTES = 14_000, 4_000
RECORDS = sorted((HERE.parent / "corpus/launcher").glob("slurm*/accounting.json"))
CASES = [(path.with_name("log.txt"), job) for path in RECORDS if (job := load_record(str(path))).is_terminal]
BATCH = pool.MIN_BATCH, pool.MAX_BATCH
USERS = ("nobody", "daemon", "bin", "games")


@dataclass(frozen=True)
class Spent:
    """Of one run, in seconds. ``worker`` and ``children``: CPU."""

    jobs: int
    wall: float
    worker: float
    children: float

    @property
    def per_core(self) -> float:
        return self.jobs / (self.worker + self.children)


def owners() -> list[int]:
    return [pwd.getpwnam(name).pw_uid for name in USERS] if os.geteuid() == 0 else [os.geteuid()]


def fill(site: FakeSite, count: int) -> None:
    """Jobs in the launcher's layout, known to accounting, each with one event."""
    uids = owners()
    now = time.time()
    for number in range(count):
        (text, job), uid, job_id = CASES[number % len(CASES)], uids[number % len(uids)], str(10_000 + number)
        outputs = site.directory / f"home-{uid}/run-{number // 200}/outputs"
        directory = outputs / f"{job_id}-JAX-llama2-70b"
        directory.mkdir(parents=True)
        log = Path(f"{directory}.log")
        shutil.copyfile(text, log)
        for path in (outputs, directory, log):
            os.chown(path, uid, uid)
        site.table[job_id] = replace(
            job, job_id=job_id, uid=uid, user=pwd.getpwuid(uid).pw_name, cluster="bench", work_dir=str(outputs.parent),
            stdout=str(log), submit=now - 900, start=now - 800, end=now - 1, source="sacct", final=True,
        )  # fmt: skip
        site.event(job_id)
    site.publish()


def measured(jobs: int, action: Callable[[], None]) -> Spent:
    """CPU and wall time of the action and its children, in a process of its own, on one core."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        before, began = os.times(), time.perf_counter()
        action()
        wall, after = time.perf_counter() - began, os.times()
        own = after.user + after.system - before.user - before.system
        children = after.children_user + after.children_system - before.children_user - before.children_system
        os.write(write, json.dumps([wall, own, children]).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    if os.waitpid(pid, 0)[1] != 0:
        raise SystemExit("the measured process failed")
    return Spent(jobs, *json.loads(text))


def floor(directory: Path, count: int) -> None:
    for number in range(count):
        uid, parent = owners()[number % len(owners())], os.getpid()
        pid = os.fork()
        if pid == 0:
            privilege.limit(60.0, 4 << 30)
            privilege.drop(uid, parent)
            folder = os.open(directory / f"home-{uid}/run-{number // 200}/outputs", os.O_RDONLY | os.O_DIRECTORY)
            write_files(folder, {f"{number}.md": b"x" * MARKDOWN_BYTES, f"{number}.json": b"x" * JSON_BYTES})
            os._exit(0)
        if os.waitpid(pid, 0)[1] != 0:
            raise SystemExit("the floor's child failed")


def one_run(base: Path, engine: Engine, count: int, way: str) -> Spent:
    directory = Path(tempfile.mkdtemp(dir=base))
    directory.chmod(0o755)
    settings = Settings(
        cluster="bench", spool=directory / "spool", ledger=directory / "ledger", state=directory / "state",
        children=1, settle_s=0.0, reconcile_s=0.0, admin_comment="off", trusted_users=("root",), reports_per_minute=10**6,
    )  # fmt: skip
    site = FakeSite(directory, settings, engine, owners()[0])
    fill(site, count)
    if way == "floor":
        return measured(count, lambda: floor(directory, count))
    pool.MIN_BATCH, pool.MAX_BATCH = (1, 1) if way == "one child per job" else BATCH

    def work() -> None:
        with build.worker(settings, site.accounting, engine) as worker:
            worker.run(lambda: False, idle_exit_s=0.0)

    spent = measured(count, work)
    records = site.all_records()
    made = sum(Path(record.report_path or "/none").exists() for record in records)
    if (len(records), made, len(site.waiting())) != (count, count, 0):
        raise SystemExit(f"{count} jobs: {len(records)} records, {made} reports, {len(site.waiting())} events left")
    return spent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path, help="where the users' directories lie")
    args = parser.parse_args()
    engine = build.preload(Settings())
    ways = ("floor", "one child per job", "worker")
    runs: dict[str, list[Spent]] = {way: [] for way in ways}
    base = Path(tempfile.mkdtemp(prefix="slurm-triage-bench-", dir=args.dir))
    base.chmod(0o755)
    try:
        for _ in range(args.rounds):
            for way in ways:
                runs[way].append(one_run(base, engine, args.jobs, way))
    finally:
        shutil.rmtree(base)
    print(f"{args.jobs} jobs, median of {args.rounds}   per core   per s wall   CPU ms: worker  children")
    best = {way: statistics.median(run.per_core for run in runs[way]) for way in ways}
    for way, spent in runs.items():
        middle = sorted(spent, key=lambda run: run.per_core)[len(spent) // 2]
        each = [seconds / args.jobs * 1e3 for seconds in (middle.worker, middle.children)]
        print(f"{way:25}{middle.per_core:17.0f}{args.jobs / middle.wall:13.0f}{each[0]:16.2f}{each[1]:10.2f}")
    print(
        f"worker: {best['worker'] / best['one child per job']:.2f} times one child per job, {best['worker'] / best['floor']:.2f} of the floor"
    )
    return 0 if best["worker"] >= MIN_PER_CORE else 1


if __name__ == "__main__":
    sys.exit(main())
