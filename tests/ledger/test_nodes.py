"""Node statistics: exact numbers, few innocent nodes named, bad ones found, advice that ends."""

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import comb, prod

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.ledger import nodes
from slurm_triage.ledger.chance import benjamini_hochberg, binomial_tail, combined_tail, hypergeometric_tail
from slurm_triage.ledger.nodes import ADVICE_S, CLEAN_RUN_S, FALSE_DISCOVERY_RATE, Census, NodeStats, advice, node_stats
from slurm_triage.ledger.record import LedgerRecord, to_json
from tests.ledger.samples import DAY_S, T0, record

NODES = [f"n{i:02d}" for i in range(32)]


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 40), st.integers(0, 40), st.fractions(0, 1, max_denominator=50))
def test_the_binomial_tail_is_exact(events: int, trials: int, chance: Fraction) -> None:
    exact = sum(comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(events, trials + 1))
    assert binomial_tail(events, trials, float(chance)) == pytest.approx(float(exact), rel=1e-9, abs=1e-300)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_the_hypergeometric_tail_is_exact(events: int, drawn: int, marked: int, more: int) -> None:
    total = max(drawn, marked) + more
    hits = sum(comb(marked, k) * comb(total - marked, drawn - k) for k in range(events, drawn + 1))
    exact = Fraction(hits, comb(total, drawn))
    assert hypergeometric_tail(events, drawn, marked, total) == pytest.approx(float(exact), rel=1e-9, abs=1e-300)


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
    rng: random.Random,
    jobs: int,
    *,
    death: float = 0.03,
    fault_per_h: float = 0.002,
    bad: str = "",
    factor: float = 1.0,
) -> list[LedgerRecord]:
    """Jobs as a cluster has them: few and long on the first half of the nodes, many and short on the other; one user
    whose program crashes ten times as often and who always gets the same nodes. In every job each process may die
    first; every node hour may bring a fault. The bad node does both ``factor`` times as often."""
    rows = []
    for i in range(jobs):
        careless = i % 10 == 0
        long = i % 5 == 0
        pool = NODES[20:28] if careless else NODES[:16] if long else NODES[16:]
        nodes = rng.sample(pool, rng.choice((1, 2, 4, 8)))
        hours = rng.uniform(10, 40) if long else rng.uniform(0.1, 2)
        evidence = []
        for node in nodes:
            worse = factor if node == bad else 1.0
            if rng.random() < fault_per_h * hours * worse:
                evidence.append((node, "fault"))
            elif not evidence and rng.random() < death * worse * (10 if careless else 1):
                evidence.append((node, "died-first"))
        rows.append(
            record(
                i,
                nodes=",".join(sorted(nodes)),
                user="careless" if careless else f"user{i % 7}",
                name=f"run{i}",
                node_evidence=tuple(evidence[:1]),
                status="failed" if evidence else "completed",
                elapsed_s=hours * 3600,
                cls="signal-kill" if evidence else None,
            )
        )
    return rows


def test_innocent_nodes_are_named_in_at_most_five_percent_of_tables() -> None:
    rng = random.Random(1)
    tables, wrong, naive = 1000, 0, 0
    for _ in range(tables):
        rows = node_stats(simulate(rng, 80), T0)
        wrong += any(r.named for r in rows)
        naive += any(r.p_value <= FALSE_DISCOVERY_RATE for r in rows)
    assert wrong / tables <= FALSE_DISCOVERY_RATE
    # Without the correction the same tables would name somebody far more often: the simulation can fail.
    assert naive / tables > 0.25


def crashing_in_one_rank(rng: random.Random, jobs: int) -> list[LedgerRecord]:
    """A cluster that fills its nodes from the left. Three programs of a hundred crash in rank 1 whatever the node; their
    owners try again on the same nodes, each time under a new name. Nodes are all alike."""
    rows: list[LedgerRecord] = []
    names = [f"n{i:02}" for i in range(16)]
    while len(rows) < jobs:
        user, size, hours = f"u{rng.randrange(12)}", rng.choice((1, 1, 2, 4, 8)), rng.choice((0.2, 1, 5, 20))
        start = min(int(rng.expovariate(1 / 4)), len(names) - size)
        place, broken = names[start : start + size], size > 1 and rng.random() < 0.03
        for _ in range(7):
            evidence: tuple[tuple[str, str], ...] = ((place[1], "died-first"),) if broken else ()
            for node in () if broken else place:
                if rng.random() < 0.0005 * hours or rng.random() < 0.01:
                    evidence = ((node, rng.choice(("fault", "died-first"))),)
            rows.append(
                record(
                    len(rows),
                    user=user,
                    name=f"{user}-try{len(rows)}",
                    nodes=",".join(place),
                    node_evidence=evidence,
                    status="failed" if evidence else "completed",
                    elapsed_s=hours * 3600,
                    cls="signal-kill" if evidence else None,
                    fingerprint=f"{len(rows):016x}" if evidence else None,
                )
            )
            if not evidence or rng.random() < 0.5:
                break
    return rows


