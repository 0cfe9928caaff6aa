"""Last words, first errors and messages of several ranks: what belongs to whom."""

from __future__ import annotations

from slurm_triage.model.diagnosis import RankView
from slurm_triage.model.report import Report
from slurm_triage.report.terminal import to_terminal
from tests.conftest import Triage
from tests.diagnosis.texts import CANCELLED, OOM, exits, run, start, traceback
from tests.pitfalls.logs import failed_rank, summary

FAILED = "== Training FAILED (exit=143, 3s) ==\n" + summary(1, "Training FAILED (exit=143)")


def view(report: Report, rank: int) -> RankView:
    return next(v for v in report.diagnosis.ranks if rank in v.ranks)


def test_last_words_come_before_the_clean_up(triage_text: Triage) -> None:
    """Exit lines, srun's and the launcher's clean-up say how a rank was ended, not what it said."""
    text = start() + run(range(6)) + "1: gridsolver: halo exchange begins\n" + traceback(0, "ValueError: bad halo")
    for rank in (0, 1):
        text += f"{rank}: [INFO] chi280{rank + 1}: Cleaning up container maxtext-slurm-7-node{rank} ...\n"
        text += f"{rank}: maxtext-slurm-7-node{rank}\n{rank}: =================\n"
    text += "0: NODE_EXIT host=chi2801 exit=1\n1: NODE_EXIT host=chi2802 exit=143\n"
    report = triage_text(text + FAILED)
    assert view(report, 0).last_words == "ValueError: bad halo"
    assert view(report, 1).last_words == "gridsolver: halo exchange begins"


def test_the_line_about_the_step_is_not_the_first_error_of_rank_0(triage_text: Triage) -> None:
    line = (
        "0: slurmstepd-chi2801: error: *** STEP 7.3 ON chi2801 CANCELLED AT 2026-11-30T01:54:32 DUE TO TIME LIMIT ***\n"
    )
    text = start() + run(range(6)) + line + CANCELLED.format(" DUE TO TIME LIMIT") + exits(143)
    report = triage_text(text + summary(143, "CANCELLED (scancel / SIGTERM)"))
    assert [v.first_error for v in report.diagnosis.ranks] == [None]


def test_the_cause_tells_more_than_the_head_of_its_traceback(triage_text: Triage) -> None:
    report = triage_text(start() + run(range(6)) + traceback(1, f"XlaRuntimeError: {OOM}") + FAILED)
    assert (view(report, 1).first_error or "").startswith("oom-gpu")


def test_workers_under_one_label_keep_their_own_messages(triage_text: Triage) -> None:
    """One launcher per node: srun's label is the node's, PyTorch's rank stands inside the line."""
    lines = [
        "[rank3]: Traceback (most recent call last):",
        "[rank1]: Traceback (most recent call last):",
        '[rank3]:   File "/w/train.py", line 55, in collate',
        '[rank1]:   File "/w/train.py", line 80, in step',
        "[rank1]: torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error",
        "[rank3]: ValueError: expected sequence of length 512 at dim 1 (got 498)",
    ]
    report = triage_text("".join(f"0: {line}\n" for line in lines))
    primary = report.diagnosis.primary
    assert primary is not None
    assert (primary.cls, "length 512" in primary.title) == ("python-exception", True)


def test_a_rank_that_never_reported_its_end_is_named(triage_text: Triage) -> None:
    text = start(4) + run(range(6), (0, 1, 2, 3)) + CANCELLED.format("")
    text += "".join(f"{r}: NODE_EXIT host=chi280{r + 1} exit=143\n" for r in (0, 1, 3))
    report = triage_text(text + summary(143, "CANCELLED (scancel / SIGTERM)", "2h 0m 0s"))
    assert any("Rank 2 (chi2803) never reported its end" in note for note in report.diagnosis.notes)
    assert not any("dead node is unlikely" in note for note in report.diagnosis.notes)


def test_attempts_in_one_log_count_from_one(triage_text: Triage) -> None:
    requeued = CANCELLED.format(" DUE TO JOB REQUEUE")
    report = triage_text(start() + run(range(6)) + requeued + start() + run(range(3)) + traceback(1, "ValueError: x"))
    assert [a.index for a in report.attempts] == [1]
    assert report.attempt == 2


def test_a_worker_of_torchrun_is_called_by_its_global_rank(triage_text: Triage) -> None:
    """Two workers behind one label: the one that failed is named, whatever the label."""
    text = "".join(
        f"0: [rank3]: {line}\n"
        for line in ("Traceback (most recent call last):", '  File "x.py", line 3, in f', "KeyError: 7")
    )
    report = triage_text(start() + run(range(9)) + text + failed_rank(0, 1))
    primary = report.diagnosis.primary
    assert primary is not None
    assert (primary.cls, primary.rank) == ("python-exception", 3)
    assert "rank 3" in report.diagnosis.narrative
    assert "rank 0" not in " ".join(report.diagnosis.next_steps)
    assert "rank 3 │ [rank3]" in to_terminal(report, width=100, color=False)
