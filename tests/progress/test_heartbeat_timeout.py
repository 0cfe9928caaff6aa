"""Recommended heartbeat timeout."""

from __future__ import annotations

import pytest

from slurm_triage.model.progress import Progress
from slurm_triage.progress.heartbeat_timeout import recommended_timeout_s

KEY = "jax_distributed_heartbeat_timeout_seconds"
#: The incident: step time 30 s, a save every 200 steps, 120 s warm-up and 180 s restore.
INCIDENT = Progress(
    start="restored",
    last_step=398,
    step_time_s=30.0,
    checkpointing=True,
    checkpoint_period=200,
    checkpoint_cost_s=772.0,
    setup_s=300.0,
    wall_s=13_000.0,
)


def changed(**values: object) -> Progress:
    fields = {name: getattr(INCIDENT, name) for name in INCIDENT.__slots__}
    return Progress(**{**fields, **values})


def test_the_incident_gives_four_hours() -> None:
    """2 * (120 + 180 + 200*30 + 772) = 14144, rounded up."""
    assert recommended_timeout_s(INCIDENT, {KEY: "900"}) == 14_400
    assert recommended_timeout_s(INCIDENT, {}) == 14_400


def test_without_clocks_the_measured_terms_of_the_incident_serve() -> None:
    assert recommended_timeout_s(changed(setup_s=None, checkpoint_cost_s=None), {}) == 14_400
    longer = recommended_timeout_s(changed(setup_s=None, checkpoint_cost_s=1000.0), {})
    assert longer == 16_200


@pytest.mark.parametrize("unknown", ["step_time_s", "checkpointing", "checkpoint_period"])
def test_unknown_terms_give_the_usual_value(unknown: str) -> None:
    assert recommended_timeout_s(changed(**{unknown: None}), {}) == 14_400


def test_a_run_killed_before_its_first_step() -> None:
    assert recommended_timeout_s(Progress(wall_s=900.0), {KEY: "100"}) == 14_400
    assert recommended_timeout_s(Progress(wall_s=10_000.0), {KEY: "100"}) == 21_600
    assert recommended_timeout_s(Progress(), {}) == 14_400


def test_no_checkpoints_no_period() -> None:
    assert recommended_timeout_s(changed(checkpointing=False, setup_s=100.0), {}) == 3600
    assert recommended_timeout_s(changed(checkpointing=False, setup_s=3000.0), {}) == 7200


def test_never_more_than_a_day() -> None:
    assert recommended_timeout_s(changed(checkpoint_period=10_000), {}) == 86_400


def test_nothing_to_raise() -> None:
    assert recommended_timeout_s(INCIDENT, {KEY: "14400"}) is None
    assert recommended_timeout_s(INCIDENT, {KEY: "14399"}) == 14_400
    assert recommended_timeout_s(INCIDENT, {KEY: "none"}) == 14_400
