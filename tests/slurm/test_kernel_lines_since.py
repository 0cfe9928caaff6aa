"""Since when the kernel's lines are sent with a job's end, where Slurm does not tell when the job began: none that lies
within the job is left out, and few of those that lie before it are sent again with every job."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.slurm.hook_files import HOSTILE, Hooks

#: Seconds of uptime at which the fake kernel has killed something.
KILLS = (1_000, 50_000, 180_000, 199_000, 299_000, 299_990)
DAYS = 86_400
NOW = 300_000
#: A batch job of one node.
BATCH = {
    "SLURM_JOB_NAME": HOSTILE,
    "SLURM_JOB_STDIN": "/dev/null",
    "SLURM_JOB_NODELIST": "chi2801",
    "SLURM_JOB_NUM_NODES": "1",
    "SLURMD_NODENAME": "chi2801",
}
#: One of two nodes, at the second.
SECOND = {**BATCH, "SLURM_JOB_NODELIST": "chi28[00-01]", "SLURM_JOB_NUM_NODES": "2"}
#: The same with a list from which the epilog does not find out that it is not the first.
ANY = {**SECOND, "SLURM_JOB_NODELIST": "chi28[00-01]x"}
#: An allocation: nothing of it need run on the node.
SALLOC = {key: value for key, value in BATCH.items() if key != "SLURM_JOB_STDIN"}


@dataclass
class Node:
    """A node with a clock, processes and a kernel of its own."""

    hooks: Hooks

    def __post_init__(self) -> None:
        self.proc = self.hooks.directory / "proc"
        self.queue = self.hooks.directory / "queue/chi2801"
        self.seen = self.queue / "seen"
        self.hooks.replace("record-event", "/proc/uptime", f"{self.hooks.directory}/uptime")
        self.process(10, "slurmd", 20, "/usr/sbin/slurmd\0-D\0")
        self.kernel()
        self.jobs = 0

    def kernel(self, *kills: int) -> None:
        self.hooks.kernel_says("".join(f"[{at:7d}.000123] Out of memory: Killed {at}\n" for at in kills or KILLS))

    def process(self, pid: int, name: str, started: int, line: str) -> None:
        """As it is below /proc; ``started`` is in seconds of uptime."""
        (directory := self.proc / str(pid)).mkdir(parents=True)
        (directory / "comm").write_text(name + "\n")
        (directory / "cmdline").write_text(line)
        fields = ["S", *["1"] * 18, str(started * 100), *["2"] * 30]
        (directory / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")

    def step(self, pid: int, started: int, title: str = "77.batch") -> None:
        self.process(pid, "slurmstepd", started, f"slurmstepd: [{title}]\0\0\0")

    def ends(self, pid: int) -> None:
        shutil.rmtree(self.proc / str(pid))

    def clock(self, uptime: float) -> None:
        (self.hooks.directory / "uptime").write_text(f"{uptime:.2f} 1.00\n")

    def job(self, at: float, env: Mapping[str, str] = BATCH) -> list[int]:
        """A job that ends then; when the kernel lines were written that are sent with its end."""
        self.clock(at)
        self.jobs += 1
        job_id = str(self.jobs)
        self.hooks.run("50-slurm-triage", {**env, "SLURM_JOB_ID": job_id})
        said = [event.kernel for event in self.hooks.carried() if event.kind == "node" and event.job_id == job_id]
        return [int(message.text.split()[-1]) for messages in said for message in messages]

    def jobs_until(self, end: int, start: int, env: Mapping[str, str] = BATCH, every: int = 100) -> None:
        """Others that end every so often, without any line of the kernel: that those are looked at as well counts."""
        self.hooks.kernel_says("")
        for at in range(start, end, every):
            self.job(at, env)
        self.kernel()


@pytest.fixture
def node(hooks: Hooks) -> Node:
    return Node(hooks)


def within(days: float, at: int = NOW) -> list[int]:
    return [kill for kill in KILLS if kill >= at - days * DAYS]


TWO_DAYS = within(2)


def test_without_a_history_two_days(node: Node) -> None:
    assert node.job(NOW) == TWO_DAYS == [180_000, 199_000, 299_000, 299_990]
    assert node.job(NOW + 3_590) == [180_000, 199_000, 299_000, 299_990], "an hour is not over"


def test_on_a_node_that_was_idle_only_what_is_young(node: Node) -> None:
    """Nothing ran here 4000 seconds ago, so no job is older; ten minutes are left to its prolog."""
    node.job(NOW - 4_000)
    assert node.job(NOW) == [299_000, 299_990]
    assert node.job(NOW + 3_700) == [299_990], "since 600 seconds before the job before"
    assert node.job(NOW + 7_500) == [], "and then there is no event for them"
    assert len(list((node.hooks.directory / "spool/new").glob("*.kernel"))) == 3


def test_a_job_that_was_there_for_days_keeps_its_lines(node: Node) -> None:
    """Whatever has ended meanwhile, and also those that are older than two days."""
    node.step(11, 40_000)
    node.step(12, 199_500, "78.0")
    node.jobs_until(NOW, NOW - 4_500)
    assert node.job(NOW) == [50_000, 180_000, 199_000, 299_000, 299_990]
    node.ends(11)
    assert node.job(NOW + 3_500) == [50_000, 180_000, 199_000, 299_000, 299_990], "its event may still come"
    assert node.job(NOW + 8_000) == [199_000, 299_000, 299_990], "the other one is there"


@pytest.mark.parametrize("late_s", [0, 300, 2000])
def test_what_comes_before_our_epilog_may_take_long(node: Node, late_s: int) -> None:
    """Its slurmstepd is dead since then, and others end every few seconds."""
    node.step(11, 198_000)
    node.jobs_until(NOW - late_s, NOW - late_s - 4_500, every=150)
    node.ends(11)
    node.jobs_until(NOW, NOW - late_s, every=150)
    assert node.job(NOW) == [199_000, 299_000, 299_990]


def test_a_long_prolog(node: Node) -> None:
    """The job has begun, its slurmstepd has not, when somebody looks."""
    node.kernel(NOW - 4_500, NOW - 3_900)
    node.job(NOW - 4_000)
    assert node.job(NOW) == [NOW - 4_500, NOW - 3_900]


def test_an_event_that_waited_for_the_spool(node: Node) -> None:
    """What was seen after it had been queued says nothing of its job's start."""
    node.step(11, 198_000)
    node.job(NOW - 20_000)
    node.ends(11)
    node.jobs_until(NOW, NOW - 9_000, every=500)
    (node.queue / f"{NOW - 10_000}.55.chi2801.epilog.4711.1.0").write_text(
        "slurm-triage-event=1\nkind=epilog\nhost=chi2801\nSLURM_JOB_ID=4711\nSLURM_JOB_NUM_NODES=1\n"
        "SLURM_JOB_STDOUT=x\nend=1\n"
    )
    assert node.job(NOW) == [299_000, 299_990]
    (late,) = [event for event in node.hooks.events() if event.kind == "node" and event.job_id == "4711"]
    assert [int(message.text.split()[-1]) for message in late.kernel] == TWO_DAYS


