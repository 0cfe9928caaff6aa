"""Pitfalls of reading a log (group A)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slurm_triage.model.facts import AttemptFacts
from tests.conftest import Triage
from tests.pitfalls.logs import TRAIN_BEGIN, failed_rank, header, step, steps, summary

Facts = Callable[[str | bytes], AttemptFacts]

TRACEBACK = 'Traceback (most recent call last):\n{r}: File "x.py", line 1\n{r}ValueError: bad shape\n'


def test_a1_rank_duplicates_are_summed_once(triage_text: Triage) -> None:
    report = triage_text(header() + TRAIN_BEGIN + steps(range(15)) + summary())
    assert report.progress.sum_step_s == pytest.approx(45.0)
    assert [(r.rank, r.first, r.last) for r in report.progress.ranks] == [(0, 0, 14), (1, 0, 14)]


def test_a2_label_width_follows_the_number_of_tasks(facts_of: Facts) -> None:
    facts = facts_of(header(nnodes=12) + TRAIN_BEGIN + steps(range(6), ranks=12))
    assert {s.rank for s in facts.series} == set(range(12))
    assert all(s.last_step == 5 for s in facts.series)


def test_a2_a_number_that_cannot_be_a_label_stays_text(facts_of: Facts) -> None:
    facts = facts_of(header(nnodes=2) + TRAIN_BEGIN + "0: 7: completed step: 3, seconds: 1.0, Tokens/s/device: 5.0\n")
    assert [s.rank for s in facts.series] == [0]


def test_a3_one_process_per_gpu_keeps_the_slowest(facts_of: Facts) -> None:
    text = header() + TRAIN_BEGIN + "0: Launching 3 processes per node (6 total) for 1-GPU-per-process mode...\n"
    for seconds in (3.0, 3.5, 2.9):
        text += step(4, seconds, 0)
    facts = facts_of(text)
    assert facts.procs_per_node == 3
    assert [s.seconds for s in facts.series[0].steps] == [3.5]


def test_a4_glued_step_lines(facts_of: Facts) -> None:
    glued = step(3, 3.0, 1).rstrip("\n") + step(4, 3.1, None).rstrip("\n") + "\n1: \n"
    facts = facts_of(header() + TRAIN_BEGIN + glued)
    assert [s.step for s in facts.series[0].steps] == [3, 4]
    assert facts.series[0].rank == 1


def test_a5_signature_across_a_cut_line(triage_text: Triage) -> None:
    """srun cuts after 1024 bytes of payload and continues with the label on the next line of that rank."""
    message = "x" * 1000 + "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 221.71GiB."
    cut = f"0: {message[:1024]}\n1: something else\n0: {message[1024:]}\n"
    report = triage_text(header() + TRAIN_BEGIN + cut + failed_rank(0, 1) + summary(1, "Training FAILED (exit=143)"))
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.cls == "oom-gpu"
    assert report.diagnosis.primary.rank == 0


def test_a6_multi_line_message_between_other_ranks(triage_text: Triage) -> None:
    text = (
        header(nnodes=4)
        + TRAIN_BEGIN
        + "0: E1130 02:15:47.248 16537 coordination_service.cc:1549] UNAVAILABLE: The following tasks are unhealthy "
        + "(stopped sending heartbeats):\n"
        + step(1, 3.0, 1)
        + "0: /job:jax_worker/replica:0/task:3\n"
        + step(1, 3.0, 2)
        + "0: The tasks have crashed. Check the task logs for an earlier error, or scheduler events.\n"
    )
    report = triage_text(text)
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.cls == "heartbeat-timeout"
    assert report.diagnosis.primary.rank == 3


def test_a7_ansi_in_the_summary(triage_text: Triage) -> None:
    text = header() + TRAIN_BEGIN + steps(range(5)) + failed_rank(1, 1)
    text += summary(1, "Training FAILED (exit=143)").replace("FAILED (exit 1)", "\x1b[31mFAILED (exit 1)")
    text = text.replace("(exit=143)\n====", "(exit=143)\x1b(B\x1b[m\n====")
    report = triage_text(text)
    assert report.facts.last.summaries[0].exit_code == 1
    assert report.facts.last.summaries[0].reason == "Training FAILED (exit=143)"


def test_a8_ray_prefix_inside_the_label(facts_of: Facts) -> None:
    line = "0: \x1b[36m(MaxTextTrainerActor pid=188)\x1b[0m " + step(3, 2.5, None)
    facts = facts_of(header(nnodes=1, ray=True) + TRAIN_BEGIN + line)
    assert [(s.rank, s.last_step) for s in facts.series] == [(0, 3)]


def test_a9_bash_trace_is_not_a_message(triage_text: Triage) -> None:
    text = header() + TRAIN_BEGIN + "0: + echo '[FAIL] Failed to check out x in the local maxtext repo.'\n"
    report = triage_text(text + steps(range(15)) + summary())
    assert report.diagnosis.primary is None
    assert not [f for f in report.diagnosis.findings if f.cls == "patch-branch-fail"]


def test_a10_git_summary_holds_no_findings(triage_text: Triage) -> None:
    git = (
        "[LAST COMMIT]\nabc Fix OOM / heartbeat timeout\n[DIFF]\nTraceback (most recent call last):\n"
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1GiB\n"
        "UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):"
    )
    report = triage_text(header(git=git) + TRAIN_BEGIN + steps(range(15)) + summary())
    assert report.diagnosis.status == "completed"
    assert not [f for f in report.diagnosis.findings if f.role != "context"]


def test_a10_a_git_summary_without_an_end_stops_at_the_stage_table(triage_text: Triage) -> None:
    git = "ValueError: in a diff\nTraceback (most recent call last):"
    text = header(git=git).replace("=== GIT SUMMARY END ===\n", "") + TRAIN_BEGIN + steps(range(15)) + summary()
    assert triage_text(text).diagnosis.status == "completed"


def test_a11_dumps_of_environment_and_settings(triage_text: Triage) -> None:
    dump = (
        "0: XLA_FLAGS=--xla_dump_to=/tmp --note=ncclSystemError\n0: NCCL_DEBUG=WARN\n"
        "0: Config param jax_distributed_heartbeat_timeout_seconds: 100\n"
        "0: args: llama2-70b -- note=RESOURCE_EXHAUSTED: Out of memory while trying to allocate\n"
    )
    report = triage_text(header() + TRAIN_BEGIN + dump + steps(range(15)) + summary())
    assert report.diagnosis.primary is None
    assert report.facts.last.config["jax_distributed_heartbeat_timeout_seconds"] == "100"


def test_a12_header_only_from_the_first_unlabelled_lines(facts_of: Facts) -> None:
    args = 'steps=5 steps=3 _env_XLA_FLAGS="--a=1 --b=2" hf_data_dir=it\'s'
    facts = facts_of(header(args=args) + TRAIN_BEGIN + '0: PASSTHROUGH_ARGS=""\n0: NNODES=9\n')
    assert facts.header.passthrough_args == args
    assert facts.header.nnodes == 2
    assert not facts.launch_args_exact


def test_a12_the_traced_command_line_is_exact(facts_of: Facts) -> None:
    trace = "0: + /artifact_1/_train.sh llama2-70b -- steps=3 '_env_XLA_FLAGS=\"--a=1 --b=2\"' 'hf_data_dir=it'\\''s'\n"
    facts = facts_of(header(args="steps=3 x") + TRAIN_BEGIN + trace)
    assert facts.launch_args == ("steps=3", '_env_XLA_FLAGS="--a=1 --b=2"', "hf_data_dir=it's")
    assert facts.launch_args_exact


def test_a13_binary_garbage_and_huge_lines(triage_text: Triage) -> None:
    noise = bytes(range(256)) * 4000 + b"\n" + b"y" * 3_000_000 + b"\n"
    text = header().encode() + TRAIN_BEGIN.encode() + noise + steps(range(15)).encode() + summary().encode()
    report = triage_text(text)
    assert report.diagnosis.status == "completed"
    assert report.progress.last_step == 14


def test_a13_nul_bytes(triage_text: Triage) -> None:
    text = header() + TRAIN_BEGIN + steps(range(15)) + "\0" * 5000 + summary()
    assert triage_text(text).progress.last_step == 14


def test_a14_size_and_inode_are_recorded(triage_text: Triage) -> None:
    report = triage_text(header() + TRAIN_BEGIN + steps(range(15)) + summary())
    log = report.files.primary
    assert log is not None
    assert log.inode
    assert log.mtime
    assert log.size_bytes == report.facts.bytes_scanned


def test_a15_absl_lines_give_clocks(facts_of: Facts) -> None:
    lines = "".join(
        f"0: I0601 22:14:{n:02d}.100000 123 metric_logger.py:181] {step(n, 1.0, None)}" for n in range(10, 20)
    )
    facts = facts_of(header(nnodes=1) + TRAIN_BEGIN + lines)
    times = [s.time for s in facts.series[0].steps]
    assert None not in times
    assert times[-1] - times[0] == pytest.approx(9.0)  # type: ignore[operator]


def test_two_attempts_in_one_file_are_kept_apart(triage_text: Triage) -> None:
    """A requeued job that appends: the first attempt's out-of-memory error is not the second one's cause."""
    first = (
        header() + TRAIN_BEGIN + steps(range(5))
        + "0: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1GiB\n"
        + "slurmstepd: error: *** JOB 7 ON chi2801 CANCELLED AT 2026-11-30T01:54:32 DUE TO PREEMPTION ***\n"
    )  # fmt: skip
    report = triage_text(first + header() + TRAIN_BEGIN + steps(range(15)) + summary())
    assert report.diagnosis.status == "completed"
    assert report.diagnosis.primary is None
    assert [a.cls for a in report.attempts] == ["oom-gpu"]
    assert report.attempt == 2


def test_progress_bar_with_a_fault_in_the_middle(triage_text: Triage) -> None:
    bar = (
        " 33%|###       | 3411/10300 [4:51:05<8:54:01, 26.24s/it]\r 33%|###  | 3412/10300 [4:51:31<8:54:01, 26.24s/it]"
    )
    report = triage_text(bar + "Memory access fault by GPU node-3 (Agent handle: 0x5a) on address 0x7098. Reason: x.\n")
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.cls == "gpu-fault"
