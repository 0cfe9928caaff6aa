"""The printed command, run through a real bash with a stub submit.sh that records what it got."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.model.diagnosis import Resubmit
from slurm_triage.model.facts import AttemptFacts, Header
from slurm_triage.model.job import NO_JOB, Job
from slurm_triage.resubmit.rebuild import Command, rebuild
from slurm_triage.resubmit.recorded import from_words
from slurm_triage.resubmit.words import split

NO_ATTEMPT = AttemptFacts(index=0)
RETRY = Resubmit("same-nodes", "retry")
TEXT = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=12)


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a submit.sh that prints its arguments and environment as JSON."""
    directory = tmp_path_factory.mktemp("stub")
    script = directory / "submit.sh"
    script.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        "print(json.dumps([sys.argv[1:], {k: os.environ.get(k) for k in ('RAY', 'STAGE_TIMEOUTS')}]))\n"
    )
    script.chmod(0o755)
    return directory


def through_bash(command: Command, directory: Path) -> tuple[list[str], dict[str, str | None]]:
    done = subprocess.run(
        ["bash", "-c", command.line()], cwd=directory, check=True, capture_output=True, env={"PATH": "/usr/bin:/bin"}
    )
    argv, env = json.loads(done.stdout)
    return argv, env


def built(submit_cmd: str, resubmit: Resubmit = RETRY, nodes: tuple[str, ...] = (), pin: bool = False) -> Command:
    command = rebuild(resubmit, NO_JOB, NO_ATTEMPT, submit_cmd, nodes, pin=pin)
    assert command is not None
    return command


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXT, max_size=5))
def test_any_arguments_survive_bash(stub: Path, arguments: list[str]) -> None:
    command = Command((("RAY", "1"),), ("./submit.sh", "model:tag", "--", *arguments), ())
    assert through_bash(command, stub)[0] == ["model:tag", "--", *arguments]


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=5))
def test_what_bash_quotes_is_read_back(words: list[str]) -> None:
    quoted = subprocess.run(
        ["bash", "-c", "printf '%q ' \"$@\"", "_", *words], check=True, capture_output=True, env={"LC_ALL": "C.UTF-8"}
    ).stdout.decode()
    assert split(quoted) == words


@pytest.mark.parametrize(
    "word",
    ["a\x03\ntouch pwned\n", "\x1b[201~;touch pwned\r", "x\u2028\u202ey", "it's `touch pwned`\\\n", "\U000e0001é"],
)
def test_what_is_pasted_runs_nothing_else(stub: Path, word: str) -> None:
    """A terminal that gets a control character from a paste obeys it, whatever the quotes."""
    command = Command((("RAY", "1"),), ("./submit.sh", "m", "--", word), ())
    assert command.line().isprintable()
    assert through_bash(command, stub)[0] == ["m", "--", word]
    assert split(command.line())[-1] == word
    assert not (stub / "pwned").exists()


@pytest.mark.parametrize("count", ["9" * 6000, "²", "٣", "-1", "1-" + "9" * 6000])
def test_a_count_of_nodes_that_is_none(stub: Path, count: str) -> None:
    argv, _ = through_bash(built(f"./submit.sh m -N {count} -w n1"), stub)
    assert argv[:3] == ["m", "-N", count]


def test_recorded_command_comes_back_unchanged(stub: Path) -> None:
    recorded = (
        "RAY=1 ./submit.sh llama2-70b:my-alias:t1 -N 2 --time=24:00:00 --comment two\\ words -- "
        'steps=5 _env_XLA_FLAGS=\\"--xla_a=1\\ --xla_b=2\\" hf_data_dir=it\\\'s'
    )
    argv, env = through_bash(built(recorded), stub)
    assert argv == [
        "llama2-70b:my-alias:t1", "-N", "2", "--time=24:00:00", "--comment", "two words", "--",
        "steps=5", '_env_XLA_FLAGS="--xla_a=1 --xla_b=2"', "hf_data_dir=it's",
    ]  # fmt: skip
    assert env["RAY"] == "1"