@pytest.mark.parametrize("env", [SALLOC, SECOND, ANY], ids=["salloc", "second node", "any node"])
def test_a_job_that_may_have_no_step_for_hours(node: Node, env: Mapping[str, str]) -> None:
    """Unless each job has one for as long as it is there, as with PrologFlags=Contain."""
    node.step(11, NOW - 4_010, "77.0")
    node.job(NOW - 4_000)
    assert node.job(NOW, env) == TWO_DAYS
    assert node.job(NOW) == [299_000, 299_990]
    node.step(12, NOW - 4_010, "77.extern")
    node.job(NOW + 200)
    assert node.job(NOW + 400, env) == [299_000, 299_990]
    node.ends(11)
    node.ends(12)
    node.job(NOW + 600)
    assert node.job(NOW + 800, env) == [299_000, 299_990], "an empty node tells nothing else"
    node.step(13, NOW + 900, "78.0")
    assert node.job(NOW + 1_000, env) == [180_000, 199_000, 299_000, 299_990], "they have it no more"


def test_a_batch_job_may_be_known_by_its_output(node: Node) -> None:
    node.job(NOW - 4_000)
    assert node.job(NOW, {**SALLOC, "SLURM_JOB_STDOUT": "%j.out"}) == [299_000, 299_990]


