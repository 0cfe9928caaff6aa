"""verify, unless and extract on the body of a line."""

from __future__ import annotations

import pytest

from slurm_triage.model.rule import Rule
from slurm_triage.rules.select import body_verdict, rejection


def rule(**fields: object) -> Rule:
    return Rule("r", "harmless", "R", ("x",), **fields)  # type: ignore[arg-type]


def test_without_conditions_every_line_counts() -> None:
    assert body_verdict(rule(), "anything") == {}


@pytest.mark.parametrize("body, accepted", [("Killed", True), ("task 0: Killed", True), ("not Killed", False)])
def test_one_verify_must_match(body: str, accepted: bool) -> None:
    assert (body_verdict(rule(verify=("^Killed$", ": Killed$")), body) is not None) is accepted


def test_no_unless_may_match() -> None:
    both = rule(verify=("memory",), unless=("GPU", "disk"))
    assert body_verdict(both, "out of memory") == {}
    assert body_verdict(both, "out of GPU memory") is None
    assert body_verdict(both, "out of memory for disk cache") is None


def test_the_reason_names_the_expression() -> None:
    assert rejection(rule(verify=("^a", "^b")), "xyz") == "no verify expression matches: ^a | ^b"
    assert rejection(rule(unless=("q", "y")), "xyz") == "unless y"
    assert rejection(rule(verify=("x",), unless=("q",)), "xyz") is None


def test_captures_of_several_expressions_are_put_together() -> None:
    two = rule(extract=(r"rank (?P<rank>\d+)(?: on (?P<node>\S+))?", r"host=(?P<node>\S+) rank=(?P<rank>\d+)"))
    assert body_verdict(two, "rank 3 failed, host=n7 rank=9") == {"rank": "3", "node": "n7"}
    assert body_verdict(two, "rank 3 on n1 host=n7 rank=9") == {"rank": "3", "node": "n1"}


def test_the_body_comes_before_the_block() -> None:
    cause = rule(extract=(r"cause=(?P<cause>\w+)",), block_lines=2)
    assert body_verdict(cause, "failed", ["nothing", "cause=disk", "cause=net"]) == {"cause": "disk"}
    assert body_verdict(cause, "failed cause=host", ["cause=disk"]) == {"cause": "host"}


def test_ranks_are_collected_over_lines() -> None:
    unhealthy = rule(extract=(r"task:(?P<ranks>\d+)",), block_lines=4)
    block = ["/job:jax_worker/replica:0/task:3", "/job:jax_worker/replica:0/task:12 task:4", "task:3", "The end"]
    assert body_verdict(unhealthy, "The following tasks are unhealthy:", block) == {"ranks": "3,12,4"}
    assert body_verdict(unhealthy, "The following tasks are unhealthy:", []) == {}
