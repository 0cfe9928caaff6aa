"""What counts as evidence against a node: not what only the job's own files say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_triage.ledger.blame import node_evidence
from slurm_triage.ledger.nodes import advice, node_stats

from .samples import record
from .test_record import T0, report


def test_a_log_alone_only_reports() -> None:
    assert node_evidence(report()) == (("chi2803", "reported"),)


def test_the_kernel_of_that_node_has_to_say_it_too() -> None:
    made = report()
    text = next(f.match.first.text for f in made.diagnosis.findings if f.match is not None)
    assert node_evidence(made, {"chi2803": [f"[ 1234.5] {text}"]}) == (("chi2803", "fault"),)
    assert node_evidence(made, {"chi2803": ["something else"]}) == (("chi2803", "reported"),)
    assert node_evidence(made, {"chi2801": [text]}) == (("chi2803", "reported"),)


@pytest.mark.parametrize("state", ["NODE_FAIL", "BOOT_FAIL"])
def test_or_slurm(state: str) -> None:
    made = report()
    assert node_evidence(replace(made, job=replace(made.job, state=state))) == (("chi2803", "fault"),)


def test_a_log_that_claims_success_does_not_hide_a_lost_node() -> None:
    made = report()
    made = replace(made, job=replace(made.job, failed_node="chi2801"))
    made = replace(made, diagnosis=replace(made.diagnosis, status="completed"))
    assert node_evidence(made) == (("chi2801", "failed-node"),)


def test_the_logs_of_one_user_send_nobody_away_from_a_node() -> None:
    others = [record(i, user=f"u{i}", nodes=f"chi28{i:02}", start=T0, end=T0 + 60) for i in range(10, 60)]
    evidence = (("chi2803", "reported"),)

    def told(*users: str) -> set[str]:
        jobs = [
            record(
                100 + i, user=user, name=f"r{i}", nodes="chi[2803,2810]", node_evidence=evidence, start=T0, end=T0 + 60
            )
            for i, user in enumerate(users)
        ]
        return set(advice(node_stats([*others, *jobs], T0 + 120)))

    assert told(*["liar"] * 40) == set()
    assert told(*[f"user{i}" for i in range(40)]) == {"chi2803"}