@pytest.mark.skipif(os.geteuid() != 0, reason="processes of others need root")
def test_a_users_process_does_not_tell_what_jobs_have(node: Node) -> None:
    node.step(11, NOW - 4_010, "77.extern")
    for path in (node.proc / "11").iterdir():
        os.chown(path, 2001, 2001)
    node.job(NOW - 4_000)
    assert node.job(NOW, SALLOC) == TWO_DAYS


def test_the_slurmstepd_that_is_no_jobs(node: Node) -> None:
    node.process(11, "slurmstepd", 30, "/usr/sbin/slurmstepd\0infinity\0")
    node.job(NOW - 4_000)
    assert node.job(NOW) == [299_000, 299_990]


def test_who_sees_no_slurmd_knows_nothing(node: Node) -> None:
    """Another pid namespace, or no /proc: no slurmstepd is to be seen, and some may be there."""
    node.ends(10)
    node.process(12, "slurmdbd", 20, "slurmdbd\0")
    node.process(13, "not slurmd", 20, "slurmd\0")
    node.job(NOW - 4_000)
    assert not node.seen.exists()
    assert node.job(NOW) == TWO_DAYS
    node.step(11, 198_000)
    node.job(NOW + 200)
    assert node.job(NOW + 4_200) == [199_000, 299_000, 299_990], "slurmd may be away for a while"


@pytest.mark.parametrize("started", [NOW + 1_000, -5, 10**14], ids=["ahead", "negative", "long"])
def test_starts_by_another_clock(node: Node, started: int) -> None:
    """/proc/uptime of a container counts from its own start."""
    node.step(11, started)
    node.job(NOW - 4_000)
    assert not node.seen.exists()
    assert node.job(NOW) == TWO_DAYS


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "\n\n\n",
        "{boot}",
        "{boot} no\n295000\n",
        "{boot} no\n0295000 0295000\n",
        "{boot} no\n295000 -1\n",
        "{boot} no\n295000 295000 x\n",
        "{boot} no\n295000 296000\n",
        "{boot} no\n999999 999999\n",
        "{boot} no\n" + "9" * 40 + " 1\n",
        "{boot} no\n$(touch pwned) `touch pwned`\n*\n",
        "{boot} no\n08 09\n",
        "00000000-0000-0000-0000-000000000000 no\n295000 295000\n",
        "x" * 100_000,
        "\xff\x00\\" * 500,
    ],
)
def test_a_damaged_note(node: Node, damaged: str) -> None:
    """Nothing of it counts, and the next one is whole."""
    node.queue.mkdir(parents=True)
    node.seen.write_bytes(damaged.replace("{boot}", boot_id()).encode("latin-1"))
    assert node.job(NOW) == TWO_DAYS
    assert node.seen.read_text() == f"{boot_id()} no\n{NOW} {NOW}\n"


def test_a_note_that_is_cut_off_leaves_out_nothing(node: Node) -> None:
    """Whoever writes it may be ended in between."""
    node.step(11, 198_000)
    node.step(12, 199_000, "78.extern")
    node.jobs_until(NOW, NOW - 4_500, every=1_000)
    whole = node.seen.read_text()
    assert len(whole.splitlines()) == 6
    for length in range(len(whole)):
        node.seen.write_text(whole[:length])
        got = node.job(NOW, SALLOC)
        assert got[-3:] == [199_000, 299_000, 299_990], whole[:length]


def test_a_directory_in_place_of_the_note(node: Node) -> None:
    (node.seen / "x").mkdir(parents=True)
    assert node.job(NOW) == TWO_DAYS


def test_the_note_does_not_grow(node: Node) -> None:
    """With a job each ten seconds there is a look each two minutes, and of old ones the newest."""
    node.hooks.replace("carry-events", "$(grep -s -l -x", f"$(echo >>{node.hooks.directory}/looks; grep -s -l -x")
    node.jobs_until(NOW + 200, NOW - 6_000, every=40)
    looks = len((node.hooks.directory / "looks").read_text())
    assert looks == 52
    lines = node.seen.read_text().splitlines()
    runs = [int(line.split()[0]) for line in lines[1:]]
    assert len(runs) == 36
    assert runs == sorted(runs, reverse=True)
    assert runs[-1] <= NOW + 200 - 4_200 < runs[-2] + 120


