"""Only the node that failed is to be left out, not the one that says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_triage.pipeline import Engine, triage_path
from slurm_triage.slurm.record_file import load_record
from tests.conftest import Triage

CASE = Path(__file__).resolve().parents[1] / "corpus" / "launcher" / "slurm-node-down"


def test_the_node_that_reports_a_lost_node_is_not_suspect(engine: Engine) -> None:
    """srun on chi2811 prints that chi2812 failed, and slurmstepd on chi2811 that the step ended because of it."""
    report = triage_path(str(CASE / "log.txt"), engine=engine, job=load_record(str(CASE / "accounting.json")))
    assert [s.node for s in report.diagnosis.suspects if s.exclude] == ["chi2812"]
    assert report.diagnosis.resubmit.exclude == ("chi2812",)


ECC = (
    "0: completed step: 3, seconds: 3.211, TFLOP/s/device: 412.2, Tokens/s/device: 2551.0, loss: 10.571\n"
    "7: E external/xla/xla/stream_executor/cuda/cuda_event.cc:29] Error polling for event status: failed to query event: "
    "CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered\n"
    "7: Fatal Python error: Aborted\n"
)


@pytest.mark.parametrize(
    "end", ["srun: error: gpu-node-07: task 7: Aborted (core dumped)\n", "7: NODE_EXIT host=gpu-node-07 exit=134\n"]
)
def test_a_node_that_only_the_log_names_is_named_but_not_left_out(triage_text: Triage, end: str) -> None:
    """Its owner can write into a log what he likes: the words say where the node's name comes from, and the command to
    run it again excludes nobody."""
    report = triage_text(ECC + end)
    found = report.diagnosis
    assert found.primary is not None
    assert (found.primary.cls, found.primary.rank, found.primary.node) == ("gpu-hw-fault", 7, "gpu-node-07")
    assert not [s for s in found.suspects if s.exclude]
    assert found.resubmit.exclude == ()
    assert found.next_steps[0].startswith("By the log it was on gpu-node-07.")
    assert "`--exclude=gpu-node-07`" in found.next_steps[0]


def test_a_node_that_nobody_names_is_to_be_found_first(triage_text: Triage) -> None:
    found = triage_text(ECC).diagnosis
    assert found.primary is not None
    assert (found.primary.rank, found.primary.node) == (7, None)
    assert found.next_steps[0].startswith("Find the node of rank 7, which the log does not name")


def test_the_list_of_several_hosts_is_no_node(triage_text: Triage) -> None:
    found = triage_text(f"{ECC}srun: error: gpu-node-[06-07]: tasks 6-7: Aborted\n").diagnosis
    assert found.primary is not None
    assert found.primary.node is None


def test_a_node_that_reports_its_own_fault_is_to_be_excluded(triage_text: Triage) -> None:
    """A line of the kernel has the node's name in it."""
    xid = "Nov 30 10:12:13 gpu07 kernel: NVRM: Xid (PCI:0000:3b:00): 48, pid=123, DBE (double bit error)"
    found = triage_text(f"step 1 loss 2.0\n{xid}\n").diagnosis
    assert found.resubmit.exclude == ("gpu07",)
    assert found.next_steps[0] == "Exclude gpu07: `--exclude=gpu07`, and have it drained and repaired."
