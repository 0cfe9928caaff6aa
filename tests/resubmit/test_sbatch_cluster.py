"""The printed line, run by a real bash and judged by a real sbatch, for jobs that a real Slurm has run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import time
from pathlib import Path

import pytest

from slurm_triage.ledger.append import open_writer
from slurm_triage.model.diagnosis import Resubmit
from slurm_triage.model.job import NO_JOB
from slurm_triage.model.nodelist import expand
from slurm_triage.resubmit.rebuild import rebuild
from slurm_triage.slurm.topology import parse
from tests.cluster.cluster import Cluster
from tests.cluster.layout import CLUSTER_NAME
from tests.ledger.samples import record
from tests.resubmit.test_rebuild import NO_ATTEMPT
from tests.service.launcher_jobs import JOBS

ALICE = "alice"
SUBMIT = Path(__file__).with_name("submit.sh")
_WOULD_START = re.compile(r"Job \d+ to start at \S+ using \d+ processors on nodes (\S+) in partition")


class Desk:
    """Alice's directory, and a ledger that knows two nodes as broken: node01 surely, node02 in the past."""

    def __init__(self, cluster: Cluster, ledger: Path) -> None:
        self.cluster = cluster
        self.ledger = ledger
        self.directory = cluster.workdir(ALICE, "resubmit")
        self.outside = cluster.path(self.directory)
        for name in ("outputs",):
            (self.outside / name).mkdir()
        shutil.copy(SUBMIT, self.outside / "submit.sh")
        (self.outside / "_job.sbatch").write_text(JOBS["exception"].script)
        (self.outside / "train.sh").write_text("#!/bin/sh\necho started\nexit 3\n")
        for path in self.outside.rglob("*"):
            os.chown(path, cluster.uid(ALICE), cluster.uid(ALICE))

    def bash(self, line: str, **env: str) -> str:
        """Both streams of what a shell of alice's says. Raises ClusterError if the line fails."""
        done = self.cluster.run(
            ["bash", "-c", line], user=ALICE, cwd=self.directory, env={"PATH": self.cluster.env["PATH"], **env}
        )
        return done.stdout + done.stderr

    def resubmit(self, job: str, *, code: int = 0) -> str:
        done = self.cluster.run(
            [sys.executable, "-m", "slurm_triage", "resubmit", job],
            user=ALICE,
            cwd=self.directory,
            env={"SLURM_TRIAGE_LEDGER": str(self.ledger), "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
            timeout_s=120.0,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    def accepted(self, line: str) -> set[str]:
        """Nodes on which sbatch would start the job of that line."""
        said = self.bash(f'sbatch() {{ command sbatch --test-only "$@"; }}; {line}', TEST_ONLY="1")
        match = _WOULD_START.search(said)
        assert match, said
        return set(expand(match[1]))


@pytest.fixture(scope="module")
def desk(host_cluster: Cluster) -> Desk:
    ledger = host_cluster.path(host_cluster.workdir(ALICE, "ledger"))
    end = time.time()
    common = {"cluster": CLUSTER_NAME, "node_count": 2, "cls": "gpu-hw-fault"}
    rows = [
        record(1, nodes="node[01-02]", end=end - 3600, node_evidence=(("node01", "fault"),), **common),
        record(2, nodes="node[02-03]", end=end - 20 * 86400, node_evidence=(("node02", "fault"),), **common),
    ]
    with open_writer(ledger, CLUSTER_NAME) as writer:
        writer.append(rows)
    for path in (ledger, *ledger.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return Desk(host_cluster, ledger)


def last_line(text: str) -> str:
    return text.splitlines()[-1]


def test_a_plain_job(desk: Desk) -> None:
    job = desk.bash(
        "sbatch --parsable -N 2 -w node01,node02 --exclude=node06 --time=5 -J plain train.sh --lr 0.1"
    ).strip()
    desk.cluster.wait(job)
    text = desk.resubmit(job)
    line = last_line(text)
    assert line == ("sbatch --parsable -N 2 --time=5 -J plain '--exclude=node[01,06]' train.sh --lr 0.1")
    assert "# -w is left out: without node01 it names fewer nodes than -N 2" in text
    assert "gpu-hw-fault in job 7001" in text
    where = desk.accepted(line)
    assert len(where) == 2
    assert not where & {"node01", "node06"}
    # What would have been printed without care is refused.
    careless = line.replace("-N 2", "-N 2 -w node01,node02")
    assert "Invalid node name" in desk.bash(f"{careless} 2>&1 || true")


def test_arguments_that_accounting_keeps_without_their_quotes(desk: Desk) -> None:
    """What a real sbatch got the second time is what it got the first time, but for the nodes and the array."""
    words = [
        "-J",
        "it's odd",
        "-a",
        "0-3",
        "--time=5",
        "train.sh",
        '{"lr":1}',
        "it's",
        "$(id)",
        "`id`",
        "a\\b",
        "",
        "*",
    ]
    job = desk.bash(f"sbatch --parsable {shlex.join(words)}").strip()
    desk.cluster.wait(job)
    line = last_line(desk.resubmit(f"{job}_2"))
    got = desk.bash(f"sbatch() {{ printf '%s\\0' \"$@\"; }}; {line}").split("\0")[:-1]
    options = ["--parsable", "-J", "it's odd", "--time=5", "--exclude=node01", "--array=2"]
    assert got == [*options, *words[words.index("train.sh") :]]
    assert "node01" not in desk.accepted(line)


def test_what_the_script_asks_for_itself_is_not_lost(desk: Desk) -> None:
    script = desk.outside / "directives.sh"
    script.write_text("#!/bin/sh\n#SBATCH -N 2 --exclude=node06 --nodelist=node01,node02\nexit 3\n")
    job = desk.bash("sbatch --parsable --time=5 directives.sh").strip()
    desk.cluster.wait(job)
    text = desk.resubmit(job)
    assert last_line(text) == "sbatch --parsable --time=5 --nodelist= '--exclude=node[01,06]' directives.sh"
    where = desk.accepted(last_line(text))
    assert len(where) == 2
    assert not where & {"node01", "node06"}


def submitted(desk: Desk, line: str) -> str:
    job = desk.bash(line).split()[-1]
    desk.cluster.wait(job)
    return job


def arguments(desk: Desk) -> list[str]:
    return (desk.outside / "last-arguments").read_text().splitlines()


def test_a_launcher_job(desk: Desk) -> None:
    recorded = './submit.sh llama2-70b:al:t1 -N 2 -w node01,node02,node03 --comment \'two words\' -- steps=15 "x=it\'s \\"1\\""'
    job = submitted(desk, recorded.replace("-w node01,node02,node03", "-w node01,node02"))
    before = arguments(desk)
    line = last_line(desk.resubmit(job))
    where = desk.accepted(line)
    assert len(where) == 2
    assert "node01" not in where
    after = arguments(desk)
    assert after == [
        *(word for word in before[: before.index("--")] if word not in ("-w", "node01,node02")),
        "--exclude=node01",
        *before[before.index("--") :],
    ]
    assert after[-1] == 'x=it\'s "1"'


def test_a_directory_that_submit_sh_has_removed(desk: Desk) -> None:
    """At t+3 s the launcher deletes the directory of a job that has failed by then; its log stays."""
    job = submitted(desk, "RAY= ./submit.sh llama2-70b -N 2 --time=7 --exclude=node05 -w node01,node02 -- steps=15")
    for path in (desk.outside / "outputs").glob(f"{job}-*"):
        if path.is_dir():
            shutil.rmtree(path)
    assert list((desk.outside / "outputs").glob(f"{job}-*.log"))
    text = desk.resubmit(job)
    assert "# rebuilt from the log's header" in text
    line = last_line(text)
    # Accounting's submit line still has what was asked for, word by word.
    assert line == "./submit.sh llama2-70b -N 2 --time=7 '--exclude=node[01,05]' -- steps=15"
    where = desk.accepted(line)
    assert len(where) == 2
    assert not where & {"node01", "node05"}


def test_a_job_that_left_neither_directory_nor_log(desk: Desk) -> None:
    """slurmd cannot open the log, and the launcher deletes the rest: accounting alone knows the job."""
    job = submitted(
        desk, "./submit.sh llama2-70b:al:t9 -N 2 --time=8 -w node01,node03 --output=/nonexistent/x.log -- steps=15 b=1"
    )
    for path in (desk.outside / "outputs").glob(f"{job}-*"):
        shutil.rmtree(path)
    text = desk.resubmit(job)
    assert "# there is no log" in text
    line = last_line(text)
    assert (
        line
        == "./submit.sh llama2-70b:al:t9 -N 2 --time=8 --output=/nonexistent/x.log --exclude=node01 -- steps=15 b=1"
    )
    assert "node01" not in desk.accepted(line)


def test_a_hang_gets_its_nodes_back_and_loses_them_when_it_comes_again(desk: Desk) -> None:
    """A hang takes longer than a test may: its advice is made up, the line is judged by sbatch."""
    resubmit, nodes = Resubmit("same-nodes", "retry"), ("node03", "node04")
    recorded = "./submit.sh llama2-70b -N 2 --exclude=node06 -- steps=15"
    command = rebuild(resubmit, NO_JOB, NO_ATTEMPT, recorded, nodes, pin=True)
    assert command is not None
    assert desk.accepted(command.line()) == {"node03", "node04"}
    with_list = recorded.replace("-N 2", "-N 2 -w node03,node04")
    command = rebuild(Resubmit("other-nodes", "again"), NO_JOB, NO_ATTEMPT, with_list, nodes)
    assert command is not None
    where = desk.accepted(command.line())
    assert len(where) == 2
    assert "node06" not in where


def test_a_finished_job_is_not_run_again(desk: Desk) -> None:
    (desk.outside / "train.sh").write_text("#!/bin/sh\necho done\n")
    job = desk.bash("sbatch --parsable train.sh").strip()
    desk.cluster.wait(job)
    assert "running this job again makes no sense" in desk.resubmit(job, code=2)


def test_leaf_switches_of_a_real_topology(host_cluster: Cluster) -> None:
    conf = host_cluster.path(host_cluster.layout.slurm_conf).with_name("topology.conf")
    conf.write_text(
        "SwitchName=leaf1 Nodes=node[01-03]\nSwitchName=leaf2 Nodes=node[04-06]\nSwitchName=top Switches=leaf[1-2]\n"
    )
    conf.chmod(0o644)
    try:
        host_cluster.reconfigure("TopologyPlugin=topology/tree")
        found = parse(host_cluster.scontrol("show", "topology"))
    finally:
        # The file stays: from 23.11 on a node that is told begins anew, when it gets around to it, and ends where the
        # plugin finds no file.
        host_cluster.reconfigure("TopologyPlugin=")
        host_cluster.wait_for("all nodes idle", host_cluster.all_idle, 60.0)
    assert found == {f"node0{n}": "leaf1" if n <= 3 else "leaf2" for n in range(1, 7)}
    assert parse(host_cluster.scontrol("show", "topology")) == {}
