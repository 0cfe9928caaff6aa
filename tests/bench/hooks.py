"""Time of each hook next to an empty script, run by turns so that both meet the same machine.

    python tests/bench/hooks.py [RUNS]

Prints milliseconds more than the empty script (wall clock, as Slurm waits for it) and the CPU time of the hook. Ends
with 1 if a hook's p99 is more than 20 ms above the empty script's. The node's epilog is run twice: with the kernel's
messages of this machine, and with a kernel that has nothing but messages worth keeping in the part that is read. So is
jobcomp: on a spool on a local disk, and on another, where a process of its own ends it if it hangs.

On a machine that is busy otherwise, every process waits for its turn: ``chrt -r 1 python tests/bench/hooks.py`` goes
before the others, and so shows what a node shows that is idle when its job has ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
LIMIT_MS = 20.0
OUT_OF_MEMORY = "Out of memory: Killed process 4242 (python3) total-vm:1000kB, anon-rss:900kB, UID:2001 pgtables:8kB"

#: What Slurm gives the hooks; the size of a usual environment.
CONTROLLER_ENV = {
    "SLURM_JOB_ID": "7877",
    "SLURM_JOB_NAME": "JAX-llama2-70b-remat_policy_full",
    "SLURM_JOB_USER": "alice",
    "SLURM_JOB_UID": "2001",
    "SLURM_JOB_GID": "2001",
    "SLURM_JOB_PARTITION": "gpu",
    "SLURM_JOB_NODELIST": "chi[2801-2816]",
    "SLURM_JOB_WORK_DIR": "/home/alice/training",
    "SLURM_JOB_STDOUT": "/home/alice/training/outputs/%j-%x.log",
    "SLURM_JOB_EXIT_CODE": "256",
    "SLURM_JOB_EXIT_CODE2": "1:0",
    "SLURM_JOB_DERIVED_EC": "256",
    "SLURM_JOB_RESTART_COUNT": "0",
}
JOBCOMP_ENV = {"JOBID": "7877", "JOBNAME": "JAX-llama2-70b", "JOBSTATE": "FAILED", "EXITCODE": "1:0", "UID": "2001"}
CASES = {
    "prolog-slurmctld": CONTROLLER_ENV,
    "epilog-slurmctld": CONTROLLER_ENV,
    "jobcomp": JOBCOMP_ENV,
    "task-epilog": {**CONTROLLER_ENV, "SLURM_PROCID": "0"},
    "50-slurm-triage": {**CONTROLLER_ENV, "SLURMD_NODENAME": "chi2801", "SLURM_SCRIPT_CONTEXT": "epilog_slurmd"},
}
CASES["busy kernel"] = CASES["50-slurm-triage"]
CASES["guarded jobcomp"] = CASES["jobcomp"]


def install(directory: Path) -> None:
    for source in [*(CHECKOUT / "hooks").iterdir(), *(CHECKOUT / "epilog.d").iterdir()]:
        if source.is_file():
            text = source.read_text()
            # What counts where hook.conf cannot be read is this machine's own.
            for old in (
                "/etc/slurm-triage",
                "/usr/libexec/slurm-triage",
                "/run/slurm-triage",
                "/var/spool/slurm-triage",
            ):
                text = text.replace(old, str(directory))
            (directory / source.name).write_text(text)
            (directory / source.name).chmod(0o755)
    (directory / "empty").write_text("#!/bin/sh\nexit 0\n")
    (directory / "empty").chmod(0o755)
    (directory / "hook.conf").write_text(f"spool={directory}/spool\nqueue={directory}/queue\n")
    for name in ("new", "tmp"):
        (directory / "spool" / name).mkdir(parents=True)


def install_guarded(directory: Path) -> None:
    """As ``install``, on a file system that may hang."""
    install(directory)
    (directory / "guarded jobcomp").symlink_to("jobcomp")


def install_usual(directory: Path) -> None:
    install(directory)
    with open(directory / "hook.conf", "a") as conf:
        conf.write("guard=off\n")


def install_busy(directory: Path) -> None:
    """As ``install``, with a kernel of which every message counts."""
    install(directory)
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    line = f"<4>[{uptime_s:12.6f}] {OUT_OF_MEMORY}\n"
    (directory / "kernel").write_text(line * (65536 // len(line)))
    carrier = directory / "carry-events"
    carrier.write_text(carrier.read_text().replace("dmesg -S -s 65536", f"dmesg -S -F {directory}/kernel"))
    (directory / "busy kernel").symlink_to("50-slurm-triage")


def timed(path: Path, env: dict[str, str]) -> tuple[float, float]:
    """(wall, CPU) milliseconds of one run."""
    before, started = os.times(), time.perf_counter()
    subprocess.run([path], env=env, check=True, stdin=subprocess.DEVNULL)
    wall, after = time.perf_counter() - started, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return wall * 1e3, cpu * 1e3


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main(runs: int) -> int:
    status = 0
    with tempfile.TemporaryDirectory() as name:
        installers = (install_usual, install_busy, install_guarded)
        usual, busy, guarded = (Path(name) / installer.__name__ for installer in installers)
        for installer in installers:
            (Path(name) / installer.__name__).mkdir()
            installer(Path(name) / installer.__name__)
        print(f"{'hook':20}{'median':>8}{'p99':>8}{'CPU':>8}   ms more than an empty script, {runs} runs")
        for case, env in CASES.items():
            directory = next((one for one in (busy, guarded) if (one / case).is_symlink()), usual)
            empty, hook = [], []
            for _ in range(runs):
                empty.append(timed(directory / "empty", env))
                hook.append(timed(directory / case, env))
            wall = [[wall for wall, _ in rows] for rows in (empty, hook)]
            median, p99 = (quantile(wall[1], share) - quantile(wall[0], share) for share in (0.5, 0.99))
            cpu = sum(cpu for _, cpu in hook) / runs - sum(cpu for _, cpu in empty) / runs
            print(f"{case:20}{median:8.1f}{p99:8.1f}{cpu:8.1f}")
            status |= p99 > LIMIT_MS
        # The last nodes' events come after their hooks.
        until = time.monotonic() + 30.0
        while any(Path(name).glob("*/queue/*/*.*")) and time.monotonic() < until:
            time.sleep(0.1)
        ends, snapshots = 0, 0
        for path in Path(name).glob("*/spool/new/*"):
            ends += not path.name.endswith(".kernel")
            snapshots += path.name.endswith(".kernel") and path.read_text().count("kernel=[") == 100
        if ends != runs * len(CASES) or snapshots < runs:
            print(f"{ends} ends instead of {runs * len(CASES)}, {snapshots} snapshots of {runs}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 500))
