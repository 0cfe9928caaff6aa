"""The test cluster keeps its own promises."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.config import listen_on_loopback
from tests.cluster.processes import Processes, start_time


def test_up_twice_changes_nothing(cluster: Cluster) -> None:
    before = {name: cluster.processes.pid(name) for name in cluster.processes.names()}
    assert None not in before.values()
    started = time.monotonic()
    cluster.up()
    assert time.monotonic() - started < 20.0
    assert {name: cluster.processes.pid(name) for name in cluster.processes.names()} == before


def test_everything_listens_on_the_loopback_only(cluster: Cluster) -> None:
    if not listen_on_loopback(cluster.layout, socket.gethostname()):
        pytest.skip("this host's own name is not on the loopback interface")
    first = cluster.layout.base_port
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = [row[1].split(":") for row in rows if row[3] == "0A"]
    ours = {int(port, 16): address for address, port in listening if first <= int(port, 16) < first + 100}
    assert len(ours) == len(cluster.layout.nodes) + 3
    assert {address[-2:] for address in ours.values()} == {"7F"}, "127.x.y.z, lowest byte last"


def test_nodes_are_separate(cluster: Cluster) -> None:
    assert len(cluster.layout.nodes) >= 4
    for node in cluster.layout.nodes:
        assert cluster.on_node(node, "hostname").stdout == f"{node}\n"
        assert "slurmctld" not in cluster.on_node(node, "ps", "ax").stdout


def test_a_crashed_node_comes_back(cluster: Cluster) -> None:
    node = cluster.layout.nodes[-1]
    pid = cluster.processes.pid(f"node-{node}")
    cluster.crash(node)
    assert cluster.processes.pid(f"node-{node}") is None
    assert pid is not None
    assert start_time(pid) is None
    cluster.restore(node)
    job_id = cluster.submit("bob", "hostname", "-w", node, "-o", "/dev/null")
    assert cluster.wait(job_id) == {job_id: "COMPLETED"}


def test_jobs_belong_to_their_users(cluster: Cluster) -> None:
    directory = cluster.workdir("alice", "who")
    job_id = cluster.submit("alice", "id -un; pwd", "-o", "out", cwd=directory)
    cluster.wait(job_id)
    out = cluster.path(directory / "out")
    assert out.read_text() == f"alice\n{directory}\n"
    assert out.stat().st_uid == cluster.uid("alice")


# ---- processes ----------------------------------------------------------------------------------------------------


def test_only_the_very_process_that_was_started_is_ended(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    pid = processes.spawn("sleeper", ["sleep", "60"], dict(os.environ), tmp_path / "log")
    assert processes.pid("sleeper") == pid
    # The same pid with another start time is another process.
    (tmp_path / "sleeper.pid").write_text(f"{pid} 1\n")
    assert processes.pid("sleeper") is None
    processes.stop(["sleeper"])
    assert start_time(pid) is not None
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_process_that_will_not_end_is_killed(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    argv = ["sh", "-c", "trap '' TERM; touch ready; while :; do sleep 1; done"]
    pid = processes.spawn("stubborn", ["env", f"--chdir={tmp_path}", *argv], dict(os.environ), tmp_path / "log")
    deadline = time.monotonic() + 10.0
    while not (tmp_path / "ready").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    processes.stop(["stubborn"], patience_s=0.3)
    assert start_time(pid) is None
    assert processes.names() == []


def test_stopping_what_does_not_run_is_no_error(tmp_path: Path) -> None:
    Processes(tmp_path).stop(["nobody"])


@pytest.mark.parametrize("text", ["", "12", "1 2 3", "x\n"])
def test_a_damaged_pid_file_names_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.pid").write_text(text)
    assert Processes(tmp_path).pid("x") is None


def test_a_daemon_holds_no_lock_of_its_starter(tmp_path: Path) -> None:
    with open(tmp_path / "lock", "w") as lock:
        os.set_inheritable(lock.fileno(), True)
        processes = Processes(tmp_path)
        pid = processes.spawn("sleeper", ["sleep", "60"], dict(os.environ), tmp_path / "log")
        opened = {os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}  # noqa: PTH115, PTH208
    processes.stop(["sleeper"])
    assert str(tmp_path / "lock") not in opened
    assert str(tmp_path / "log") in opened
