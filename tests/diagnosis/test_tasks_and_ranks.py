"""torchrun starts several ranks in one task of srun: a label is then the task's number, not the rank."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slurm_triage.report.build_document import report_document
from slurm_triage.report.markdown import to_markdown
from tests.conftest import Triage

CORPUS = Path(__file__).resolve().parents[1] / "corpus"
#: What srun adds where nobody redirects its standard error.
SRUN = "srun: error: node05: task 0: Exited with exit code 1\nsrun: error: node06: task 1: Exited with exit code 1\n"
#: (case, rank that the fault was injected into, its node, title)
CASES = [
    ("runs/torch-segv-rank1", 1, "node05", "A worker crashed (SIGSEGV)"),
    ("runs/torch-debug-detail-segv", 2, None, "A worker crashed (SIGSEGV)"),
    ("runs/torch-sigkill-rank2", 2, "node06", "A worker was killed with SIGKILL"),
    ("made/torch-oom-cuda-rank1", 1, "node05", "GPU memory ran out (20.00 GiB asked for)"),
    ("runs/torch-monitored-barrier", 3, None, "Rank 3 did not reach the barrier in time"),
]


def log(case: str, *, labelled: bool = True) -> str:
    text = (CORPUS / case / "log.txt").read_text(errors="replace")
    return text if labelled else re.sub(r"(?m)^\d+: ", "", text)


@pytest.mark.parametrize("labelled", [True, False], ids=["srun -l", "no labels"])
@pytest.mark.parametrize("srun", ["", SRUN], ids=["", "srun reports"])
@pytest.mark.parametrize("case, rank, node, title", CASES, ids=[case for case, *_ in CASES])
def test_the_rank_is_the_one_that_torchrun_names(
    triage_text: Triage, case: str, rank: int, node: str | None, title: str, srun: str, *, labelled: bool
) -> None:
    primary = triage_text(log(case, labelled=labelled) + srun).diagnosis.primary
    assert primary is not None
    assert (primary.rank, primary.ranks) == (rank, (rank,))
    assert primary.title.startswith(title)
    if node is not None:
        assert primary.node == node


@pytest.mark.parametrize("srun", ["", SRUN], ids=["", "srun reports"])
def test_a_report_numbers_ranks_in_one_way(triage_text: Triage, srun: str) -> None:
    """Exits, the rank view, findings and quotes all speak of global ranks."""
    report = triage_text(log("runs/torch-segv-rank1") + srun)
    document = report_document(report)
    ended = {e["rank"]: (e["host"], e["exit"]) for e in document["exits"]}
    assert ended == {1: ("node05", -11), 2: ("node06", 1)}
    assert [e["rank"] for e in document["exits"] if e["first_bad"]] == [1]
    assert {r: v["nodes"] for v in document["ranks"] for r in v["ranks"]} == {
        0: ["node05"], 1: ["node05"], 2: ["node06"], 3: ["node06"],
    }  # fmt: skip
    for finding in document["findings"]:
        own = re.match(r"\[rank(\d+)\]", finding["first"]["text"])
        assert own is None or finding["rank"] == int(own[1])
    quoted = re.findall(r"^log:\d+: \[rank (\d+)\] \[rank(\d+)\]|failed \(exitcode: -11\)", to_markdown(report), re.M)
    assert all(shown == own for shown, own in quoted)
    assert not any("on the same rank" in (f["why"] or "") for f in document["findings"] if f["rank"] in {0, 3})


def test_a_task_of_srun_is_no_rank_where_lines_have_no_labels(triage_text: Triage) -> None:
    """ "task 1" is the second launcher; rank 1 is a worker of the first."""
    report = triage_text(log("runs/torch-sigkill-rank2", labelled=False) + SRUN)
    document = report_document(report)
    ended = [(e["rank"], e["host"], e["exit"]) for e in document["exits"]]
    assert ended == [(1, "node05", 1), (2, "node06", -9), (None, "node05", 1), (None, "node06", 1)]
    assert {r: v["exit"] for v in document["ranks"] for r in v["ranks"]} == {
        0: None, 1: "exit 1", 2: "SIGKILL", 3: None,
    }  # fmt: skip


TORCHRUN = (
    "E1130 02:27:52.595000 1129 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -11) "
    "local_rank: 1 (pid: 1151) of binary: python3"
)
DEEPSPEED = (
    "[2024-01-02 10:00:00,123] [ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python', '-u', 'train.py', "
    "'--local_rank=3'] exits with return code = -11"
)


@pytest.mark.parametrize("words", [TORCHRUN, DEEPSPEED], ids=["torchrun", "DeepSpeed"])
def test_a_task_that_says_no_rank_is_no_rank(triage_text: Triage, words: str) -> None:
    """The message of the launcher itself, without a table: which of its workers it was, nobody knows."""
    report = triage_text(f"0: step 1 loss 2.0\n1: {words}\n")
    primary = report.diagnosis.primary
    assert primary is not None
    assert (primary.cls, primary.rank, primary.title) == ("signal-kill", None, "A worker crashed (SIGSEGV)")
    assert not re.search(r"\brank\b", report.diagnosis.narrative)


def test_one_worker_per_task_keeps_its_label(triage_text: Triage) -> None:
    report = triage_text("0: [rank0]: step 1 loss 2.0\n1: [rank1]: ValueError: bad batch\n1: step 2 loss 1.9\n")
    assert {rank for view in report.diagnosis.ranks for rank in view.ranks} >= {1}
    assert not any(f.of_task for f in report.diagnosis.findings)


def test_a_rank_that_is_talked_about_makes_no_task(triage_text: Triage) -> None:
    """ "rank 3: ..." may be said by another rank; only PyTorch's own label says who speaks."""
    report = triage_text("0: step 1 loss 2.0\n0: rank 3: Segmentation fault\n1: step 1 loss 2.0\n")
    assert not any(f.of_task for f in report.diagnosis.findings)


def test_a_rank_is_no_index_of_nodes_where_a_node_has_several(triage_text: Triage) -> None:
    """Rank 1 of two launchers with two workers each is on the first node, not on the second."""
    job = {"job_id": "7", "state": "FAILED", "exit_code": "1:0", "nodes": "gpu[05-06]", "node_count": 2}
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    text = "".join(f"[rank{r}]: step 1 loss 2.0\n" for r in range(4)) + f"[rank1]: {oom}\n[rank3]: {oom}\n"
    primary = triage_text(text, accounting=job).diagnosis.primary
    assert primary is not None
    assert (primary.rank, primary.node) == (1, None)
