"""What those who merge logs put before a line is no part of it: a log reads the same with and without."""

from __future__ import annotations

import pytest

from slurm_triage.logs.line import NO_LABELS, parse
from tests.conftest import Triage

#: Prefix, and the global rank that it names.
PREFIXES = [
    ("[rank3]: ", 3),
    ("[1,3]<stderr>:", 3),
    ("[prterun-node7-2141@1,3]<stderr>: ", 3),
    ("[1,mpirank:3,algo-2]<stderr>:", 3),
    ("[default3]:", None),
    ("worker-3: ", None),
    ("192.0.2.4: ", None),
    ("[pod/train-worker-3/main] ", None),
    ("trainer-3  | ", None),
    ("(TrainWorker pid=4123, ip=192.0.2.4) ", None),
    ("(worker3, rank=3, pid=4123, ip=192.0.2.4) ", None),
    ("2026-11-30T01:51:37.123456789Z stderr F ", None),
    ("[01:51:37] [rank3]: ", 3),
    ("[2026-11-30 01:51:37,123][rank3]: ", 3),
    ("2026/11/30 01:51:37 ", None),
    ("Nov 30 01:51:37 ", None),
    ("[2026-11-30, 01:51:37 UTC] {subprocess.py:93} INFO - ", None),
    ("[2026-11-30T01:51:37.123+0000] {logging_mixin.py:190} INFO - ", None),
    ("Nov 30 01:51:37 node013 python3[4123]: ", None),
    ("<14>Nov  3 01:51:37 node013 train: ", None),
    ("2026-11-30T01:51:37.123456+00:00 node013 train.sh[4123]: ", None),
    ("2026-11-30T01:51:37+0000 node013 kernel: ", None),
    ("[Mon Nov 30 01:51:37 2026] ", None),
    ("[ 1234.567890] ", None),
    ("[1234.567890][ T4123] ", None),
]
#: Words with a number in front of what they say.
NO_PREFIXES = [
    "Nov gradients in layer 3: skipped",
    "[12:30] lap",
    "{train.py:3}",
    "step-3 | loss 2.1",
    "cuda0: out of memory",
    "[core3] busy",
    "1.2.3: released",
    "lr-1 | 1e-5 | wd 0",
]
#: Both are recognised only at the beginning of a line.
TEXTS = [
    'Traceback (most recent call last):\n  File "/w/train.py", line 3, in main\n    step()\nKeyError: 3\n',
    "FATAL:   could not open image /images/a.sif: image format not recognized\n",
]


@pytest.mark.parametrize("prefix, rank", PREFIXES)
def test_a_prefix_is_taken_off(prefix: str, rank: int | None) -> None:
    line = parse(f"{prefix}KeyError: 3".encode(), NO_LABELS)
    assert (line.body, line.inner_rank) == ("KeyError: 3", rank)


@pytest.mark.parametrize("text", NO_PREFIXES)
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert parse(text.encode(), NO_LABELS).body == text


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("prefix", [p for p, _ in PREFIXES])
def test_the_verdict_is_the_same_behind_a_prefix(triage_text: Triage, prefix: str, text: str) -> None:
    found = [
        triage_text("".join(f"{before}{line}\n" for line in text.splitlines())).diagnosis.primary
        for before in ("", prefix)
    ]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].cls == found[1].cls


def test_lines_that_end_with_a_carriage_return_have_last_words_too(triage_text: Triage) -> None:
    text = "Starting\r\ngridsolver: ERROR: snapshot 120 is truncated\r\n"
    primary = triage_text(text).diagnosis.primary
    assert primary is not None
    assert primary.cls == "checkpoint-error"
