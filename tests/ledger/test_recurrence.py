"""The same failure again, outbreaks, and what changed since the last good run."""

from dataclasses import replace

import pytest

from slurm_triage.ledger.last_good import last_good
from slurm_triage.ledger.record import LedgerRecord
from slurm_triage.ledger.recurrence import OUTBREAK_JOBS, outbreaks, recurrence
from slurm_triage.model.history import Shared, ordinal
from tests.ledger.samples import DAY_S, T0, record


def at(number: int, day: float, **changes: object) -> LedgerRecord:
    end = T0 + day * DAY_S
    return record(number, **{"attempt": f"s{number}", "start": end - 3600, "end": end, **changes})


def test_third_time_in_two_days_on_the_same_nodes() -> None:
    history = [at(1, 0), at(2, 1), at(3, 2)]
    found = recurrence(history[2], history)
    assert found is not None
    assert (found.nth, found.span_s, found.previous) == (3, 2 * DAY_S, ("7002", "7001"))
    assert found.sentence == "Same failure as job 7002, 3rd time in 2 d, each time on chi[2801-2804]."


def test_the_failing_node_is_named_when_it_is_the_same() -> None:
    old = at(1, 0, nodes="chi[2803-2804]", node_evidence=(("chi2803", "fault"),))
    new = at(2, 0.5, nodes="chi[2801-2803]", node_evidence=(("chi2803", "fault"),))
    found = recurrence(new, [old, new])
    assert found is not None
    assert found.same_culprit == ("chi2803",)
    assert found.sentence.endswith("again on chi2803.")


def test_nodes_that_all_runs_had_among_others() -> None:
    found = recurrence(at(2, 1, nodes="chi[2801-2803]"), [at(1, 0, nodes="chi[2803-2804]")])
    assert found is not None
    assert found.sentence.endswith("each time with chi2803 among the nodes.")


def test_the_tasks_of_an_array_are_one_trial_and_the_runs_of_a_requeued_job_are_several() -> None:
    old = [at(i, 0.001 * i, array_job_id="6990", array_task_id=str(i)) for i in range(50)]
    own = [at(100 + i, 1 + 0.001 * i, array_job_id="7100", array_task_id=str(i)) for i in range(50)]
    found = recurrence(own[30], [*old, *own])
    assert found is not None
    assert (found.nth, found.previous) == (2, ("6990_49",))
    runs = [at(1, 0.1 * i, attempt=f"s{i}") for i in range(3)]
    again = recurrence(runs[2], runs)
    assert again is not None
    assert (again.nth, again.previous) == (3, ("7001", "7001"))


def test_on_different_nodes() -> None:
    found = recurrence(at(2, 1), [at(1, 0, nodes="m[1-4]")])
    assert found is not None
    assert found.sentence.endswith("on different nodes.")


@pytest.mark.parametrize(
    "changes",
    [
        {"fingerprint": "other"},
        {"fingerprint": None},
        {"cluster": "beta"},
        {"user": "bob", "name": "else"},
        {"end": T0 - 40 * DAY_S},
        {"end": T0 + 9 * DAY_S},
    ],
)
def test_what_is_no_recurrence(changes: dict[str, object]) -> None:
    assert recurrence(at(2, 1), [record(1, **{"end": T0, **changes})]) is None


def test_a_job_is_no_recurrence_of_itself_nor_of_nothing() -> None:
    job = at(1, 0)
    assert recurrence(job, [job]) is None
    assert recurrence(at(2, 1, fingerprint=None), [at(1, 0, fingerprint=None)]) is None


@pytest.mark.parametrize(
    ("number", "text"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (22, "22nd"), (113, "113th")],
)
def test_ordinals(number: int, text: str) -> None:
    assert ordinal(number) == text


def healthy(count: int) -> list[LedgerRecord]:
    return [
        at(
            500 + i,
            0.01 * i,
            status="completed",
            cls=None,
            fingerprint=None,
            nodes=f"h[{i}-{i + 3}]",
            user=f"u{i % 9}",
            name=f"ok{i}",
        )
        for i in range(count)
    ]


def hit(count: int, **changes: object) -> list[LedgerRecord]:
    return [
        at(100 + i, 0.5 + i * 0.004, nodes=f"h{i},chi2803,m{i}", user=f"u{i}", name=f"run{i}", **changes)
        for i in range(count)
    ]


def test_an_outbreak_names_what_the_jobs_share_and_others_have_not() -> None:
    (found,) = outbreaks([*hit(6), *healthy(60)], switch_of=lambda node: "leaf7" if node == "chi2803" else "leaf1")
    assert (len(found.jobs), found.users, found.cls) == (6, 6, "gpu-hw-fault")
    assert found.shared == (Shared("node", "chi2803", 6), Shared("switch", "leaf7", 6))
    assert "hit 6 jobs of 6 users" in found.sentence
    assert "node chi2803 (6)" in found.sentence


def test_nodes_that_are_shared_by_all_are_told_together() -> None:
    rows = [at(100 + i, 0.5 + i * 0.004, nodes="k[11-26]", user=f"u{i}", name=f"run{i}") for i in range(6)]
    (found,) = outbreaks([*rows, *healthy(60)])
    assert "in common: node k[11-26] (6)." in found.sentence


def test_what_everybody_has_is_not_told() -> None:
    rows = [*hit(6), *healthy(60)]
    assert {s.what for s in outbreaks(rows)[0].shared} == {"node"}


