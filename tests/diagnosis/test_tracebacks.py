"""Which traceback is the reason, which is an echo, and which is excused."""

from __future__ import annotations

import pytest

from slurm_triage.diagnosis.traceback import final_exception
from slurm_triage.model.report import Report
from tests.conftest import Triage

TRACE = 'Traceback (most recent call last):\n  File "/w/train.py", line 41, in main\n    step(batch)\n'
STOPPED = "Received KeyboardInterrupt, stopping\n"
BROKEN_PIPE = (
    "Exception ignored in: <_io.TextIOWrapper name='<stdout>' mode='w' encoding='utf-8'>\n"
    "BrokenPipeError: [Errno 32] Broken pipe\n"
)


def primary(report: Report) -> str | None:
    found = report.diagnosis.primary
    return found.cls if found is not None else None


def test_a_keyboard_interrupt_is_a_stop_not_an_exception(triage_text: Triage) -> None:
    assert primary(triage_text(f"step 1 | loss 1.0\n{TRACE}KeyboardInterrupt\n")) == "cancelled"


def test_an_exception_while_an_interrupt_was_handled_stays_one(triage_text: Triage) -> None:
    text = f"step 1 | loss 1.0\n{TRACE}KeyboardInterrupt\n\nDuring handling of the above exception, another exception occurred:\n\n"
    assert primary(triage_text(f"{text}{TRACE}ValueError: no checkpoint to write\n")) == "python-exception"


def test_an_ignored_exception_without_a_traceback_excuses_no_later_one(triage_text: Triage) -> None:
    text = f"step 1 | loss 1.0\n{BROKEN_PIPE}"
    assert primary(triage_text(text)) is None
    assert primary(triage_text(f"{text}{TRACE}ValueError: the batch is empty\n")) == "python-exception"


def test_a_warning_at_start_is_resolved_by_losses_without_a_step(triage_text: Triage) -> None:
    refused = "RuntimeError: cuDNN error: CUDNN_STATUS_BAD_PARAM\n"
    losses = "".join(f"{{'loss': 2.{n}, 'learning_rate': 1e-05, 'epoch': 0.{n}}}\n" for n in range(1, 7))
    assert primary(triage_text(refused)) == "gpu-fault"
    assert primary(triage_text(refused + losses)) is None


def test_what_a_child_process_raised_is_what_its_parent_passes_on() -> None:
    spawn = [
        '  File "/w/run.py", line 95, in main', "    mp.spawn(work, nprocs=8)",
        "torch.multiprocessing.spawn.ProcessRaisedException:", "", "-- Process 0 terminated with the following error:",
        "Traceback (most recent call last):", '  File "/w/run.py", line 88, in work', "    load()",
        "FileNotFoundError: no such shard",
    ]  # fmt: skip
    assert final_exception(spawn) == "FileNotFoundError: no such shard"
    loader = [
        '  File "/w/train.py", line 4, in main', "    raise exception",
        "OSError: Caught OSError in DataLoader worker process 1.", "Original Traceback (most recent call last):",
        '  File "/w/data.py", line 9, in read', "    f.read()", "OSError: [Errno 5] Input/output error",
    ]  # fmt: skip
    assert final_exception(loader) == "OSError: [Errno 5] Input/output error"
    assert final_exception(["ValueError: first", "", "Traceback (most recent call last):", "KeyError: 2"]) == (
        "ValueError: first"
    )


def test_an_actor_that_died_after_a_collective_timed_out_is_no_cause(triage_text: Triage) -> None:
    watchdog = (
        "(Worker pid=9) [rank5]:[E814 08:41:11.120 ProcessGroupNCCL.cpp:629] [Rank 5] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=29, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for "
        "600021 milliseconds before timing out.\n"
    )
    died = "(raylet) A worker died or was killed while executing a task by an unexpected system error.\n"
    assert primary(triage_text(watchdog + died)) == "nccl-timeout"
    assert primary(triage_text(died + watchdog)) == "actor-fail"


def test_a_crash_is_no_result_of_a_lost_peer(triage_text: Triage) -> None:
    """A survivor exits or aborts; it takes no segmentation fault."""
    lost = "rank 3 in job 19  node36_58821   caused collective abort of all ranks\n"
    assert primary(triage_text(f"{lost}  exit status of rank 2: killed by signal 11 \n")) == "signal-kill"


def test_frames_name_the_class_where_the_message_does_not(triage_text: Triage) -> None:
    frames = (
        'Traceback (most recent call last):\n  File "/w/train.py", line 41, in main\n    state = manager.restore(step)\n'
        '  File "/e/orbax/checkpoint/checkpoint_manager.py", line 1521, in restore\n    raise error\n'
    )
    assert primary(triage_text(f"{frames}ValueError: the tree has other leaves\n")) == "checkpoint-error"


def lines(*texts: str, label: str = "") -> str:
    return "".join(f"{label}{text}\n" for text in texts)


@pytest.mark.parametrize("label", ["", "0: ", "0: [rank3]: "])
@pytest.mark.parametrize("between", [(), ("    ^^^^^^^^^^^^^^^",)])
def test_a_title_is_made_of_what_was_said_not_of_program_text(
    triage_text: Triage, label: str, between: tuple[str, ...]
) -> None:
    """The statement that raises holds the message with its braces, and stands above the exception."""
    found = triage_text(
        "0: step 1 | loss 1.0\n1: step 1 | loss 1.0\n"
        + lines(
            "Traceback (most recent call last):",
            '  File "/w/train.py", line 61, in <module>',
            '    if a.fault: assert np.isfinite(l), f"loss is not finite: {l}"',
            *between,
            "AssertionError: loss became non-finite: nan",
            label=label,
        )
    ).diagnosis
    assert found.primary is not None
    assert (found.primary.cls, found.primary.title) == ("nan-loss", "loss became non-finite")
    cause = next(f for f in found.findings if f.cls == "nan-loss")
    assert cause.match is not None
    assert cause.match.body.startswith("AssertionError")
    assert cause.count == 2


def test_another_ranks_lines_between_frame_and_source_do_not_matter(triage_text: Triage) -> None:
    text = lines(
        "0: Traceback (most recent call last):",
        '0:   File "/w/train.py", line 61, in <module>',
        "1: step 9 | loss 1.0",
        '0:     if bad: raise ValueError("Loss is nan, stopping training at {step}")',
        "1: step 10 | loss 1.0",
        "0: ValueError: Loss is inf, stopping training at 9",
    )
    primary_found = triage_text(text).diagnosis.primary
    assert primary_found is not None
    assert primary_found.title == "Loss is inf"


def test_program_text_that_was_not_what_failed_is_no_cause(triage_text: Triage) -> None:
    """One line of a traceback shows a branch that was not taken; the exception is another one."""
    text = TRACE.replace("step(batch)", 'step(batch[key]) if ok else stop("loss is not finite")')
    report = triage_text(f"step 1 | loss 1.0\n{text}KeyError: 'image_id'\n")
    assert primary(report) == "python-exception"
    assert ("nan-gradient-or-loss", "only program text that a traceback shows says so") in report.diagnosis.suppressed


def test_an_indented_message_is_no_program_text(triage_text: Triage) -> None:
    report = triage_text("step 1 | loss 1.0\nERROR in step 2:\n    loss is not finite, stopping\n")
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.title == "loss is not finite"
