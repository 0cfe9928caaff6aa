"""Measures the reading of large logs, everything side by side in one run on generated logs.

    python tests/bench/scan.py [--size-mb 1000] [--memory-mb 10000] [--runs 3] [--dir DIR]

1. GB/s of one pass with all rules (facts from a warm log, one core), against a plain copy of the page cache and against
   ``rg -c -F -f`` with the literals of the same rules, alternating, best of RUNS: by the clock, and by CPU seconds, which
   a machine shared with others distorts less.
2. Peak memory for a log of --memory-mb (0 leaves it out).
3. Whole process, cold interpreter, warm 50 MB log: seconds until the report is printed, and bare Python for comparison.
4. The stages of the pipeline apart (50 MB log, in process), and the searching of literals and patterns apart.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))
sys.path.insert(0, str(HERE))

from make_log import make  # noqa: E402

from slurm_triage.diagnosis.diagnose import diagnose  # noqa: E402
from slurm_triage.locate import locate  # noqa: E402
from slurm_triage.logs.read import read_logs  # noqa: E402
from slurm_triage.logs.windows import WINDOW_BYTES  # noqa: E402
from slurm_triage.model.job import NO_JOB  # noqa: E402
from slurm_triage.pipeline import Engine, gather, report_of  # noqa: E402
from slurm_triage.report.markdown import to_markdown  # noqa: E402
from slurm_triage.report.to_json import to_json  # noqa: E402
from slurm_triage.rules.matcher import Matcher  # noqa: E402

#: A literal shorter than this is no pattern that anybody would hand to a grep.
_MIN_LITERAL = 5


def literals(engine: Engine) -> list[str]:
    """The longest literal piece of every pattern of every rule."""
    pieces: set[str] = set()
    for rule in engine.ruleset.rules:
        for pattern in rule.patterns:
            found = re.split(r"\\[dDwWsSbBx].?|\[(?:\\.|[^\]])*\]|[()|*+?{}^$.]|\{[^}]*\}", pattern)
            longest = max((re.sub(r"\\(.)", r"\1", f) for f in found), key=len, default="")
            if len(longest) >= _MIN_LITERAL and "\n" not in longest:
                pieces.add(longest)
    return sorted(pieces)


@dataclass(frozen=True)
class Spent:
    """Seconds by the clock and of the processor, children included."""

    wall_s: float
    cpu_s: float


def spent(work: Callable[[], object]) -> Spent:
    start, before = time.perf_counter(), _cpu_s()
    work()
    return Spent(time.perf_counter() - start, _cpu_s() - before)


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def fastest(runs: list[Spent]) -> Spent:
    return Spent(min(run.wall_s for run in runs), min(run.cpu_s for run in runs))


def copy(path: Path) -> None:
    buffer = bytearray(8 << 20)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def throughput(path: Path, engine: Engine, runs: int, directory: Path) -> None:
    patterns = directory / "literals"
    texts = literals(engine)
    patterns.write_text("\n".join(texts) + "\n")
    files = locate(str(path))
    rg = ["rg", "-j1", "-a", "-c", "-F", "-f", str(patterns), str(path)]
    ours, name_of_rg = "slurm-triage, all rules", f"rg -c -F -f, {len(texts)} literals"
    work: dict[str, Callable[[], object]] = {
        "copy of the page cache": lambda: copy(path),
        ours: lambda: read_logs(files, engine.ruleset, engine.matcher),
    }
    if shutil.which("rg") is not None:
        work[name_of_rg] = lambda: subprocess.run(rg, check=False, capture_output=True)
    copy(path)
    all_runs: dict[str, list[Spent]] = {name: [] for name in work}
    for _ in range(runs):
        for name, step in work.items():
            all_runs[name].append(spent(step))
    best = {name: fastest(list_) for name, list_ in all_runs.items()}
    size = path.stat().st_size / 1e9
    print(f"reading {size:.2f} GB, best of {runs}, {len(engine.ruleset.rules)} rules")
    print(f"  {'':34} {'GB/s':>8} {'GB per CPU second':>20}")
    for name, took in best.items():
        print(f"  {name:34} {size / took.wall_s:8.2f} {size / took.cpu_s:20.2f}")
    if name_of_rg in best:
        wall, cpu = best[name_of_rg].wall_s / best[ours].wall_s, best[name_of_rg].cpu_s / best[ours].cpu_s
        print(f"  {'times as fast as rg':34} {wall:8.2f} {cpu:20.2f}")


def peak_memory(path: Path) -> None:
    """A child process reads the log and says what it needed. (What the system counts for a child begins with the size
    of its parent.)"""
    code = f"""
