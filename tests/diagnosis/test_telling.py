"""An end that no rule explains is shown with the lines that look most like its reason."""

from __future__ import annotations

from slurm_triage.model.report import Report
from slurm_triage.report.build_document import report_document
from slurm_triage.report.markdown import to_markdown
from slurm_triage.report.terminal import to_terminal
from tests.conftest import Triage
from tests.diagnosis.texts import OOM, run, start, traceback
from tests.pitfalls.logs import TRAIN_BEGIN, failed_rank, header, summary

FAILED = "== Training FAILED (exit=143, 3s) ==\n" + summary(1, "Training FAILED (exit=143)")
#: Messages of a program that no rule knows.
ODD = "gridsolver[7]: FATAL: halo 12 of shard 3 diverged, giving up"
CHATTER = "".join(
    f"0: gridsolver[7]: warning: residual {n} above 1e-3, retrying with a smaller error bound\n" for n in range(60)
)


def texts(report: Report) -> list[str]:
    return [line.place.text for line in report.diagnosis.telling]


def test_the_line_that_stands_out_is_shown(triage_text: Triage) -> None:
    text = start() + run(range(8)) + CHATTER + f"1: {ODD}\n" + run(range(8, 9)) + failed_rank(1, 7) + FAILED
    report = triage_text(text)
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.cls == "subprocess-fail"
    assert texts(report)[0] == ODD
    assert len(texts(report)) <= 3
    first = report.diagnosis.telling[0]
    assert first.rank == 1
    assert first.place.line == text[: text.index(ODD)].count("\n") + 1
    assert ODD in to_markdown(report)
    assert "halo 12 of shard 3 diverged" in to_terminal(report, width=160, color=False)
    line = report_document(report)["telling"][0]
    assert (line["rank"], line["text"], line["offset"]) == (1, ODD, text.index(f"1: {ODD}"))


def test_settings_quotes_counts_and_what_is_known_are_not_telling(triage_text: Triage) -> None:
    quoted = "+    raise GridError('FATAL: never shown')"
    text = header(2, "steps=400", git=quoted) + TRAIN_BEGIN
    text += "0: Config param steps: 400\n0: Config param abort_on_nan_error: True\n0: ABORT_ON_ERROR=1\n"
    text += run(range(8)) + "0: checks done: errors: 0, no errors found, failed=0\n"
    text += "0: INTERNAL: CUDA error: Failed call to cuInit: UNKNOWN ERROR (303)\n"
    report = triage_text(text)
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.cls == "unknown-death"
    assert texts(report) == []


def test_what_is_printed_while_the_job_is_stopped_is_not_telling(triage_text: Triage) -> None:
    stop = "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
    text = start() + run(range(8)) + f"0: {ODD}\n" + stop + "1: FATAL: interrupted by an unexpected stop\n"
    assert texts(triage_text(text + failed_rank(0, 7) + FAILED)) == [ODD]


def test_a_known_cause_needs_no_such_lines(triage_text: Triage) -> None:
    text = (
        start() + run(range(8)) + f"0: {ODD}\n" + traceback(1, f"XlaRuntimeError: {OOM}") + failed_rank(1, 1) + FAILED
    )
    report = triage_text(text)
    assert report.facts.last.telling
    assert texts(report) == []
    assert triage_text(start(total=8) + run(range(8)) + f"0: {ODD}\n" + summary()).diagnosis.telling == ()


def test_what_all_ranks_print_alike_is_one_line(triage_text: Triage) -> None:
    same = "".join(f"{r}: FATAL: the mesh is broken\n" for r in (0, 1))
    other = "1: GridError: shard 3 lost its neighbour\n"
    text = start() + run(range(8)) + same + other
    assert texts(triage_text(text)) == ["FATAL: the mesh is broken", "GridError: shard 3 lost its neighbour"]


def test_an_unknown_program_without_an_end(triage_text: Triage) -> None:
    """Neither steps nor a launcher: nothing is claimed, but the reader gets the last words that matter."""
    report = triage_text(
        "reading mesh\nassembled 12 blocks\nmesh_io: could not map block 7: size mismatch\ncleaning up\n"
    )
    assert (report.diagnosis.status, report.diagnosis.primary) == ("unknown", None)
    assert texts(report) == ["mesh_io: could not map block 7: size mismatch"]
    assert "could not map block 7" in to_markdown(report)
    assert "No line of the log explains this" not in to_markdown(report)
