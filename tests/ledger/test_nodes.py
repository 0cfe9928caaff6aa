"""Node statistics: exact numbers, few innocent nodes named, bad ones found, advice that ends."""

import random
from fractions import Fraction
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.ledger.nodes import (
    ADVICE_S,
    CLEAN_RUN_S,
    FALSE_DISCOVERY_RATE,
    advice,
    benjamini_hochberg,
    binomial_tail,
    node_stats,
)
from slurm_triage.ledger.record import LedgerRecord
from tests.ledger.samples import DAY_S, T0, record

NODES = [f"n{i:02d}" for i in range(32)]


@settings(max_examples=80)
@given(st.integers(0, 40), st.integers(0, 40), st.fractions(0, 1, max_denominator=50))
def test_the_binomial_tail_is_exact(events: int, trials: int, chance: Fraction) -> None:
    exact = sum(comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(events, trials + 1))
    assert binomial_tail(events, trials, float(chance)) == pytest.approx(float(exact), rel=1e-9, abs=1e-300)


def test_the_binomial_tail_of_a_large_ledger_is_a_number() -> None:
    assert 0 < binomial_tail(60_000, 100_000, 0.5) < 1e-300 or binomial_tail(60_000, 100_000, 0.5) == 0.0
    assert binomial_tail(50_000, 100_000, 0.5) == pytest.approx(0.5, abs=0.01)


def test_benjamini_hochberg_against_the_papers_example() -> None:
    # The 15 p-values of Benjamini and Hochberg (1995), section 3: four are named at 5 %.
    values = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528]
    values += [0.7590, 1.0]
    corrected = benjamini_hochberg({str(i): p for i, p in enumerate(values)})
    assert sum(q <= 0.05 for q in corrected.values()) == 4
    assert corrected["0"] == pytest.approx(0.0015)
    assert list(corrected.values()) == sorted(corrected.values(), reverse=True)


def simulate(
    rng: random.Random, jobs: int, failure_rate: float, bad: str | None = None, factor: float = 1.0
) -> list[LedgerRecord]:
    """Jobs on random nodes; each node of a job fails with the same small probability, the bad one with ``factor``
    times that."""
    rows = []
    for i in range(jobs):
        nodes = rng.sample(NODES, rng.choice((1, 2, 4, 8)))
        failing = [n for n in nodes if rng.random() < failure_rate * (factor if n == bad else 1.0)]
        rows.append(
            record(
                i,
                nodes=",".join(sorted(nodes)),
                user=f"user{i % 7}",
                name=f"run{i}",
                node_evidence=((failing[0], "died-first"),) if failing else (),
                status="failed" if failing else "completed",
                cls="signal-kill" if failing else None,
            )
        )
    return rows


def test_innocent_nodes_are_named_in_at_most_five_percent_of_tables() -> None:
    rng = random.Random(1)
    tables = 1000
    wrong = sum(any(r.named for r in node_stats(simulate(rng, 120, 0.03), T0)) for _ in range(tables))
    assert wrong / tables <= FALSE_DISCOVERY_RATE
    # Without the correction the same tables would name somebody far more often: the simulation can fail.
    rng = random.Random(1)
    naive = sum(any(r.p_value <= 0.05 for r in node_stats(simulate(rng, 120, 0.03), T0)) for _ in range(200))
    assert naive / 200 > 0.25


def test_a_bad_node_is_found_and_the_others_stay_innocent() -> None:
    rng = random.Random(2)
    found = wrong = 0
    tables = 150
    for _ in range(tables):
        named = {r.node for r in node_stats(simulate(rng, 300, 0.01, bad="n07", factor=25.0), T0) if r.named}
        found += "n07" in named
        wrong += bool(named - {"n07"})
    assert found / tables >= 0.8
    assert wrong / tables <= FALSE_DISCOVERY_RATE


def rows_for(node: str, history: list[LedgerRecord], now: float) -> object:
    return next(r for r in node_stats(history, now) if r.node == node)


FAULT = (("chi2803", "fault"),)


def test_a_row_counts_only_failures_of_the_node_itself() -> None:
    history = [
        record(1, node_evidence=FAULT, cls="gpu-hw-fault"),
        record(2, node_evidence=(("chi2803", "failed-node"),), cls="node-fail", name="other"),
        record(3, cls="python-exception"),
        record(4, status="completed", cls=None, nodes="chi[2801-2802]"),
    ]
    stats = {r.node: r for r in node_stats(history, T0)}
    assert (stats["chi2803"].jobs, stats["chi2803"].events, len(stats["chi2803"].failures)) == (3, 2, 2)
    assert stats["chi2803"].by_class == {"gpu-hw-fault": 1, "node-fail": 1}
    assert (stats["chi2801"].jobs, stats["chi2801"].events) == (4, 0)
    assert stats["chi2803"].rate == pytest.approx(2 / 3)
    assert stats["chi2803"].cluster_rate == 0.0
    assert stats["chi2803"].p_value == pytest.approx((3 / 14) ** 2)
    assert next(iter(stats)) == "chi2803"


def test_a_job_that_keeps_failing_on_the_same_nodes_is_one_event() -> None:
    again = [record(i, node_evidence=(("chi2801", "died-first"),)) for i in range(20)]
    (first, *_) = node_stats([*again, *(record(i, nodes="m[1-9]", status="completed") for i in range(50, 60))], T0)
    assert (first.node, len(first.failures), first.events, first.named) == ("chi2801", 20, 1, False)
    moved = [record(i, nodes=f"chi2801,m{i}", node_evidence=(("chi2801", "died-first"),)) for i in range(20)]
    (first, *_) = node_stats([*moved, *(record(i, nodes="m[1-30]", status="completed") for i in range(50, 60))], T0)
    assert (first.events, first.named) == (20, True)


def test_direct_evidence_gives_advice_that_expires() -> None:
    failed = record(1, node_evidence=FAULT)
    end = failed.end or 0.0
    given_advice = advice(node_stats([failed], end + DAY_S))
    assert list(given_advice) == ["chi2803"]
    assert given_advice["chi2803"].expires == end + ADVICE_S
    assert "gpu-hw-fault in job 7001" in given_advice["chi2803"].why
    assert advice(node_stats([failed], end + ADVICE_S + 1)) == {}


def test_one_death_without_direct_evidence_gives_none() -> None:
    assert advice(node_stats([record(1, node_evidence=(("chi2803", "died-first"),))], T0)) == {}


@pytest.mark.parametrize(
    ("changes", "withdrawn"),
    [
        ({}, True),
        ({"elapsed_s": CLEAN_RUN_S - 1}, False),
        ({"elapsed_s": None}, False),
        ({"status": "failed"}, False),
        ({"nodes": "chi2801"}, False),
        ({"end": T0 - 1}, False),
    ],
)
def test_a_clean_run_withdraws_the_advice(changes: dict[str, object], withdrawn: bool) -> None:
    clean = record(9, **{"status": "completed", "cls": None, **changes})
    given_advice = advice(node_stats([record(1, node_evidence=FAULT), clean], T0 + DAY_S))
    assert ("chi2803" not in given_advice) is withdrawn


def test_an_empty_ledger_has_no_rows() -> None:
    assert node_stats([], T0) == []