@pytest.mark.parametrize(
    "options", ["--exclude=chi[2801-2802]", "--exclude chi2801,chi2802", "-x chi2801,chi2802", "-xchi2801,chi2802"]
)
def test_excludes_are_merged_into_one(stub: Path, options: str) -> None:
    resubmit = Resubmit("other-nodes", "bad node", exclude=("chi2805",))
    argv, _ = through_bash(built(f"./submit.sh m -N 2 {options} -- steps=5", resubmit), stub)
    assert argv == ["m", "-N", "2", "--exclude=chi[2801-2802,2805]", "--", "steps=5"]


def test_an_excluded_node_leaves_the_node_list(stub: Path) -> None:
    resubmit = Resubmit("other-nodes", "bad node", exclude=("n2",))
    argv, _ = through_bash(built("./submit.sh m -w n[1-4] -- steps=5", resubmit), stub)
    assert argv == ["m", "-w", "n[1,3-4]", "--exclude=n2", "--", "steps=5"]


def test_a_node_list_that_became_too_short_is_left_out(stub: Path) -> None:
    resubmit = Resubmit("other-nodes", "bad node", exclude=("n2",))
    command = built("./submit.sh m -N 2 -w n1,n2", resubmit)
    assert through_bash(command, stub)[0] == ["m", "-N", "2", "--exclude=n2"]
    assert any("-w is left out" in note for note in command.notes)


def test_a_hang_asks_for_the_same_nodes(stub: Path) -> None:
    argv, _ = through_bash(built("./submit.sh m -N 2", nodes=("n1", "n2"), pin=True), stub)
    assert argv == ["m", "-N", "2", "-w", "n[1-2]"]


def test_arguments_are_replaced_and_never_doubled(stub: Path) -> None:
    key = "jax_distributed_heartbeat_timeout_seconds"
    resubmit = Resubmit("same-nodes", "raise", args={key: "14400", "STAGE_TIMEOUTS": "pull:1800"})
    recorded = f"STAGE_TIMEOUTS=train:60,pull:10 ./submit.sh m -- {key}=100 steps=5 {key}=200"
    argv, env = through_bash(built(recorded, resubmit), stub)
    assert argv == ["m", "--", "steps=5", f"{key}=14400"]
    assert env["STAGE_TIMEOUTS"] == "train:60,pull:1800"


def test_a_job_name_that_gets_too_long_is_announced() -> None:
    resubmit = Resubmit("same-nodes", "x", args={"remat_policy": "full"})
    command = built(f"./submit.sh m -- {'a' * 240}=1", resubmit)
    assert any("job name would be" in note for note in command.notes)


def test_from_the_header_with_its_doubts(stub: Path) -> None:
    header = Header(
        job_id="7", nnodes=2, ray_port=6379, passthrough_args="steps=5 a=b", model_name="m", model_alias="al",
        exp_tag="t-steps_5-a_b",
    )  # fmt: skip
    attempt = AttemptFacts(index=0, header=header, launch_args=("steps=5", "a=b"), launch_args_exact=True)
    job = Job(job_id="7", time_limit_s=3600.0, partition="gpu", excluded_nodes="n9")
    command = rebuild(Resubmit("other-nodes", "x", exclude=("n3",)), job, attempt, None, ())
    assert command is not None
    argv, env = through_bash(command, stub)
    assert argv == [
        "m:al:t",
        "-N",
        "2",
        "--time=01:00:00",
        "--partition=gpu",
        "--exclude=n[3,9]",
        "--",
        "steps=5",
        "a=b",
    ]
    assert env["RAY"] == "1"
    assert command.notes


def test_plain_sbatch_jobs_get_an_sbatch_line() -> None:
    recorded = from_words(split("sbatch -N 2 --exclude=n1 -p gpu --exclusive train.sh --lr 0.1"))
    assert recorded is not None
    assert recorded.options == ("-N", "2", "--exclude=n1", "-p", "gpu", "--exclusive")
    job = Job(job_id="7", submit_line="sbatch -N 2 --exclude=n1 -p gpu --exclusive train.sh --lr 0.1")
    command = rebuild(Resubmit("other-nodes", "x", exclude=("n2",), args={"a": "b"}), job, NO_ATTEMPT, None, ())
    assert command is not None
    assert command.line() == "sbatch -N 2 -p gpu --exclusive '--exclude=n[1-2]' train.sh --lr 0.1"


def test_no_command_where_running_again_is_pointless() -> None:
    resubmit = Resubmit("none", "training is complete")
    assert rebuild(resubmit, NO_JOB, NO_ATTEMPT, "./submit.sh m", ()) is None
