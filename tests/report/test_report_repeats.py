"""What a report says once it does not say again."""

from __future__ import annotations

import pytest

from slurm_triage.model.same_text import normalise
from slurm_triage.model.sentence import capitalised, located, sentence
from slurm_triage.report.as_document import as_document
from slurm_triage.report.evidence import groups, select
from slurm_triage.report.markdown import to_markdown
from slurm_triage.report.terminal import to_terminal
from tests.conftest import Triage

STEP = "{0}: completed step: 4, seconds: 60.5, TFLOP/s/device: 312.1, Tokens/s/device: 7000.1, loss: 2.1\n"
FAILED = (
    '{0}: Traceback (most recent call last):\n{0}:   File "/w/train.py", line 3, in main\n{0}:     step()\n'
    "{0}: IndexError: index {1} is out of bounds for axis 0 with size 16\n"
)


def log(ranks: int = 6) -> str:
    steps = "".join(STEP.format(rank) for rank in range(ranks))
    return steps + "".join(FAILED.format(rank, 17 + rank) for rank in range(ranks - 1))


@pytest.mark.parametrize(
    "clause, expected",
    [
        ("the task exited", "The task exited."),
        ("numpy.linalg.LinAlgError: x", "numpy.linalg.LinAlgError: x."),
        ("srun was told to stop", "srun was told to stop."),
        ("out of memory.", "Out of memory."),
        ("", ""),
    ],
)
def test_a_name_keeps_its_small_letter(clause: str, expected: str) -> None:
    assert sentence(clause) == expected
    assert sentence(capitalised(clause)) == expected


def test_a_place_goes_into_a_parenthesis_that_is_there() -> None:
    assert located("It crashed (Segmentation fault)", "on node4") == "It crashed (Segmentation fault, on node4)"
    assert located("It crashed", "on node4") == "It crashed (on node4)"
    assert located("It crashed (x)", "") == "It crashed (x)"


def test_exceptions_that_differ_in_a_number_are_told_once(triage_text: Triage) -> None:
    report = triage_text(log())
    document = as_document(report, share=False)
    rows = [view["ranks"] for view in document["ranks"] if view["first_error"]]
    assert rows == [[0, 1, 2, 3, 4]]
    kinds, _ = groups(document)
    titles = [normalise(kind.title) for kind in kinds]
    assert len(titles) == len(set(titles))
    quoted = [normalise(quote.text) for quote in select(document).quotes]
    assert len(quoted) == len(set(quoted))


def test_the_title_of_the_cause_stands_once_in_the_terminal(triage_text: Triage) -> None:
    text = " ".join(to_terminal(triage_text(log()), width=200, color=False).split("Evidence")[0].split())
    assert text.count("is out of bounds for axis 0") == 1


def test_a_time_from_the_log_says_so(triage_text: Triage) -> None:
    text = "".join(f"2026-05-01 12:0{step}:00 step {step}/100, loss: 2.1\n" for step in range(1, 6))
    text += "2026-05-01 12:11:00 KeyError: 'x'\n"
    assert "ran 10 min by the log" in to_markdown(triage_text(text))
    accounting = {"state": "FAILED", "exit_code": "1:0", "elapsed_s": 600}
    assert "ran 10 min by the log" not in to_markdown(triage_text(text, accounting=accounting))
