"""Records the logs of ordinary, healthy jobs by running them.

    python -m tests.healthy.make [NAME ...] [--python PATH] [--missing] [--list]

Each script in ``jobs/`` runs in a directory of its own, as a batch script would: both streams in one file. A job whose
exit status is not 0 is not healthy and is refused. Private paths, hosts and addresses are replaced. What this machine
lacks (compilers, MPI, R, torch, jax, ray ...) is skipped and said; the logs are kept in the repository, so that the tests
need none of it. The libraries for ``--python`` are: torch numpy scipy jax flax orbax-checkpoint ray lightning
transformers accelerate keras scikit-learn pandas dask pytest pytest-xdist; the commands are Debian's gfortran,
openmpi-bin, libopenmpi-dev and r-base-core.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.healthy.jobs import HERE, LOGS, MANIFEST, PROGRAMS, OrdinaryJob, ordinary_jobs, recorded
from tests.healthy.scrub import scrub

_TIME_LIMIT_S = 400
#: Compressed; the longest log worth keeping for what it teaches.
_MAX_LOG_BYTES = 80_000
_MODULES = {"python": "sys", "orbax": "orbax.checkpoint"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="jobs to record (default: all)")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has the libraries")
    parser.add_argument("--missing", action="store_true", help="only those without a recorded log")
    parser.add_argument("--list", action="store_true", help="show the jobs and what they need")
    args = parser.parse_args()
    jobs = [j for j in ordinary_jobs() if not args.names or j.name in args.names or j.script.stem in args.names]
    if args.missing:
        jobs = [j for j in jobs if not j.log.exists()]
    if args.list:
        for job in jobs:
            print(f"{job.name:32} {' '.join(job.needs)}")
        return 0
    failed = False
    for job in jobs:
        lacking = [n for n in job.needs if not _available(n, args.python)]
        if lacking:
            print(f"{job.name}: skipped, needs {' '.join(lacking)}")
            continue
        failed = not _record(job, args.python) or failed
    return 1 if failed else 0


@functools.cache
def _available(name: str, python: str) -> bool:
    if shutil.which(name):
        return True
    module = _MODULES.get(name, name)
    environment = {**os.environ, "KERAS_BACKEND": "torch"}
    test = [python, "-c", f"import {module}"]
    return subprocess.run(test, env=environment, capture_output=True, check=False).returncode == 0


def _record(job: OrdinaryJob, python: str) -> bool:
    with tempfile.TemporaryDirectory(prefix="healthy-") as scratch:
        work, home = Path(scratch, "job"), Path(scratch, "home")
        work.mkdir()
        home.mkdir()
        command = ["bash", "-e", str(job.script), *([job.argument] if job.argument is not None else [])]
        begin = time.monotonic()
        output = Path(scratch, "output")
        with output.open("wb") as stream, subprocess.Popen(
            command, cwd=work, env=_environment(python, home), stdin=subprocess.DEVNULL, stdout=stream,
            stderr=subprocess.STDOUT, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                status: int | str = process.wait(_TIME_LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                status = f"none within {_TIME_LIMIT_S} s"
        elapsed_s = time.monotonic() - begin
        shown = {job.script: "/var/spool/slurmd/job04711/slurm_script", **_shown(python, work, home)}
        text = scrub(output.read_bytes(), shown)
    if status != 0:
        print(f"{job.name}: exit status {status}, refused:\n{text[-2000:].decode(errors='replace')}")
        return False
    packed = gzip.compress(text, 9, mtime=0)
    if len(packed) > _MAX_LOG_BYTES:
        print(f"{job.name}: {len(packed)} compressed bytes, refused")
        return False
    LOGS.mkdir(exist_ok=True)
    job.log.write_bytes(packed)
    known = recorded() if MANIFEST.exists() else {}
    known[job.name] = {"elapsed_s": round(elapsed_s, 1)}
    MANIFEST.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
    print(f"{job.name}: {len(text)} bytes, {elapsed_s:.1f} s")
    return True


def _environment(python: str, home: Path) -> dict[str, str]:
    libraries = {k: v for k, v in os.environ.items() if k.startswith(("OPENBLAS_", "CARGO_", "RUSTUP_"))}
    cargo = {"CARGO_HOME": str(Path.home() / ".cargo"), "RUSTUP_HOME": str(Path.home() / ".rustup")}
    return {
        **cargo,
        **libraries,
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "USER": "user",
        "LANG": "C.UTF-8",
        "PY": python,
        "PYBIN": str(Path(python).parent),
        "PROGRAMS": str(PROGRAMS),
        "PYTHONUNBUFFERED": "1",
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_NAME": "ordinary",
        "SLURM_JOB_NODELIST": "node01",
        "SLURM_NTASKS": "1",
    }


def _shown(python: str, work: Path, home: Path) -> Mapping[str | Path, str]:
    prefix = Path(python).parent.parent
    return {
        work: "/scratch/job",
        home: "/home/user",
        work.parent: "/scratch",
        prefix: "/opt/env",
        PROGRAMS: "/home/user/programs",
        HERE.parent.parent: "/home/user/project",
    }


if __name__ == "__main__":
    sys.exit(main())
