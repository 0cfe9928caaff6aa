"""A detector that speaks before a silence is its cause; one that speaks at its end only ended it."""

from __future__ import annotations

import pytest

from slurm_triage.model.report import Report
from tests.conftest import Triage
from tests.diagnosis.texts import CANCELLED, exits, start
from tests.diagnosis.watchdog_texts import timed_out
from tests.pitfalls.logs import step, summary

IB = (
    "chi2802:66:211 [3] /workspace/rccl/src/transport/net_ib.cc:1888 NCCL WARN NET/IB : Got completion from peer "
    "192.0.2.1<39113> with status=12 opcode=0 len=0 vendor err 129 (Recv) hca bnxt_re3\n"
)


def clock(second: int) -> str:
    return f"2026-11-30T{1 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.000Z "


def stamped(second: int, line: str, rank: int) -> str:
    return f"{rank}: {clock(second)}{line}"


def trained(count: int = 40) -> str:
    return "".join(stamped(30 + 3 * n, step(n, 3.0, None), rank) for n in range(count) for rank in (0, 1))


def ended(second: int) -> str:
    late = stamped(second, "metrics: no new data\n", 0)
    return late + CANCELLED.format("") + exits(143) + summary(143, "CANCELLED (scancel / SIGTERM)", "2h 10m 0s")


def primary(report: Report) -> str | None:
    return report.diagnosis.primary.cls if report.diagnosis.primary is not None else None


def test_a_lost_link_before_the_silence_is_the_cause(triage_text: Triage) -> None:
    report = triage_text(start() + trained() + stamped(152, IB, 1) + ended(7400))
    assert primary(report) == "nccl-timeout"
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.rank == 1
    assert "No further step was completed" in report.diagnosis.narrative
    assert {f.cls for f in report.diagnosis.findings if f.role == "consequence"} >= {"hang"}


def test_a_lost_link_at_its_end_is_not(triage_text: Triage) -> None:
    assert primary(triage_text(start() + trained() + stamped(7300, IB, 1) + ended(7400))) == "hang"


def test_without_clocks_errors_that_are_printed_at_once_come_before(triage_text: Triage) -> None:
    lines = "".join(step(n, 3.0, rank) for n in range(40) for rank in (0, 1))
    end = CANCELLED.format("") + exits(143) + summary(143, "CANCELLED (scancel / SIGTERM)", "2h 10m 0s")
    assert primary(triage_text(start() + lines + f"1: {IB}" + end)) == "nccl-timeout"


@pytest.mark.parametrize("second, cls", [(760, "nccl-timeout"), (7300, "hang")])
def test_a_watchdog_explains_its_own_wait_and_no_more(triage_text: Triage, second: int, cls: str) -> None:
    """Ten minutes of waiting are the watchdog's; two hours before it spoke are not."""
    lines = timed_out(0, 4217, per_node=None, prefixed=False, group=None)
    text = start() + trained() + "".join(stamped(second, line + "\n", 0) for line in lines.splitlines())
    assert primary(triage_text(text + ended(7400))) == cls


def test_a_lost_node_without_a_reason_in_the_cancel_line(triage_text: Triage) -> None:
    """Slurm cancels the job itself; that is no cancellation by somebody."""
    text = start() + trained() + "srun: error: Node failure on chi2802\n" + CANCELLED.format("")
    report = triage_text(text + summary(143, "CANCELLED (scancel / SIGTERM)"))
    assert (report.diagnosis.status, primary(report)) == ("failed", "node-fail")
    assert "Afterwards" not in report.diagnosis.narrative


def test_a_log_that_stops_in_the_middle_of_a_line_says_so(triage_text: Triage) -> None:
    whole = triage_text(start() + trained())
    cut = triage_text((start() + trained())[:-40])
    assert not any("middle of a line" in note for note in whole.diagnosis.notes)
    assert any("middle of a line" in note for note in cut.diagnosis.notes)
    assert cut.diagnosis.primary is not None
    assert "in the middle of a line" in cut.diagnosis.primary.title


def test_a_progress_bar_is_no_cut_line(triage_text: Triage) -> None:
    report = triage_text(start() + trained() + "\rsaving:  41%|####      | 41/100 [00:03<00:05]")
    assert not any("middle of a line" in note for note in report.diagnosis.notes)
