"""What the launcher does not record is found elsewhere: in the log, in accounting's submit line, on disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.cli.main import main
from slurm_triage.locate import locate
from slurm_triage.model.diagnosis import Resubmit
from slurm_triage.model.facts import AttemptFacts, Header
from slurm_triage.model.files import CheckpointDir
from slurm_triage.model.job import NO_JOB, Job
from slurm_triage.model.progress import Progress
from slurm_triage.model.report import Report
from slurm_triage.pipeline import Engine, triage
from slurm_triage.resubmit.rebuild import Command, command_of, rebuild
from tests.resubmit.test_rebuild import NO_ATTEMPT, RETRY

LAUNCHER = Path(__file__).resolve().parents[1] / "corpus" / "launcher"
HEADER = Header(job_id="7", nnodes=2, passthrough_args="steps=5", model_name="m", model_alias="al", exp_tag="t-steps_5")
ATTEMPT = AttemptFacts(index=0, header=HEADER, launch_args=("steps=5",), launch_args_exact=True)
RECORDED = "./submit.sh m:al:t -N 2 -- steps=5"


def built(attempt: AttemptFacts = ATTEMPT, submit_cmd: str | None = None, job: Job = NO_JOB, **args: str) -> Command:
    command = rebuild(replace(RETRY, args=args), job, attempt, submit_cmd, ())
    assert command is not None
    return command


SURROUNDINGS = replace(
    ATTEMPT,
    env={"image": "my/img:tag", "Checking out": "a/b", "NCCL_DEBUG": "WARN"},
    stage_limits_s={"preflight": 900.0, "pull": 1800.0, "ecc": 300.0, "train": None},
)


@pytest.mark.parametrize("submit_cmd", [None, RECORDED])
def test_the_launchers_environment_comes_from_the_log(submit_cmd: str | None) -> None:
    """submit_cmd.txt records RAY and JOB_WORKSPACE and nothing else of it."""
    line = built(SURROUNDINGS, submit_cmd).line()
    assert line.startswith(
        "STAGE_TIMEOUTS=pull:1800 DOCKER_IMAGE=my/img:tag MAXTEXT_PATCH_BRANCH=a/b ./submit.sh m:al:t -N 2"
    )
    # A new limit is put over the old ones.
    changed = dict(built(SURROUNDINGS, submit_cmd, STAGE_TIMEOUTS="preflight:1800").env)
    assert changed["STAGE_TIMEOUTS"] == "pull:1800,preflight:1800"


def test_what_is_recorded_or_usual_is_not_said_twice() -> None:
    assert dict(built(SURROUNDINGS, f"DOCKER_IMAGE=mine {RECORDED}").env)["DOCKER_IMAGE"] == "mine"
    usual = replace(ATTEMPT, env={"image": "rocm/jax-training:maxtext-v26.2"}, stage_limits_s={"train": None})
    assert built(usual, RECORDED).env == ()
    argument = replace(SURROUNDINGS, launch_args=("_env_MAXTEXT_PATCH_BRANCH=a/b",))
    assert "MAXTEXT_PATCH_BRANCH" not in dict(built(argument, RECORDED).env)
    assert built(SURROUNDINGS, "RAY=1 ./k8s_submit.sh m -N 2 -- steps=5").env == (("RAY", "1"),)


@pytest.mark.parametrize(
    ("case", "env"),
    [
        ("slurm-patch-branch-env", {"MAXTEXT_PATCH_BRANCH": "yihuang/nosuch"}),
        ("slurm-quoting", {"STAGE_TIMEOUTS": "preflight:600,train:3600", "DOCKER_IMAGE": "my/img:tag"}),
        ("slurm-nccl-rank0", {}),
    ],
)
def test_real_logs(case: str, env: dict[str, str]) -> None:
    command = command_of(triage(NO_JOB, locate(str(LAUNCHER / case / "log.txt")), Engine.load()))
    assert command is not None
    assert dict(command.env) == env


LINE = "sbatch -J JAX-m-t-steps_5 --output=/repo/outputs/%j-JAX-m-t-steps_5.log{ray}{user} /a/_job.sbatch m t al -- steps=5"
RAY = " --export=ALL,USE_RAY=true,LOGIN_NODE_HOSTNAME=l,LOGIN_NODE_IP=1"
USERS = " -N 2 -w n1,n2 --comment two words --time=7 --export=ALL,A=1"


def accounting(line: str, **more: object) -> Job:
    known = {"job_id": "7", "comment": "two words", "time_limit_s": 420.0, "partition": "gpu", **more}
    return Job(submit_line=line, **known)  # type: ignore[arg-type]


@pytest.mark.parametrize("ray", ["", RAY])
def test_options_come_from_the_submit_line_when_the_artifact_is_gone(ray: str) -> None:
    """All of the user's, and none of the launcher's own."""
    command = built(job=accounting(LINE.format(ray=ray, user=USERS)))
    assert " ".join(command.words) == (
        "./submit.sh m:al:t -N 2 --comment two words --time=7 --export=ALL,A=1 -w n[1-2] -- steps=5"
    )
    assert "two words" in command.words
    assert any("without its quotes" in note for note in command.notes)


@pytest.mark.parametrize(
    "line",
    ["", "sbatch -N 2 other.sh", LINE.format(ray="", user=" --comment a b c"), "sbatch /a/_job.sbatch m t al -- x"],
)
def test_where_the_submit_line_does_not_help_accounting_has_to_do(line: str) -> None:
    command = built(job=accounting(line))
    assert list(command.words)[2:6] == ["-N", "2", "--time=00:07:00", "--partition=gpu"]
    assert any("only the submit command had" in note for note in command.notes)


@pytest.mark.parametrize(
    ("tag", "alias", "spec"), [("t", "al", "m:al:t"), ("t", "", "m:t"), ("", "", "m"), ("", "al", "m:al:")]
)
def test_a_job_that_left_no_log_is_given_to_the_launcher_again(tag: str, alias: str, spec: str) -> None:
    """sbatch with the copy of the job script would fail: the launcher has deleted it."""
    line = LINE.format(ray=RAY, user=" -N 2").replace(" m t al ", f" m {tag} {alias} ")
    command = built(NO_ATTEMPT, job=accounting(line))
    assert command.line() == f"RAY=1 ./submit.sh {spec} -N 2 -- steps=5"
    assert any("there is no log" in note for note in command.notes)


@pytest.mark.parametrize(
    ("stdout", "workspace"),
    [
        ("/repo/outputs/7-JAX-m.log", None),
        ("/repo/outputs/7-JAX-m-_env_MAXTEXT_PATCH_BRANCH_a/b.log", None),
        ("/data/ws/7-JAX-m.log", "/data/ws"),
        ("/data/ws/%j-JAX-m-_env_X_a/b.log", "/data/ws"),
        ("/elsewhere/outputs/7-JAX-m.log", "/elsewhere/outputs"),
        ("/data/my.log", None),
        (None, None),
    ],
)
def test_the_workspace_is_where_the_log_was(stdout: str | None, workspace: str | None) -> None:
    assert dict(built(job=Job(job_id="7", stdout=stdout, work_dir="/repo")).env).get("JOB_WORKSPACE") == workspace


def report(why: str, progress: Progress, checkpoints: tuple[CheckpointDir, ...]) -> Report:
    found = triage(NO_JOB, locate(str(LAUNCHER / "slurm-nccl-rank0" / "log.txt")), Engine.load())
    diagnosis = replace(found.diagnosis, resubmit=Resubmit("other-nodes", why, exclude=("n1",)))
    return replace(found, diagnosis=diagnosis, progress=progress, files=replace(found.files, checkpoints=checkpoints))


@pytest.mark.parametrize(
    ("progress", "steps", "why", "note"),
    [
        (Progress(last_checkpoint=200), (), "x", "from checkpoint 200, if that directory has its final name"),
        (Progress(restored_from=400), (), "x", "from checkpoint 400, if"),
        (Progress(last_checkpoint=200), (), "x; it continues from checkpoint 200", None),
        (Progress(last_checkpoint=200, checkpointing=False), (), "x", None),
        (Progress(), (), "x", None),
        (
            Progress(last_checkpoint=200),
            ((100, True), (200, False)),
            "x",
            "from checkpoint 100, the newest that is complete",
        ),
        (Progress(last_checkpoint=200), ((200, False),), "x", "from checkpoint 200, if"),
    ],
)
def test_where_the_next_run_begins(
    progress: Progress, steps: tuple[tuple[int, bool], ...], why: str, note: str | None
) -> None:
    dirs = tuple(CheckpointDir(step, committed, f"/c/{step}") for step, committed in steps)
    command = command_of(report(why, progress, dirs))
    assert command is not None
    told = [n for n in command.notes if "checkpoint" in n]
    assert (note is None and not told) or (len(told) == 1 and note is not None and note in told[0])


def test_advice_is_told_although_nothing_says_how_it_was_submitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "x.log"
    log.write_text("Traceback (most recent call last):\nValueError: x\n")
    assert main(["resubmit", str(log)]) == 3
    said = capsys.readouterr()
    assert said.out.startswith("# after-fix: ")
    assert "submit it by hand" in said.err


def test_the_job_of_another_cluster_is_asked_for_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[object] = []

    def of_cluster(*args: object) -> list[Report]:
        asked.append(args)
        return [report("x", Progress(), ())]

    monkeypatch.setattr("slurm_triage.cli.resubmit.triage_now", of_cluster)
    assert main(["resubmit", "7877", "-M", "beta"]) == 0
    assert asked == [("7877", None, ("beta",))]
    assert "# where beta is the cluster that sbatch submits to\n" in capsys.readouterr().out
