"""One failure has one fingerprint, wherever and whenever it happens; different failures have different ones."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_triage.ledger.fingerprint import cause_rule, fingerprint, traceback_frames
from slurm_triage.model.diagnosis import Diagnosis, Finding, Primary, Resubmit
from slurm_triage.model.facts import Match, Place
from slurm_triage.model.job import Job
from slurm_triage.model.same_text import normalise


def diagnosis(
    title: str, cls: str = "gpu-oom", rule: str = "r1", block: tuple[str, ...] = (), rank: int = 3
) -> Diagnosis:
    primary = Primary(cls, title, "Training", "user", rank, (rank,), "chi2803", 7, "high", "after-fix")
    place = Place(0, 0, title)
    match = Match(rule, rank, "chi2803", 1, place, place, 1, 1, block=block)
    finding = Finding(cls, "root", rule, title, rank, "chi2803", 7, match=match)
    return Diagnosis("failed", primary, (finding,), (), (), (), (), Resubmit("none", ""), (), "", (), ())


NODES = ("chi2801", "chi2803", "chi2899.cluster.local")

SAME = [
    ("XLA could not allocate 221.71GiB on rank 3", "XLA could not allocate 9.5GiB on rank 11"),
    ("node chi2803 lost", "node chi2801 lost"),
    ("host chi2803.cluster.local:8080 is down", "host chi2801:99 is down"),
    ("connect to 10.0.3.7<4567> failed", "connect to 10.1.2.3<99> failed"),
    ("peer fe80::a00:27ff:fe4e:66a1 gone", "peer fe80::1:2:3:4 gone"),
    ("fault at address 0x7f3a00 at 2026-03-10 08:09:57", "fault at address 0xdead at 2026-03-11T18:00:00.5Z"),
    ("step 316: loss is nan", "step 9000: loss is nan"),
    ("no file /home/alice/run7/ckpt", "no file /scratch/bob/x/ckpt"),
    ("worker 3f2a9b7c1d dead", "worker 0099aabbcc dead"),
    ("id 123e4567-e89b-12d3-a456-426614174000 dead", "id 00000000-0000-4000-8000-000000000001 dead"),
    ("PCI 0000:3b:00.0 fell off", "PCI 0000:af:00.0 fell off"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_differs_between_occurrences_does_not_count(one: str, other: str) -> None:
    assert normalise(one, NODES) == normalise(other, NODES)
    assert fingerprint(diagnosis(one), NODES) == fingerprint(diagnosis(other, rank=9), NODES)


def test_what_differs_between_failures_counts() -> None:
    prints = {
        fingerprint(d)
        for d in (
            diagnosis("XLA could not allocate 5 GiB"),
            diagnosis("NCCL could not allocate 5 GiB"),
            diagnosis("XLA could not allocate 5 GiB", cls="other"),
            diagnosis("XLA could not allocate 5 GiB", rule="r2"),
            diagnosis("no file /a/ckpt"),
            diagnosis("no file /a/data"),
        )
    }
    assert len(prints) == 6


def traceback(path: str, line: int, last: str = "ValueError: bad shape (3, 4)") -> tuple[str, ...]:
    return (
        "Traceback (most recent call last):",
        f'  File "{path}/train.py", line {line}, in main',
        "    step(state)",
        f'  File "{path}/model.py", line {line + 9}, in forward',
        "    return x @ y",
        last,
    )


def test_the_same_traceback_elsewhere_is_the_same_failure() -> None:
    one = diagnosis("Python exception", block=traceback("/home/alice/maxtext", 10))
    two = diagnosis("Python exception", block=traceback("/opt/other/maxtext", 99, "ValueError: bad shape (7, 9)"))
    assert fingerprint(one) == fingerprint(two)
    assert traceback_frames(traceback("/x", 1)) == ("train.py:main", "model.py:forward")


def test_another_exception_or_place_is_another_failure() -> None:
    base = diagnosis("Python exception", block=traceback("/a", 1))
    other_error = diagnosis("Python exception", block=traceback("/a", 1, "KeyError: 'x'"))
    other_place = diagnosis("Python exception", block=traceback("/a", 1)[:2] + traceback("/a", 1)[-1:])
    assert len({fingerprint(base), fingerprint(other_error), fingerprint(other_place)}) == 3


def test_no_failure_no_fingerprint() -> None:
    healthy = replace(diagnosis("x"), primary=None)
    assert fingerprint(healthy) is None
    assert cause_rule(healthy) is None
    assert fingerprint(diagnosis("scancel", cls="cancelled")) is None


def test_a_cause_without_a_finding_still_has_one() -> None:
    bare = replace(diagnosis("hang after the last step"), findings=())
    assert fingerprint(bare) is not None
    assert cause_rule(bare) is None


@given(st.text(max_size=80), st.integers(0, 10**9), st.integers(0, 10**9))
def test_numbers_never_count(text: str, one: int, other: int) -> None:
    assert normalise(f"{text} {one} x") == normalise(f"{text} {other} x")


@given(st.text(max_size=200))
def test_any_title_has_a_fingerprint(title: str) -> None:
    assert len(fingerprint(diagnosis(title)) or "") == 16


def test_without_a_known_cause_two_programs_have_nothing_in_common() -> None:
    """Exit status 3 of one program is not exit status 3 of another; SIGKILL may well be the same killer."""
    silent = diagnosis("the job failed and nothing in the log says why", cls="unknown-death", rule="completion")

    def made(
        name: str, code: int | None, signal: int | None = None, state: str = "FAILED", user: str = "alice"
    ) -> str | None:
        job = Job(job_id="1", name=name, exit_code=code, exit_signal=signal, state=state, user=user)
        return fingerprint(silent, NODES, job)

    assert made("a", 3) == made("a", 3)
    assert len({made("a", 3), made("b", 3), made("a", 4), made("a", None)}) == 4
    assert made("wrap", 1) != made("wrap", 1, user="bob")
    assert made("a", 0, 9) == made("b", 0, 9, user="bob") == made("b", 137)
    assert made("a", 0, 9) != made("a", 0, 15)
    # What ssh and mpirun end with is no signal.
    assert made("a", 255) != made("b", 255)
    assert made("a", 0, state="NODE_FAIL") == made("b", 0, state="NODE_FAIL")
    spoken = diagnosis("XLA could not allocate")
    assert fingerprint(spoken, NODES, Job(job_id="1", name="a")) == fingerprint(
        spoken, NODES, Job(job_id="2", name="b")
    )
