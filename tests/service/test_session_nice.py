"""The worker and its children take what others leave, also where the kernel divides time among sessions first."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_triage.session_nice import SessionNice

pytestmark = pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="this kernel has no autogroups")

#: Does as the worker does: prints its autogroup before a storm, in it, that of a child of the pool then, and afterwards.
PROGRAM = """
import os
from pathlib import Path
from slurm_triage.model.job import Job
from slurm_triage.service.pool import Pool
from slurm_triage.service.task import Task
from slurm_triage.session_nice import SessionNice

def group():
    return Path("/proc/self/autogroup").read_text().strip()

def until(nice, much_to_do):
    for _ in range(10_000):
        nice.step_back(much_to_do)

def looks(task):
    return f"{group()} leads {os.getsid(0) == os.getpid()}".encode()

nice = SessionNice()
print(group(), flush=True)
until(nice, True)
print(group(), flush=True)
pool = Pool(looks, size=1, wall_s=10.0, memory_bytes=1 << 30)
pool.start([Task(Job(job_id="1", uid=os.getuid() or 65534))])
finished = []
while not finished:
    finished = pool.collect(1.0)
print(finished[0].answer.decode() if finished[0].answer else finished[0].failure, flush=True)
until(nice, False)
print(group(), flush=True)
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


def test_while_there_is_much_to_do_the_session_and_children_step_back() -> None:
    before, storm, child, after = run(19, session=True)
    assert before.endswith(" nice 0")
    assert storm == before.replace(" nice 0", " nice 19")
    assert child == f"{storm} leads False"
    assert after == before


def test_a_worker_that_is_not_in_the_background_does_not() -> None:
    before, storm, child, after = run(0, session=True)
    assert before == storm == after
    assert before.endswith(" nice 0")
    assert child == f"{storm} leads False"


def test_the_session_of_a_shell_is_left_alone() -> None:
    own = Path("/proc/self/autogroup").read_text()
    before, storm, _, after = run(19, session=False)
    assert before == storm == after == own.strip()
    assert Path("/proc/self/autogroup").read_text() == own


def test_many_at_once_all_step_back() -> None:
    """Under our unit a process has no CAP_SYS_ADMIN, and the kernel then takes one change in a tenth of a second."""
    drop = ["setpriv", "--bounding-set=-sys_admin"] if os.geteuid() == 0 else []
    program = PROGRAM.replace("range(10_000)", "range(40)").replace("    nice.step", "    time.sleep(0.03); nice.step")
    started = [
        subprocess.Popen(
            [*drop, sys.executable, "-c", "import time" + program],
            preexec_fn=lambda: os.nice(19),
            start_new_session=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    said = [process.communicate(timeout=60.0)[0].splitlines() for process in started]
    assert [lines[1].endswith(" nice 19") for lines in said] == [True] * 4, said
    assert [lines[3].endswith(" nice 0") for lines in said] == [True] * 4, said


def test_a_kernel_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurm_triage.session_nice.os.getsid", lambda _: os.getpid())
    monkeypatch.setattr("slurm_triage.session_nice.os.getpriority", lambda *_: 19)
    nice = SessionNice()
    nice._path = Path("/no/such/autogroup")
    nice.step_back(True)
    assert nice._path is None
    nice.step_back(True)


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
    assert said.decode().splitlines()[2].endswith(" leads True")