import contextlib, os, pathlib
from slurm_triage.cli.main import main
with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
    main(["log", {str(path)!r}, "--json"])
print(next(line.split()[1] for line in pathlib.Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line))
"""
    start = time.perf_counter()
    child = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    size = path.stat().st_size
    speed = size / 1e6 / (time.perf_counter() - start)
    print(f"peak memory for {size / 1e9:.1f} GB: {int(child.stdout) / 1024:.0f} MB, {speed:.0f} MB/s")


def whole_process(path: Path, runs: int, directory: Path) -> None:
    # As installed: with compiled modules on disk.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = str(directory / "pycache")

    def best(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        took = fastest(
            [spent(lambda: subprocess.run(command, check=False, capture_output=True, env=env)) for _ in range(runs)]
        )
        return f"{took.wall_s:.3f} s ({took.cpu_s:.2f} CPU)"

    ours = ("-m", "slurm_triage", "log", str(path))
    best(*ours)
    print(f"whole process, {path.stat().st_size / 1e6:.0f} MB: {best(*ours, '--json')} as JSON, {best(*ours)} as text")
    print(f"  bare Python {best('-c', 'pass')}")


def stages(path: Path, engine: Engine) -> None:
    def timed(name: str, step: Callable[[], object]) -> None:
        print(f"  {name:14} {fastest([spent(step) for _ in range(3)]).cpu_s * 1e3:8.1f} ms")

    print("stages, one process, CPU")
    timed("engine", Engine.load)
    files = locate(str(path))
    timed("locate", lambda: locate(str(path)))
    facts = read_logs(files, engine.ruleset, engine.matcher)
    timed("read", lambda: read_logs(files, engine.ruleset, engine.matcher))
    evidence = gather(NO_JOB, files, facts, facts.last, engine, None)
    timed("progress", lambda: gather(NO_JOB, files, facts, facts.last, engine, None))
    timed("diagnosis", lambda: diagnose(evidence))
    report = report_of(NO_JOB, files, facts, engine, None)
    timed("json", lambda: to_json(report))
    timed("markdown", lambda: to_markdown(report))
    data = path.read_bytes()
    pieces = [data[start : start + WINDOW_BYTES] for start in range(0, len(data), WINDOW_BYTES)]
    everywhere = Matcher.compile(engine.ruleset, literals=False)
    print("searching the bytes of the same log")
    timed("literals first", lambda: [engine.matcher.scan(piece) for piece in pieces])
    timed("patterns alone", lambda: [everywhere.scan(piece) for piece in pieces])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size-mb", type=int, default=1000)
    parser.add_argument("--memory-mb", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--dir", type=Path)
    args = parser.parse_args()
    os.chdir(HERE.parent.parent)
    with tempfile.TemporaryDirectory(dir=args.dir) as name:
        directory = Path(name)
        engine = Engine.load()
        large, small = directory / "7-large.log", directory / "8-small.log"
        make(small, 50 << 20)
        make(large, args.size_mb << 20)
        throughput(large, engine, args.runs, directory)
        large.unlink()
        whole_process(small, args.runs + 2, directory)
        stages(small, engine)
        if args.memory_mb:
            huge = directory / "9-huge.log"
            make(huge, args.memory_mb << 20)
            peak_memory(huge)
    return 0


if __name__ == "__main__":
    sys.exit(main())
