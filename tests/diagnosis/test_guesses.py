"""SIGKILL says how a process ended. That memory was the reason is a guess until the kernel or Slurm says so."""

from __future__ import annotations

import pytest

from slurm_triage.model.rule import Rule
from slurm_triage.rules.load import load_rules
from tests.conftest import Triage

GUESSES = [rule for rule in load_rules(samples=True).rules if rule.guess]
OF_MEMORY = [rule for rule in GUESSES if rule.cls == "oom-host"]
OOM_KILL = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.3. Some of the step tasks have been OOM Killed.\n"


def names(rule: Rule) -> str:
    return rule.id


def test_guesses_are_known() -> None:
    assert {rule.id for rule in OF_MEMORY} >= {
        "torchrun-worker-sigkill", "torchrun-block-sigkill", "dataloader-worker-killed", "ray-pod-memory-limit",
        "pyxis-child-killed", "shell-killed", "compiler-killed",
    }  # fmt: skip


@pytest.mark.parametrize("rule", GUESSES, ids=names)
def test_a_guess_is_never_sure(triage_text: Triage, rule: Rule) -> None:
    for sample in rule.samples_match:
        primary = triage_text(f"{sample}\n").diagnosis.primary
        assert primary is not None
        assert (primary.cls, primary.confidence == "high") == (rule.cls, False), sample


@pytest.mark.parametrize("rule", OF_MEMORY, ids=names)
def test_the_kernels_word_makes_it_sure(triage_text: Triage, rule: Rule) -> None:
    primary = triage_text(f"{rule.samples_match[0]}\n{OOM_KILL}").diagnosis.primary
    assert primary is not None
    assert (primary.cls, primary.confidence) == ("oom-host", "high")
    accounting = {"job_id": "7", "state": "OUT_OF_MEMORY", "exit_code": "0:125"}
    primary = triage_text(f"{rule.samples_match[0]}\n", accounting=accounting).diagnosis.primary
    assert primary is not None
    assert (primary.cls, primary.confidence) == ("oom-host", "high")


def test_a_worker_killed_while_the_job_is_stopped_is_no_cause(triage_text: Triage) -> None:
    """The kernel's word counts wherever it stands; a guess behind the cancel line does not."""
    text = "slurmstepd: error: *** JOB 7 ON chi2801 CANCELLED AT 2026-11-30T01:54:32 ***\n"
    killed = next(r for r in OF_MEMORY if r.id == "torchrun-worker-sigkill").samples_match[0]
    primary = triage_text(f"{text}{killed}\n").diagnosis.primary
    assert primary is not None
    assert primary.cls == "cancelled"
    primary = triage_text(f"{text}{OOM_KILL}").diagnosis.primary
    assert primary is not None
    assert primary.cls == "oom-host"
