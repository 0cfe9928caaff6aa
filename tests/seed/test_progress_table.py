"""Every row of the seed's progress projection table, as it stands in TRIAGE.md, and the quantities behind it."""

from __future__ import annotations

import re

import pytest

from slurm_triage.model.report import Report
from slurm_triage.report.markdown import to_markdown
from tests.conftest import Triage
from tests.pitfalls.logs import failed_rank, header, step, steps, summary
from tests.seed import jobs

DEATH = '1: Traceback (most recent call last):\n1:   File "t.py", line 1, in f\n1: ValueError: bad batch\n'


def log(
    first: int,
    last: int,
    *,
    total: int = 100,
    period: int | None = 20,
    checkpointing: bool = True,
    extra: str = "",
    seconds: float = 30.0,
) -> str:
    config = f"0: Config param enable_checkpointing: {checkpointing}\n0: Config param steps: {total}\n"
    config += f"0: Config param checkpoint_period: {period}\n" if period else ""
    text = (
        header(args=f"steps={total}")
        + jobs.BEFORE_TRAINING
        + jobs.CONTAINER
        + config
        + extra
        + jobs.BARRIER
        + jobs.LOOP
    )
    body = steps(range(first, last + 1), seconds=seconds)
    return text + body + DEATH + failed_rank(1, 1) + summary(1, "Training FAILED (exit=143)", wall="40m 0s")


def table(report: Report) -> dict[str, str]:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", to_markdown(report), re.MULTILINE)
    return {name: value for name, value in rows if name != "Metric"}


FRESH = "0: No existing checkpoints found, not restoring checkpoint.\n"


def test_fresh_start(triage_text: Triage) -> None:
    rows = table(triage_text(log(0, 49, extra=FRESH)))
    assert rows["Start"] == "fresh"
    assert rows["Steps completed (this run)"] == "50 steps (step 0 through 49)"
    assert rows["Overall progress"].startswith("50 / 100 (50")
    assert rows["Steady-state step time"] == "30s"
    assert rows["Expected step by now"] == "not applicable (the job has ended)"
    assert rows["Last periodic ckpt this run"].startswith("step 40")
    assert rows["Progress lost"].startswith("9 steps")
    assert rows["Estimated time remaining"].startswith("25 min")


def test_restored(triage_text: Triage) -> None:
    """first step N > 0 means restored from step N-1; steps this run and overall progress differ."""
    report = triage_text(log(41, 70, extra="0: restoring from this run's directory step 40\n"))
    rows = table(report)
    assert "40" in rows["Start"]
    assert "restored" in rows["Start"]
    assert rows["Steps completed (this run)"] == "30 steps (step 41 through 70)"
    assert rows["Overall progress"].startswith("71 / 100 (71")
    assert rows["Last periodic ckpt this run"].startswith("step 60")
    assert rows["Progress lost"].startswith("10 steps")


def test_restored_without_a_word(triage_text: Triage) -> None:
    assert triage_text(log(41, 70)).progress.restored_from == 40


def test_restored_from_the_initial_checkpoint(triage_text: Triage) -> None:
    """A restore from the step-0 checkpoint gives first step 1."""
    progress = triage_text(log(1, 10, extra="0: restoring from this run's directory step 0\n")).progress
    assert (progress.start, progress.restored_from, progress.steps_this_run) == ("restored", 0, 10)


def test_no_periodic_checkpoint_reached(triage_text: Triage) -> None:
    """The initial step-0 checkpoint is no milestone: everything is lost."""
    rows = table(triage_text(log(0, 15, extra=FRESH)))
    assert rows["Last periodic ckpt this run"].startswith("none — didn't reach checkpoint_period")
    assert rows["Progress lost"].startswith("all, 16 steps")


def test_restored_run_that_reached_no_checkpoint_loses_its_own_steps_only(triage_text: Triage) -> None:
    report = triage_text(log(41, 55, extra="0: restoring from this run's directory step 40\n"))
    assert report.progress.lost_steps == 15


def test_without_checkpointing_all_is_lost(triage_text: Triage) -> None:
    rows = table(triage_text(log(0, 49, checkpointing=False, extra=FRESH)))
    assert rows["Progress lost"].startswith("all, 50 steps")


