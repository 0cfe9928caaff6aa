"""One look at the ledger gathers all that bears on a job."""

from pathlib import Path

from slurm_triage.ledger.append import open_writer
from slurm_triage.ledger.history import look_back
from tests.ledger.samples import DAY_S, T0, record
from tests.ledger.test_recurrence import at, good, healthy, hit


def test_look_back(tmp_path: Path) -> None:
    before = good(1, -3, nodes="h[1-2],k9", image="img:1", setup_s=240.0)
    again = at(2, -1, nodes="h[1-2],k9", node_evidence=(("k9", "fault"),))
    job = at(3, 0.51, nodes="h[2-3],k9", image="img:2")
    foreign = at(4, 0.5, cluster="beta")
    rows = [before, again, foreign, *hit(6), job, *healthy(60)]
    with open_writer(tmp_path, "alpha") as writer:
        writer.append(rows)
    found = look_back(job, [tmp_path], T0 + DAY_S)
    assert found.recurrence is not None
    assert found.recurrence.previous[-1] == "7002"
    assert found.outbreak is not None
    assert len(found.outbreak.jobs) >= 6
    assert found.last_good is not None
    assert found.last_good.job_id == "7001"
    assert [a.node for a in found.advice] == ["k9"]
    assert found.setup_s == (240.0,)
    text = " ".join(found.sentences)
    assert "Same failure as job" in text
    assert "Changed since job 7001, which worked: nodes without h1, with h3; image img:1 -> img:2." in text
    assert "Keep away from k9" in text


def test_a_first_failure_has_no_history(tmp_path: Path) -> None:
    with open_writer(tmp_path, "alpha") as writer:
        writer.append([record(1)])
    found = look_back(record(1), [tmp_path], T0 + DAY_S)
    assert (found.recurrence, found.outbreak, found.last_good, found.advice) == (None, None, None, ())
    assert found.sentences == ()
