"""Cascades, culprits, teardown, and exceptions that came before."""

from __future__ import annotations

import pytest

from slurm_triage.diagnosis.traceback import final_exception
from slurm_triage.model.report import Report
from tests.conftest import Triage
from tests.diagnosis.texts import CANCELLED, OOM, exits, heartbeat, run, start, traceback
from tests.pitfalls.logs import failed_rank, summary

FAILED = "== Training FAILED (exit=143, 3s) ==\n" + summary(1, "Training FAILED (exit=143)")
PEER = "XlaRuntimeError: INTERNAL: NCCL operation ncclGroupEnd() failed: remote process exited or there was a network error"
IGNORED = "{0}: Exception ignored in: <generator object f at 0x7f>\n" + "".join(
    f"{{0}}: {line}\n"
    for line in ("Traceback (most recent call last):", '  File "x.py", line 3, in f', "RuntimeError: late")
)


def found(report: Report) -> tuple[str | None, int | None]:
    primary = report.diagnosis.primary
    return (primary.cls, primary.rank) if primary is not None else (None, None)


def test_memory_then_collective_then_heartbeat(triage_text: Triage) -> None:
    text = start(4) + run(range(9), (0, 1, 2, 3)) + traceback(2, f"XlaRuntimeError: {OOM}")
    text += "".join(traceback(r, PEER) for r in (0, 1, 3)) + heartbeat((0, 1, 3), [2]) + exits(1, (0, 1, 2, 3))
    report = triage_text(text + FAILED)
    assert found(report) == ("oom-gpu", 2)
    assert {f.cls for f in report.diagnosis.findings} >= {"heartbeat-timeout", "nccl-timeout"}
    assert report.diagnosis.chain[0].startswith("oom-gpu")


def test_the_culprit_may_speak_last(triage_text: Triage) -> None:
    text = start() + run(range(9)) + traceback(0, PEER) + "0: NODE_EXIT host=chi2801 exit=1\n"
    text += "srun: launch/slurm: _step_signal: Terminating StepId=7.3\n" + traceback(1, f"XlaRuntimeError: {OOM}")
    text += "1: NODE_EXIT host=chi2802 exit=1\n"
    assert found(triage_text(text + FAILED)) == ("oom-gpu", 1)


def test_what_is_printed_while_being_stopped_is_no_cause(triage_text: Triage) -> None:
    stop = "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
    noise = traceback(0, PEER) + "0: KeyboardInterrupt\n" + traceback(1, "ValueError: stopped")
    end = CANCELLED.format(" DUE TO TIME LIMIT") + exits(143) + summary(143, "CANCELLED (scancel / SIGTERM)")
    assert found(triage_text(start() + run(range(9)) + stop + noise + end)) == ("time-limit", None)


def test_compile_error_then_exception_then_exit_code(triage_text: Triage) -> None:
    text = start() + traceback(0, "XlaRuntimeError: INTERNAL: Failed to compile module jit_train_step: bad HLO")
    text += "0: [Node 0 @ chi2801] Training subprocess exited with code 1\n" + failed_rank(0, 1)
    assert found(triage_text(text + FAILED)) == ("xla-compile-fail", 0)


def test_an_exception_that_training_survived_is_another_event(triage_text: Triage) -> None:
    text = start() + run(range(5)) + traceback(1, "OSError: first, and caught") + run(range(5, 12))
    report = triage_text(text + traceback(1, "ValueError: second, and fatal") + failed_rank(1, 1) + FAILED)
    assert report.diagnosis.primary is not None
    assert "second" in report.diagnosis.primary.title
    # An early one that was survived does not come before the real cause of another rank either.
    text = start() + run(range(5)) + traceback(0, "OSError: first, and caught") + run(range(5, 12))
    text += traceback(1, f"XlaRuntimeError: {OOM}") + traceback(0, PEER) + failed_rank(1, 1) + FAILED
    assert found(triage_text(text)) == ("oom-gpu", 1)