@pytest.mark.parametrize("period", [20, 50, 200])
def test_checkpoint_period_comes_from_the_config(period: int, triage_text: Triage) -> None:
    assert triage_text(log(0, 49, period=period)).progress.checkpoint_period == period


def test_sum_of_step_seconds_of_one_rank_against_wall(triage_text: Triage) -> None:
    progress = triage_text(log(0, 49, extra=FRESH)).progress
    assert progress.sum_step_s == pytest.approx(1500)
    assert progress.wall_s == 2400
    assert progress.unaccounted_s == pytest.approx(900)


def test_checkpoint_cost_is_in_the_step_after(triage_text: Triage) -> None:
    text = log(0, 49, extra=FRESH)
    for slow in (21, 41):
        for rank in (0, 1):
            text = text.replace(step(slow, 30.0, rank), step(slow, 330.0, rank))
    progress = triage_text(text).progress
    assert progress.checkpoint_cost_s == pytest.approx(300, rel=0.05)
    assert progress.step_time_s == pytest.approx(30)


def test_expected_step_now(triage_text: Triage) -> None:
    """A live job: last step + (now - time of the last step) / step time."""
    start = 1_790_000_000
    text = (
        header(args="steps=1000")
        + jobs.BEFORE_TRAINING
        + jobs.CONTAINER
        + "0: Config param steps: 1000\n"
        + steps(range(100), seconds=30.0)
    )
    accounting = {"job_id": "7", "state": "RUNNING", "start": start}
    soon = triage_text(text, accounting=accounting, now=start + 3060)
    late = triage_text(text, accounting=accounting, now=start + 36_000)
    assert soon.diagnosis.status == "running"
    assert soon.progress.expected_step is None or soon.progress.expected_step <= 105
    assert late.diagnosis.status == "hanging"
    assert late.progress.expected_step is not None
    assert late.progress.expected_step > 900
    assert table(late)["Expected step by now"].startswith(str(late.progress.expected_step))
    assert late.progress.remaining_s == pytest.approx(900 * 30)


def test_gpu_hours(triage_text: Triage) -> None:
    report = triage_text(log(0, 49, extra=FRESH))
    assert report.cost.gpus == 16
    assert report.cost.gpu_hours == pytest.approx(16 * 2400 / 3600)
    assert report.cost.gpu_hours_lost is not None
    assert 0 < report.cost.gpu_hours_lost < report.cost.gpu_hours


# The TGS patterns of the seed ------------------------------------------------------------------------------------------


def speeds(values: list[float]) -> str:
    text = (
        header(args=f"steps={len(values)}")
        + jobs.BEFORE_TRAINING
        + jobs.CONTAINER
        + f"0: Config param steps: {len(values)}\n"
        + jobs.LOOP
    )
    body = "".join(step(n, s, r) for n, s in enumerate(values) for r in (0, 1))
    return text + body + "== Training END (1s) ==\n" + summary(0, wall=f"{int(sum(values)) // 60 + 2}m 0s")


PATTERNS = {
    "drop": ([3.0] * 60 + [4.0] * 60, True, {"constant", "one-time"}),
    "phased": ([3.0] * 50 + [4.0] * 30 + [3.0] * 40 + [5.0] * 40, True, {"phased"}),
    "gradual": ([3.0] * 30 + [3.0 + 0.02 * n for n in range(120)], True, {"gradual"}),
    "checkpoints": ([3.0 if n % 20 != 1 or n < 2 else 30.0 for n in range(150)], False, {None, "periodic"}),
    "noisy": ([3.0 + 0.1 * ((n * 7919) % 13 - 6) / 6 for n in range(150)], False, {None}),
    "slow step": ([3.0] * 70 + [40.0] + [3.0] * 70, False, {None, "periodic"}),
    "short": ([3.0] * 8 + [4.0] * 4, False, {None}),
}  # fmt: skip


@pytest.mark.parametrize("name", PATTERNS)
def test_tgs_pattern(name: str, triage_text: Triage) -> None:
    values, degraded, patterns = PATTERNS[name]
    report = triage_text(speeds(values))
    assert report.diagnosis.status == "completed"
    assert report.throughput.degraded is degraded
    assert report.throughput.pattern in patterns
    assert ("tgs-degradation" in {f.cls for f in report.diagnosis.findings}) is degraded
