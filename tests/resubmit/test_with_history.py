"""What other jobs change in the advice and in the command line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_triage.diagnosis.recurring import with_history
from slurm_triage.model.diagnosis import Primary, Resubmit, Suspect
from slurm_triage.model.facts import AttemptFacts, LogFacts
from slurm_triage.model.files import JobFiles
from slurm_triage.model.history import Advice, History, Recurrence
from slurm_triage.model.job import Job
from slurm_triage.model.report import Report
from slurm_triage.resubmit.rebuild import command_of
from tests.report.sample_base import diagnosis, report

HANG = Primary("hang", "all ranks stopped", "Training", "fabric", None, (), None, 7, "high", "same-nodes")
CRASH = replace(HANG, cls="signal-kill", title="SIGSEGV")
SUBMIT = "./submit.sh m -N 2 -w n[1-2] -- steps=5"


def job(primary: Primary, action: str = "same-nodes", submit: str = SUBMIT, **resubmit: object) -> Report:
    verdict = diagnosis(status="failed", primary=primary, resubmit=Resubmit(action, "a retry may help", **resubmit))  # type: ignore[arg-type]
    return replace(
        report(),
        job=Job(job_id="7", nodes=("n1", "n2")),
        nodes=("n1", "n2"),
        files=JobFiles(job_id="7", submit_cmd=submit),
        facts=LogFacts(attempts=(AttemptFacts(index=0),)),
        diagnosis=verdict,
    )


def again(*, same: tuple[str, ...] = ("n1", "n2"), culprit: tuple[str, ...] = (), all_nodes: bool = True) -> History:
    return History(Recurrence(2, 3600.0, ("6",), same, all_nodes, culprit))


def line(made: Report) -> str:
    command = command_of(made)
    assert command is not None
    return command.line()


def test_a_first_hang_keeps_its_nodes_and_a_second_one_loses_them() -> None:
    free = SUBMIT.replace(" -w n[1-2]", "")
    first = with_history(job(HANG, submit=free), History())
    assert line(first) == "./submit.sh m -N 2 -w 'n[1-2]' -- steps=5"
    second = with_history(job(HANG, submit=free), again())
    assert second.diagnosis.resubmit.action == "other-nodes"
    assert "job 6 ended this way on n[1-2]" in second.diagnosis.resubmit.why
    assert line(second) == "./submit.sh m -N 2 -- steps=5 _env_NCCL_DEBUG=INFO"
    assert second.diagnosis.suspects == ()


def test_the_users_own_node_list_goes_with_a_word_about_it() -> None:
    command = command_of(with_history(job(HANG), again()))
    assert command is not None
    assert "-w" not in command.words
    assert "-w n[1-2] is left out: other nodes are asked for" in command.notes


def test_a_hang_that_came_again_elsewhere_is_not_blamed_on_nodes() -> None:
    made = with_history(job(HANG), again(same=(), all_nodes=False))
    assert "look beyond the nodes" in made.diagnosis.resubmit.why
    assert made.diagnosis.resubmit.exclude == ()


def test_advice_in_force_excludes_whatever_the_class_says() -> None:
    advice = History(advice=(Advice("n2", "gpu-hw-fault in job 5; 1 failure in 3 jobs", 1e9, "direct"),))
    made = with_history(job(HANG), advice)
    assert made.diagnosis.suspects == (Suspect("n2", ("gpu-hw-fault in job 5; 1 failure in 3 jobs",), "high", True),)
    assert (made.diagnosis.resubmit.action, made.diagnosis.resubmit.exclude) == ("other-nodes", ("n2",))
    assert line(made) == "./submit.sh m -N 2 --exclude=n2 -- steps=5"
    after_fix = with_history(job(CRASH, "after-fix"), advice)
    assert (after_fix.diagnosis.resubmit.action, after_fix.diagnosis.resubmit.exclude) == ("after-fix", ("n2",))


@pytest.mark.parametrize(("all_nodes", "excluded"), [(False, ("n1",)), (True, ())])
def test_the_same_node_twice_is_evidence_only_if_others_changed(all_nodes: bool, excluded: tuple[str, ...]) -> None:
    made = with_history(job(CRASH), again(same=("n1",), culprit=("n1",), all_nodes=all_nodes))
    assert made.diagnosis.resubmit.exclude == excluded


def test_reasons_are_joined_and_old_exclusions_stay() -> None:
    before = job(CRASH, "other-nodes", exclude=("n1",), changes=("leave out n1", "set x=1"))
    own = replace(before.diagnosis, suspects=(Suspect("n1", ("Xid 79",), "high", True),))
    advice = History(advice=(Advice("n2", "why", 1e9, "statistics"), Advice("n1", "before", 1e9, "statistics")))
    made = with_history(replace(before, diagnosis=own), advice)
    assert [(s.node, s.why, s.confidence) for s in made.diagnosis.suspects] == [
        ("n1", ("Xid 79", "before"), "high"),
        ("n2", ("why",), "medium"),
    ]
    assert made.diagnosis.resubmit.exclude == ("n1", "n2")
    assert made.diagnosis.resubmit.changes == ("set x=1", "leave out n[1-2]")


def test_where_running_again_is_pointless_it_stays_so() -> None:
    advice = History(advice=(Advice("n2", "why", 1e9, "direct"),))
    assert with_history(job(CRASH, "none"), advice).diagnosis.resubmit.action == "none"
    assert with_history(job(CRASH, "none"), advice).diagnosis.resubmit.exclude == ()
