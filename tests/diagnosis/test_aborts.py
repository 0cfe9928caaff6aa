"""Launchers report that a process aborted itself; what it says before that is the reason."""

from __future__ import annotations

import pytest

from tests.conftest import Triage

WATCHDOG = (
    "[rank{r}]:[E1130 12:00:00.000 ProcessGroupNCCL.cpp:616] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=1234, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for 600010 "
    "milliseconds before timing out.\n"
)
WORKER = "torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -6) local_rank: 2 (pid: 6071)"
#: How the same death is reported.
REPORTS = {
    "srun": "srun: error: n02: task 2: Aborted\n",
    "srun, core": "srun: error: n02: task 2: Aborted (core dumped)\n",
    "srun, code": "srun: error: n02: task 2: Exited with exit code 134\n",
    "launcher": "2: NODE_EXIT host=n02 exit=134\n",
    "bash": "slurm_script: line 7: 4711 Aborted                 (core dumped) python train.py\n",
    "zsh": "zsh: abort      python train.py\n",
    "time": "Command terminated by signal 6\n",
    "kubectl": "command terminated with exit code 134\n",
    "torchrun": f"E1130 12:00:02.000000 70 {WORKER} of binary: /usr/bin/python3\n",
    "mpirun": "mpirun noticed that process rank 2 with PID 0 on node n02 exited on signal 6 (Aborted).\n",
}


@pytest.mark.parametrize("label", ["", "{r}: "], ids=["no labels", "srun -l"])
@pytest.mark.parametrize("ranks", [(0, 1, 2, 3), (0, 1, 3)], ids=["its own time-out", "only others' time-outs"])
@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_an_abort_behind_a_time_out_is_no_cause(
    triage_text: Triage, report: str, ranks: tuple[int, ...], label: str
) -> None:
    said = "".join(f"{label}{WATCHDOG}".format(r=r) for r in ranks)
    primary = triage_text(said + report).diagnosis.primary
    assert primary is not None
    assert primary.cls == "nccl-timeout"
    # Rank 2 is to be looked at where all others waited for it, and for no other reason.
    assert primary.rank == (None if 2 in ranks else 2)


@pytest.mark.parametrize("words", ["terminate called after throwing an instance of 'c10::DistBackendError'\n", ""])
def test_the_last_words_of_the_runtime_are_no_cause_either(triage_text: Triage, words: str) -> None:
    report = triage_text("".join(WATCHDOG.format(r=r) for r in range(4)) + words + REPORTS["srun"])
    primary = report.diagnosis.primary
    assert primary is not None
    assert primary.cls == "nccl-timeout"
    assert not any("core dump" in step for step in report.diagnosis.next_steps)


def test_an_abort_before_the_time_outs_of_others_is_the_cause(triage_text: Triage) -> None:
    primary = triage_text(REPORTS["srun"] + "".join(WATCHDOG.format(r=r) for r in (0, 1, 3))).diagnosis.primary
    assert primary is not None
    assert (primary.cls, primary.rank, primary.node) == ("signal-kill", 2, "n02")


def test_an_abort_behind_a_lost_connection_is_the_cause(triage_text: Triage) -> None:
    """Others lose a peer the moment it dies, and may say so before srun does."""
    lost = "0: n01:7:21 [0] NCCL INFO [Service thread] Connection closed by localRank 2\n"
    primary = triage_text(f"0: step 1 loss 2.0\n2: step 1 loss 2.0\n{lost}{REPORTS['srun']}").diagnosis.primary
    assert primary is not None
    assert (primary.cls, primary.rank) == ("signal-kill", 2)


def test_an_abort_alone_is_a_crash(triage_text: Triage) -> None:
    primary = triage_text(REPORTS["srun"]).diagnosis.primary
    assert primary is not None
    assert (primary.cls, primary.node, primary.confidence) == ("signal-kill", "n02", "high")


def test_a_crash_is_never_what_a_time_out_brought_about(triage_text: Triage) -> None:
    said = "".join(WATCHDOG.format(r=r) for r in (0, 1, 3))
    primary = triage_text(f"{said}srun: error: n02: task 2: Segmentation fault\n").diagnosis.primary
    assert primary is not None
    assert primary.cls == "signal-kill"