def test_a_program_that_always_crashes_in_one_rank_names_no_node() -> None:
    """Whatever its owner calls it, and however often he tries."""
    rng = random.Random(16)
    tables, wrong, crashed_often = 1000, 0, 0
    for _ in range(tables):
        history = crashing_in_one_rank(rng, 120)
        rows = node_stats(history, T0)
        wrong += any(r.named for r in rows)
        deaths = Counter(node for row in history for node, kind in row.node_evidence if kind == "died-first")
        crashed_often += max(deaths.values(), default=0) >= 6
    assert wrong / tables <= FALSE_DISCOVERY_RATE
    # Counted one by one, many tables hold a node on which processes died again and again.
    assert crashed_often / tables > 0.1


@pytest.mark.parametrize(("bad", "factor"), [("n03", 25.0), ("n29", 25.0)])
def test_a_bad_node_is_found_and_the_others_stay_innocent(bad: str, factor: float) -> None:
    rng = random.Random(2)
    found = wrong = 0
    tables = 40
    for _ in range(tables):
        rows = simulate(rng, 500, death=0.005, fault_per_h=0.001, bad=bad, factor=factor)
        named = {r.node for r in node_stats(rows, T0) if r.named}
        found += bad in named
        wrong += bool(named - {bad})
    assert found / tables >= 0.8
    assert wrong / tables <= FALSE_DISCOVERY_RATE


def rows_for(node: str, history: list[LedgerRecord], now: float) -> NodeStats:
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
    healthy = [record(i, nodes="m[1-30]", status="completed") for i in range(50, 60)]
    again = [record(i, node_evidence=(("chi2801", "died-first"),)) for i in range(20)]
    row = rows_for("chi2801", [*again, *healthy], T0)
    assert (len(row.failures), row.events, row.named) == (20, 1, False)
    moved = [record(i, nodes=f"chi2801,m{i}", node_evidence=(("chi2801", "died-first"),)) for i in range(20)]
    row = rows_for("chi2801", [*moved, *healthy], T0)
    assert (row.events, row.named) == (20, True)
    assert row.p_value == pytest.approx(0.5**20)


def test_a_death_in_a_job_on_one_node_says_nothing_about_the_node() -> None:
    alone = [record(i, nodes="n1", name=f"run{i}", node_evidence=(("n1", "died-first"),)) for i in range(30)]
    row = rows_for("n1", [*alone, *(record(i, nodes=f"n{i}", status="completed") for i in range(50, 90))], T0)
    assert (len(row.failures), row.p_value, row.named) == (30, 1.0, False)


def test_faults_are_compared_by_node_hours() -> None:
    faults = [
        record(i, nodes="n1", name=f"r{i}", elapsed_s=360_000.0, node_evidence=(("n1", "fault"),)) for i in range(4)
    ]
    short = [record(i, nodes=f"n{i}", elapsed_s=360.0, status="completed") for i in range(50, 90)]
    assert not rows_for("n1", [*faults, *short], T0).named
    long = [record(i, nodes=f"n{i}", elapsed_s=360_000.0, status="completed") for i in range(50, 90)]
    assert rows_for("n1", [*faults, *long], T0).named


@settings(deadline=None)
@given(st.integers(0, 6), st.integers(0, 5), st.lists(st.fractions(0, 1, max_denominator=9), max_size=5))
def test_the_combined_tail_is_exact(events: int, trials: int, chances: list[Fraction]) -> None:
    share = Fraction(1, 7)
    every = [share] * trials + chances
    exact = Fraction(0)
    for outcome in product((0, 1), repeat=len(every)):
        if sum(outcome) >= events:
            exact += prod((p if hit else 1 - p for p, hit in zip(every, outcome, strict=True)), start=Fraction(1))
    assert combined_tail(events, trials, float(share), [float(c) for c in chances]) == pytest.approx(float(exact))


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


@pytest.mark.parametrize("most_sets", [1, 3, 65_536])
def test_json_objects_count_as_the_records_they_are_of(monkeypatch: pytest.MonkeyPatch, most_sets: int) -> None:
    """Jobs of one set of nodes are added up before each node gets its part, in any number of parts."""
    monkeypatch.setattr(nodes, "_MOST_SETS", most_sets)
    rng = random.Random(3)
    rows = simulate(rng, 300, bad="n03", factor=20.0)
    rows += [
        record(301, nodes="", node_evidence=()),
        record(302, nodes="", node_evidence=(("n01", "fault"),)),
        record(303, nodes="n[01-02],n01", node_evidence=(("x9", "died-first"),), end=None),
        record(304, status="completed", elapsed_s=None, end=None, generated_at=None, user=None),
    ]
    rows = [replace(row, elapsed_s=row.elapsed_s and float(round(row.elapsed_s))) for row in rows]
    of_objects, of_records = (Census(), Census()), (Census(), Census())
    for number, row in enumerate(rows):
        of_objects[number % 2].add_object(orjson.loads(to_json(row)))
        of_records[number % 2].add(row)
    for first, second in (of_objects, of_records):
        first.merge(second)
    expected = of_records[0].stats(T0)
    assert sum(row.events for row in expected) > 10
    assert of_objects[0].stats(T0) == expected


def test_thousands_of_trials_are_counted_exactly() -> None:
    for events, chance in ((1, 1e-4), (5, 1e-3), (40, 1e-3), (260, 1e-3), (2600, 0.5), (4990, 0.999), (5000, 0.999)):
        assert combined_tail(events, 5000, chance, ()) == pytest.approx(binomial_tail(events, 5000, chance), rel=1e-9)


def test_an_empty_ledger_has_no_rows() -> None:
    assert node_stats([], T0) == []