@pytest.mark.parametrize("buffered", [4, 40])
def test_steps_from_a_buffer_behind_the_traceback_do_not_make_it_survived(triage_text: Triage, buffered: int) -> None:
    text = start() + run(range(5)) + traceback(1, "ValueError: shard 7 is empty") + run(range(5, 5 + buffered), (1,))
    assert found(triage_text(text + failed_rank(1, 1) + FAILED)) == ("python-exception", 1)


def test_a_traceback_survived_for_long_is_not_why_the_rank_exits(triage_text: Triage) -> None:
    text = start() + run(range(5)) + traceback(1, "ValueError: shard 7 is empty") + run(range(5, 105), (1,))
    assert found(triage_text(text + failed_rank(1, 1) + FAILED)) == ("subprocess-fail", 1)


def test_ignored_exceptions_do_not_count_but_later_ones_do(triage_text: Triage) -> None:
    ran = "".join(f"{r}: Config param steps: 15\n" for r in (0, 1))
    assert found(triage_text(ran + run(range(15)) + IGNORED.format(1))) == (None, None)
    text = start() + run(range(5)) + IGNORED.format(1) + run(range(5, 9)) + traceback(1, "ValueError: x")
    report = triage_text(text + failed_rank(1, 1) + FAILED)
    assert found(report) == ("python-exception", 1)
    assert report.diagnosis.primary is not None
    assert "ValueError" in report.diagnosis.primary.title


def test_the_rank_that_said_nothing_is_the_one(triage_text: Triage) -> None:
    lost = (
        "{0}: jax.errors.JaxRuntimeError: UNKNOWN: Gloo AllGather failed: Connection closed by peer [10.0.0.3]:35558\n"
    )
    text = run(range(9), (0, 1, 2)) + lost.format(0) + lost.format(2)
    report = triage_text(text)
    assert report.diagnosis.primary is not None
    assert (report.diagnosis.primary.rank, report.diagnosis.primary.confidence) == (1, "low")


@pytest.mark.parametrize("due", ["TIME LIMIT", "PREEMPTION", "JOB REQUEUE"])
def test_a_stop_belongs_to_no_rank(triage_text: Triage, due: str) -> None:
    """slurmstepd's line carries the label of rank 0 although it concerns the step."""
    line = f"0: slurmstepd-chi2801: error: *** STEP 7.3 ON chi2801 CANCELLED AT 2026-11-30T01:54:32 DUE TO {due} ***\n"
    text = start() + run(range(9)) + line + CANCELLED.format(f" DUE TO {due}") + exits(143)
    assert found(triage_text(text + summary(143, "CANCELLED (scancel / SIGTERM)")))[1] is None


def test_a_named_node_is_the_guilty_one(triage_text: Triage) -> None:
    text = start(4) + run(range(5), (0, 1, 2, 3)) + "srun: error: Node failure on chi2803\n"
    text += CANCELLED.format(" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS")
    report = triage_text(text + summary(143, "CANCELLED (scancel / SIGTERM)"))
    assert found(report) == ("node-fail", 2)
    assert [s.node for s in report.diagnosis.suspects if s.exclude] == ["chi2803"]


def test_slurm_sees_the_memory_and_the_log_shows_who(triage_text: Triage) -> None:
    text = start() + run(range(9)) + traceback(0, PEER) + "1: NODE_EXIT host=chi2802 exit=137\n"
    text += "slurmstepd: error: Detected 1 oom_kill event in StepId=7.3. Some of the step tasks have been OOM Killed.\n"
    assert found(triage_text(text + FAILED)) == ("oom-host", 1)


def test_lines_of_other_threads_do_not_end_a_traceback() -> None:
    frame = '  File "x.py", line 3, in f'
    assert (
        final_exception([frame, "host:66:211 NCCL INFO comm destroyed - done", frame, "ValueError: x"])
        == "ValueError: x"
    )
    assert final_exception([frame, *["some other output of the job"] * 20, "Note: nothing"]) is None
