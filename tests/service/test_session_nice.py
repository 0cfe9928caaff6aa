"""The worker and its children take what others leave, also where the kernel divides time among sessions first."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="this kernel has no autogroups")

#: Does as the worker does: prints its own autogroup and that of a child of the pool.
PROGRAM = """
import os, time
from pathlib import Path
from slurm_triage.model.job import Job
from slurm_triage.service.pool import Pool
from slurm_triage.service.task import Task
from slurm_triage.session_nice import share_as_nice

def looks(task):
    return f"{Path('/proc/self/autogroup').read_text().strip()} leads {os.getsid(0) == os.getpid()}".encode()

share_as_nice()
print(Path("/proc/self/autogroup").read_text().strip(), flush=True)
pool = Pool(looks, size=1, wall_s=10.0, memory_bytes=1 << 30)
pool.start([Task(Job(job_id="1", uid=os.getuid() or 65534))])
finished = []
while not finished:
    finished = pool.collect(1.0)
print(finished[0].answer.decode() if finished[0].answer else finished[0].failure, flush=True)
"""


def run(nice: int, *, session: bool) -> list[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        preexec_fn=lambda: os.nice(nice),
        start_new_session=session,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()


def test_a_session_of_our_own_gets_our_nice_value_and_children_are_in_it() -> None:
    own, child = run(19, session=True)
    assert own.endswith(" nice 19")
    assert child == f"{own} leads False"


def test_many_that_begin_at_once_all_get_it() -> None:
    """Under our unit a process has no CAP_SYS_ADMIN, and the kernel then takes one such change in a tenth of a second."""
    drop = ["setpriv", "--bounding-set=-sys_admin"] if os.geteuid() == 0 else []
    started = [
        subprocess.Popen(
            [*drop, sys.executable, "-c", PROGRAM],
            preexec_fn=lambda: os.nice(19),
            start_new_session=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    said = [process.communicate(timeout=60.0)[0].splitlines() for process in started]
    assert all(own.endswith(" nice 19") for own, _ in said), said


def test_a_worker_that_is_not_in_the_background_asks_for_nothing() -> None:
    own, child = run(0, session=True)
    assert own.endswith(" nice 0")
    assert child == f"{own} leads False"


def test_the_session_of_a_shell_is_left_alone() -> None:
    before = Path("/proc/self/autogroup").read_text()
    own = run(19, session=False)[0]
    assert own == before.strip()
    assert Path("/proc/self/autogroup").read_text() == before


def test_where_there_is_a_terminal_children_cannot_reach_it() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", PROGRAM])
    said = b""
    try:
        while data := os.read(terminal, 4096):
            said += data
    except OSError:
        pass  # the other side of the terminal is closed: EIO
    finally:
        os.close(terminal)
    assert os.waitpid(pid, 0)[1] == 0, said
    assert said.decode().splitlines()[1].endswith(" leads True")