def test_a_shared_file_system_or_image_is_told() -> None:
    rows = hit(6, job_dir="/scratch/a/out/1", image="img:2")
    shared = {(s.what, s.value) for s in outbreaks([*rows, *healthy(60)])[0].shared}
    assert shared >= {("file system", "/scratch/a"), ("image", "img:2")}


def test_few_jobs_or_a_long_time_are_no_outbreak() -> None:
    assert outbreaks([*hit(OUTBREAK_JOBS - 1), *healthy(20)]) == []
    assert outbreaks([at(i, i * 0.1) for i in range(20)]) == []


def test_an_array_or_a_job_tried_again_is_one_job() -> None:
    array = [at(i, 0.001 * i, array_job_id="99", array_task_id=str(i)) for i in range(50)]
    assert outbreaks(array) == []
    tries = [at(1, 0.001 * i, attempt=f"s{i}") for i in range(50)]
    assert outbreaks(tries) == []


def test_outbreak_with_nothing_in_common_says_so() -> None:
    rows = [at(i, 0.001 * i, nodes=f"a{i}", user=f"u{i}", name=f"n{i}") for i in range(6)]
    assert "nothing in common" in outbreaks([*rows, *healthy(40)])[0].sentence


@pytest.mark.parametrize("cls", ["time-limit", "preempted", "requeued"])
def test_what_ends_jobs_every_hour_is_an_outbreak_only_if_something_may_be_broken(cls: str) -> None:
    rows = [at(i, 0.001 * i, cls=cls, nodes=f"a{i}", user=f"u{i}", name=f"n{i}") for i in range(9)]
    assert outbreaks([*rows, *healthy(40)]) == []
    slow = [replace(row, job_dir=f"/scratch/slow/{row.job_id}") for row in rows]
    (found,) = outbreaks([*slow, *healthy(40)])
    assert "file system /scratch/slow (9)" in found.sentence
    assert len(outbreaks([replace(row, cls="fs-error") for row in rows])) == 1


@pytest.mark.parametrize("cls", ["time-limit", "unknown-death"])
def test_what_happened_to_another_program_is_not_the_same_failure(cls: str) -> None:
    mine = at(2, 1, cls=cls, name="train")
    assert recurrence(mine, [at(1, 0, cls=cls, name="evaluate")]) is None
    assert recurrence(mine, [at(1, 0, cls=cls, name="train", user="bob")]) is None
    assert recurrence(mine, [at(1, 0, cls=cls, name="train")]) is not None
    broken = replace(mine, cls="python-exception")
    assert recurrence(broken, [at(1, 0, name="evaluate")]) is not None
    assert recurrence(broken, [at(1, 0, name="train", user="bob")]) is not None


def good(number: int, day: float, **changes: object) -> LedgerRecord:
    return at(number, day, **{"status": "completed", "cls": None, "fingerprint": None, **changes})


def test_differences_to_the_last_good_run() -> None:
    before = good(1, 0, image="img:1", throughput=3290.0, throughput_unit="tokens/s/device", args_digest="a",
                  args={"steps": "0000", "lr": "1111", "remat": "2222"}, versions={"JAX_VERSION": "0.8"}, report_path="/o/7001/triage.json")  # fmt: skip
    now = at(5, 3, nodes="chi[2802-2805]", image="img:2", throughput=2520.0, throughput_unit="tokens/s/device",
             args_digest="b", args={"steps": "0001", "remat": "2222"}, versions={"JAX_VERSION": "0.9"})  # fmt: skip
    found = last_good(now, [good(2, -5), before, good(3, 1, name="other", model=None), at(4, 2), now])
    assert found is not None
    assert (found.job_id, found.report_path) == ("7001", "/o/7001/triage.json")
    assert {d.what: (d.before, d.now) for d in found.differences} == {
        "nodes": ("chi2801", "chi2805"),
        "image": ("img:1", "img:2"),
        "JAX_VERSION": ("0.8", "0.9"),
        "launch arguments": ("see its log", "other lr, steps"),
        "throughput": ("3290 tokens/s/device", "2520 tokens/s/device (-23%)"),
    }


def test_what_one_record_does_not_know_is_no_change() -> None:
    """Records of an earlier version hold no names of arguments, and not every log shows every version."""
    before = good(1, 0, args_digest="a", versions={"JAX_VERSION": "0.8"})
    now = at(5, 3, args_digest="b", args={"steps": "0001"}, versions={"NCCL_version": "2.21"})
    found = last_good(now, [before])
    assert found is not None
    assert [(d.what, d.before, d.now) for d in found.differences] == [("launch arguments", "see its log", "changed")]


@pytest.mark.parametrize(
    "changes",
    [{"status": "failed"}, {"degraded": True}, {"name": "other"}, {"cluster": "beta"}, {"end": T0 + 9 * DAY_S}],
)
def test_what_is_no_good_run(changes: dict[str, object]) -> None:
    assert last_good(at(5, 3), [good(1, 0, **changes)]) is None


def test_the_same_name_is_preferred_to_the_same_model() -> None:
    history = [good(1, 0), good(2, 1, name="other", model="llama2-70b")]
    found = last_good(at(5, 3, model="llama2-70b"), history)
    assert found is not None
    assert found.job_id == "7001"
    found = last_good(at(5, 3, model="llama2-70b"), history[1:])
    assert found is not None
    assert found.job_id == "7002"


def test_equal_runs_do_not_differ() -> None:
    found = last_good(at(5, 3), [good(1, 0)])
    assert found is not None
    assert found.differences == ()