def test_a_clock_that_goes_back_does_not_count(node: Node) -> None:
    """A restored virtual machine: what was noted later is not true yet."""
    node.job(NOW + 50_000)
    assert node.job(NOW) == TWO_DAYS
    assert [line.split()[0] for line in node.seen.read_text().splitlines()[1:]] == [str(NOW)]


def test_where_slurm_tells_the_start_that_counts(node: Node) -> None:
    node.job(NOW - 4_000)
    started = str(int(time.time()) - (NOW - 199_500))
    assert node.job(NOW, {**BATCH, "SLURM_JOB_START_TIME": started}) == [299_000, 299_990]
    started = str(int(time.time()) - (NOW - 170_000))
    assert node.job(NOW, {**BATCH, "SLURM_JOB_START_TIME": started}) == [180_000, 199_000, 299_000, 299_990]


def test_without_kernel_messages_nothing_is_looked_for(node: Node) -> None:
    node.hooks.configure("snapshot=off")
    node.job(NOW)
    assert not node.seen.exists()


def test_a_process_that_ends_while_it_is_looked_at(node: Node) -> None:
    node.step(11, 198_000)
    (node.proc / "11/stat").unlink()
    node.job(NOW - 4_000)
    assert node.job(NOW) == [299_000, 299_990]


# ---- a node without cmp ---------------------------------------------------------------------------------------------


def test_what_has_arrived_is_known_without_cmp(hooks: Hooks, tmp_path: Path) -> None:
    """Minimal images have cp, and not cmp. What is in the way of one event must not make the others come for ever."""
    queue, new = hooks.directory / "queue/chi2801", hooks.directory / "spool/new"
    queue.mkdir(parents=True)
    names = [f"1.{job}.chi2801.epilog.{job}.1.0" for job in (1, 2, 3)]
    for job, name in enumerate(names, 1):
        (queue / name).write_text(f"slurm-triage-event=1\nkind=epilog\nhost=chi2801\nSLURM_JOB_ID={job}\nend=1\n")
    (new / names[1]).mkdir()
    for program in ("cat", "cp", "date", "flock", "grep", "rm", "sha256sum", "tr"):
        (tmp_path / program).symlink_to(str(shutil.which(program)))
    paths = (hooks.shell, hooks.directory / "carry-events", "0", queue, hooks.directory / "spool", "on")
    argv = [str(path) for path in paths]
    subprocess.run(argv, check=False, capture_output=True, env={"PATH": str(tmp_path), "LC_ALL": "C"})
    (new / names[1]).rmdir()
    assert sorted(event.job_id for event in hooks.events()) == ["1", "3"]
    assert [path.name for path in queue.glob("*.*")] == [names[1]]
    subprocess.run(argv, check=False, capture_output=True, env={"PATH": str(tmp_path), "LC_ALL": "C"})
    assert sorted(event.job_id for event in hooks.events()) == ["1", "2", "3"]
    assert list(queue.glob("*.*")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="files of others need root")
@pytest.mark.parametrize("change", [b"\0", b"\n", b" "])
def test_a_forgery_is_not_taken_for_the_event(hooks: Hooks, change: bytes) -> None:
    """Also one that a shell would read as the same."""
    queue, new = hooks.directory / "queue/chi2801", hooks.directory / "spool/new"
    queue.mkdir(parents=True)
    new.chmod(0o1733)
    event, forged = (directory / "1.00.chi2801.epilog.1.1.0" for directory in (queue, new))
    event.write_text("slurm-triage-event=1\nkind=epilog\nhost=chi2801\nSLURM_JOB_ID=1\nend=1\n")
    forged.write_bytes(event.read_bytes() + change)
    for path, uid in ((queue, 65534), (event, 65534), (forged, 2001)):
        os.chown(path, uid, uid)
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    paths = (str(path) for path in (hooks.shell, hooks.directory / "carry-events"))
    subprocess.run([*nobody, *paths, "0", str(queue), str(hooks.directory / "spool"), "on"], check=False)
    assert event.exists()
