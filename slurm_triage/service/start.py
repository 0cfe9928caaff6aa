"""Starting a worker where none runs: by whoever finds that out."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys


def start_worker(config: str | None = None) -> int:
    """Start a worker that ends itself when it is idle; returns its pid. If one is at work already, the new one finds
    its lock held and goes away in silence.

    It gets a session of its own and none of our descriptors, so it survives the hook or shell that started it. As under
    our units, it takes the processor time that others leave.
    """
    argv = [sys.executable, "-m", "slurm_triage", "worker", "--on-demand"]
    if config is not None:
        argv += ["--config", config]
    process = subprocess.Popen(
        argv,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        close_fds=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    with contextlib.suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, process.pid, 19)
        os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
    return process.pid
