"""Measures the reading of large logs, everything side by side in one run on generated logs.

    python tests/bench/scan.py [--size-mb 1000] [--memory-mb 10000] [--runs 3] [--dir DIR]

1. MB/s of one pass with all rules (facts from a warm log, one core), against a plain copy of the page cache and against
   ``rg -c -F -f`` with the literals of the same rules, alternating, best of RUNS.
2. Peak memory for a log of --memory-mb (0 leaves it out).
3. Whole process, cold interpreter, warm 50 MB log: seconds until the report is printed, and bare Python for comparison.
4. The stages of the pipeline apart (50 MB log, in process).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))
sys.path.insert(0, str(HERE))

from make_log import make  # noqa: E402

from slurm_triage.diagnosis.diagnose import diagnose  # noqa: E402
from slurm_triage.locate import locate  # noqa: E402
from slurm_triage.logs.read import read_logs  # noqa: E402
from slurm_triage.model.job import NO_JOB  # noqa: E402
from slurm_triage.pipeline import Engine, gather, report_of  # noqa: E402
from slurm_triage.report.markdown import to_markdown  # noqa: E402
from slurm_triage.report.to_json import to_json  # noqa: E402

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


def copy_speed(path: Path) -> float:
    buffer = bytearray(8 << 20)
    start = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return path.stat().st_size / (time.perf_counter() - start)


def scan_speed(path: Path, engine: Engine) -> float:
    files = locate(str(path))
    start = time.perf_counter()
    read_logs(files, engine.ruleset, engine.matcher)
    return path.stat().st_size / (time.perf_counter() - start)


def rg_speed(path: Path, patterns: Path) -> float | None:
    if shutil.which("rg") is None:
        return None
    start = time.perf_counter()
    subprocess.run(["rg", "-j1", "-a", "-c", "-F", "-f", str(patterns), str(path)], check=False, capture_output=True)
    return path.stat().st_size / (time.perf_counter() - start)


def throughput(path: Path, engine: Engine, runs: int, directory: Path) -> None:
    patterns = directory / "literals"
    texts = literals(engine)
    patterns.write_text("\n".join(texts) + "\n")
    copy_speed(path)
    best: dict[str, float] = {}
    for _ in range(runs):
        for name, value in (
            ("copy of the page cache", copy_speed(path)),
            ("slurm-triage, all rules", scan_speed(path, engine)),
            (f"rg -c -F -f, {len(texts)} literals", rg_speed(path, patterns)),
        ):
            if value is not None:
                best[name] = max(best.get(name, 0.0), value)
    print(f"reading {path.stat().st_size / 1e6:.0f} MB, best of {runs}, {len(engine.ruleset.rules)} rules")
    for name, value in best.items():
        print(f"  {name:34} {value / 1e6:8.0f} MB/s")
    ours = best["slurm-triage, all rules"]
    for name, value in best.items():
        if name.startswith("rg"):
            print(f"  ratio to rg                        {ours / value:8.2f}")


def peak_memory(path: Path) -> None:
    """A child process reads the log; its peak resident size is the figure."""
    code = f"import sys; sys.argv=['slurm-triage','log',{str(path)!r},'--json']; from slurm_triage.cli.main import main; sys.exit(main())"
    start = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # Only this child's figure: rg maps whole files.
    _, _, usage = os.wait4(child.pid, 0)
    size = path.stat().st_size
    speed = size / 1e6 / (time.perf_counter() - start)
    print(f"peak memory for {size / 1e9:.1f} GB: {usage.ru_maxrss / 1024:.0f} MB, {speed:.0f} MB/s")


def whole_process(path: Path, runs: int) -> None:
    def best(command: list[str]) -> float:
        times = []
        for _ in range(runs):
            start = time.perf_counter()
            subprocess.run(command, check=False, capture_output=True)
            times.append(time.perf_counter() - start)
        return min(times)

    ours = best([sys.executable, "-m", "slurm_triage", "log", str(path), "--json"])
    text = best([sys.executable, "-m", "slurm_triage", "log", str(path)])
    bare = best([sys.executable, "-c", "pass"])
    print(
        f"whole process, {path.stat().st_size / 1e6:.0f} MB: {ours:.3f} s (--json), {text:.3f} s (text), bare Python {bare:.3f} s"
    )


def stages(path: Path, engine: Engine) -> None:
    def timed(name: str, step: Callable[[], object]) -> object:
        start = time.perf_counter()
        result = step()
        print(f"  {name:12} {(time.perf_counter() - start) * 1e3:8.1f} ms")
        return result

    print("stages, one process")
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
        whole_process(small, args.runs + 2)
        stages(small, engine)
        if args.memory_mb:
            huge = directory / "9-huge.log"
            make(huge, args.memory_mb << 20)
            peak_memory(huge)
    return 0


if __name__ == "__main__":
    sys.exit(main())
