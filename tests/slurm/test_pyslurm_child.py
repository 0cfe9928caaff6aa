"""The seam to pyslurm's process, with stand-ins for pyslurm: answers, silence, death and nonsense."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_triage.errors import AccountingError
from slurm_triage.slurm.pyslurm_source import CHILD, PyslurmAccounting

#: A pyslurm with the attributes that 22.5 has, and one with those of 25.11. ``{extra}`` are attributes of the job.
PYSLURM = """
__version__ = "{version}"
def slurm_api_version(): return (22, 5, 8)
class Stats: max_resident_memory = 1048576
class Step:
    id, name, state, exit_code, exit_code_signal = "batch", "batch", "CANCELLED", 0, 126
    start_time, end_time, nodelist, stats = 110, 120, "n1", Stats()
class Job:
    id, name, state, exit_code, exit_code_signal = 7, "x", "CANCELLED", 9, 0
    derived_exit_code, derived_exit_code_signal = 0, 0
    user_name, user_id, group_id, account, partition = "root", 0, 0, "a", "p"
    cancelled_by, submit_time, start_time, end_time, elapsed_time = "root", 100, 110, 120, None
    time_limit, nodelist, working_directory, submit_command = "UNLIMITED", "n[1-2]", "/w", "sbatch x"
    steps = {{"batch": Step()}}
{extra}
class db:
    class JobFilter:
        def __init__(self, **kw): db.asked = kw
    class Jobs:
        @staticmethod
        def load(f):
            if db.asked.get("ids") == [13]: raise RuntimeError("Connection refused")
            return {{7: Job()}} if 7 in db.asked.get("ids", [7]) else {{}}
"""
NEW = """    array_id, array_task_id, array_tasks_waiting, requeue_count, failed_node = 6, None, None, 0, "n2"
    def group_id(self): return 5
    gpus = {"gpu": type("G", (), {"count": 4})()}
    standard_output = "/w/x%j"
"""


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Callable[..., PyslurmAccounting]]:
    made: list[PyslurmAccounting] = []

    def make(pyslurm: str, child: str | None = None, **limits: Any) -> PyslurmAccounting:
        (tmp_path / "pyslurm.py").write_text(pyslurm)
        script = tmp_path / "child.py"
        real = f"import runpy; runpy.run_path({str(CHILD)!r}, run_name='__main__')"
        script.write_text(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{child or real}\n")
        accounting = PyslurmAccounting((sys.executable,), child=script, **limits)
        made.append(accounting)
        return accounting

    yield make
    for accounting in made:
        accounting.close()
        accounting.close()


def test_attributes_of_22_05(source: Callable[..., PyslurmAccounting]) -> None:
    accounting = source(PYSLURM.format(version="22.5.0", extra=""))
    assert (accounting.version(), accounting.pyslurm_version()) == ("22.5.8", "22.5.0")
    job = accounting.jobs(["7"])["7"]
    assert (job.state, job.cancelled_by_uid, job.exit_code, job.time_limit_s) == ("CANCELLED", 0, 9, None)
    assert (job.nodes, job.elapsed_s, job.restarts, job.gpus, job.stdout) == (("n1", "n2"), 10.0, 0, None, None)
    (step,) = job.steps
    assert (step.exit_code, step.exit_signal, step.max_rss_bytes) == (None, None, 1048576)
    assert job.final


def test_another_cluster_is_asked_for(source: Callable[..., PyslurmAccounting]) -> None:
    extra = "    cluster = property(lambda self: (db.asked.get('clusters') or ['own'])[0])"
    pyslurm = PYSLURM.format(version="25.11.2", extra=extra)
    assert source(pyslurm).jobs(["7"])["7"].cluster == "own"
    assert source(pyslurm, cluster="elsewhere").jobs(["7"])["7"].cluster == "elsewhere"


def test_attributes_of_25_11(source: Callable[..., PyslurmAccounting]) -> None:
    job = source(PYSLURM.format(version="25.11.2", extra=NEW)).jobs(["7"])["7"]
    assert (job.array_job_id, job.array_task_id) == ("6", "0")
    assert (job.gid, job.gpus, job.failed_node) == (5, 4, "n2")
    assert job.stdout == "/w/x%j", "pyslurm has expanded it already"


def test_unknown_jobs_are_missing_and_errors_have_pyslurms_words(source: Callable[..., PyslurmAccounting]) -> None:
    accounting = source(PYSLURM.format(version="22.5.0", extra=""))
    assert accounting.jobs(["8"]) == {}
    with pytest.raises(AccountingError, match="Connection refused"):
        accounting.jobs(["13"])
    assert list(accounting.jobs(["7"])) == ["7"], "the same process answers on"
    assert [job.job_id for job in accounting.recent(100, 130)] == ["7"]
    assert list(accounting.recent(500, 600)) == []


def test_messages_of_libslurm_do_not_disturb_the_answers(source: Callable[..., PyslurmAccounting]) -> None:
    noisy = 'import os; os.write(1, b"slurm: noise\\n"); print("more noise")\n'
    assert source(noisy + PYSLURM.format(version="22.5.0", extra="")).jobs(["7"])["7"].name == "x"


@pytest.mark.parametrize(
    "pyslurm, message",
    [
        ("raise SystemExit(1)", "status 1"),
        ("import os; os._exit(1)", "status 1"),
        ("import os; os.abort()", "status -6"),
        ("import nothing_of_that_name", "status 1"),
        ("import time; time.sleep(60)", "no answer in 1 s"),
    ],
)
def test_import_that_ends_or_freezes_the_interpreter(
    source: Callable[..., PyslurmAccounting], pyslurm: str, message: str
) -> None:
    accounting = source(pyslurm, start_timeout_s=1.0)
    started = time.monotonic()
    with pytest.raises(AccountingError, match=message):
        accounting.jobs(["7"])
    assert time.monotonic() - started < 5.0


HELLO = 'print(\'{"pyslurm": "1", "slurm": "1"}\', flush=True)\n'


@pytest.mark.parametrize(
    "child, message",
    [
        ("print('not json')", "not JSON"),
        ("print('[1]')", "not an object"),
        (HELLO + "input(); print('{}', flush=True)", "without rows"),
        (HELLO + "input(); print('{\"rows\": 5}', flush=True)", "without rows"),
        (HELLO + "input(); import os; os.kill(os.getpid(), 9)", "status -9"),
        (HELLO + "input(); import time; time.sleep(60)", "no answer in 1 s"),
        (HELLO + "input(); import sys; sys.stdout.write('{\"rows\"'); sys.stdout.flush(); input()", "no answer in 1 s"),
    ],
)
def test_answers_that_are_none(source: Callable[..., PyslurmAccounting], child: str, message: str) -> None:
    accounting = source("", child, answer_timeout_s=1.0)
    with pytest.raises(AccountingError, match=message):
        accounting.jobs(["7"])


def test_a_dead_process_is_replaced(source: Callable[..., PyslurmAccounting]) -> None:
    accounting = source(PYSLURM.format(version="22.5.0", extra=""))
    accounting.jobs(["7"])
    process = accounting._process
    assert process is not None
    process.kill()
    process.wait()
    assert list(accounting.jobs(["7"])) == ["7"]
    assert accounting._process is not process


def test_no_child_is_left_behind(source: Callable[..., PyslurmAccounting]) -> None:
    accounting = source(PYSLURM.format(version="22.5.0", extra=""))
    accounting.jobs(["7"])
    assert accounting._process is not None
    pid = accounting._process.pid
    accounting.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_python_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(AccountingError, match="cannot start"):
        PyslurmAccounting((str(tmp_path / "python"),)).version()
