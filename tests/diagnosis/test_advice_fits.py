"""The next steps fit what was found: those of the rule come before those of its class."""

from __future__ import annotations

import pytest

from slurm_triage.model.report import Report
from slurm_triage.report.fill_next_steps import with_next_steps
from slurm_triage.rules.load import load_rules
from tests.conftest import Triage

RULES = load_rules(site_dirs=[])
TORCH_OOM = (
    "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 0 has a total capacity of "
    "79.15 GiB of which 1.10 GiB is free.\n"
)
XLA_OOM = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9.1GiB.\n"


def said(report: Report) -> str:
    diagnosis = with_next_steps(report, RULES)
    return "\n".join((*diagnosis.next_steps, *diagnosis.notes))


@pytest.mark.parametrize(
    "log,wanted,unwanted",
    [
        ("License checkout failed.\n", "lmstat", "pointless"),
        ("EC2 Spot Instance interruption notice received\n", "provider", "partition or QOS"),
        ("salloc: error: Node failure on worker-1\n", "--exclude=worker-1", "137"),
        (
            "[node015:6807 :0:6807] ib_mlx5_log.c:115 FATAL: Error on mlx5_3:1 QP 0xe6d7 wqe[7821]: "
            "Transport retry count exceeded (synd 0x15 vend 0x81) opcode SEND\n",
            "UCX_LOG_LEVEL",
            "NCCL_DEBUG",
        ),
        (TORCH_OOM, "memory_summary", "XLA"),
        (XLA_OOM, "XLA_PYTHON_CLIENT_MEM_FRACTION", "torch"),
    ],
)
def test_steps_fit_the_finding(triage_text: Triage, log: str, wanted: str, unwanted: str) -> None:
    text = said(triage_text(log))
    assert wanted in text
    assert unwanted not in text


def test_munge_that_is_down_is_named_with_its_socket(triage_text: Triage) -> None:
    primary = triage_text(
        "srun: error: If munged is up, restart with --num-threads=10\n"
        'srun: error: Munge encode failed: Failed to access "/run/munge/munge.socket.2": No such file or directory\n'
        "srun: error: Unable to allocate resources: Protocol authentication error\n"
    ).diagnosis.primary
    assert primary is not None
    assert "munge.socket.2" in primary.title


def test_the_kernel_names_the_fault_that_cuda_does_not_know(triage_text: Triage) -> None:
    primary = triage_text(
        "RuntimeError: CUDA error: unknown error\n"
        "[74889.644138] NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.\n"
    ).diagnosis.primary
    assert primary is not None
    assert primary.title.startswith("Xid 79")


def test_the_rank_that_reports_is_not_called_missing(triage_text: Triage) -> None:
    text = said(
        triage_text(
            "0: F1130 02:13:41.657596 14395 client.h:82] Terminating process because the JAX distributed service "
            "detected fatal errors. DEADLINE_EXCEEDED: Deadline Exceeded\n"
            "0: RPC: /xla.coordination.CoordinationService/RegisterTask\n"
        )
    )
    assert "rank 0 only reports it" in text
