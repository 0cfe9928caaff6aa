"""What is an option, what is the value of one, what is the script: as sbatch takes its words."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from slurm_triage.model.diagnosis import Resubmit
from slurm_triage.model.facts import AttemptFacts
from slurm_triage.model.job import Job
from slurm_triage.resubmit.options import _FLAGS, take_apart, words_of
from slurm_triage.resubmit.rebuild import Command, rebuild
from slurm_triage.resubmit.recorded import FROM_STDIN
from slurm_triage.resubmit.words import split

N2 = Resubmit("other-nodes", "n2 is bad", exclude=("n2",))


def rebuilt(submit_line: str, resubmit: Resubmit = N2, **job: object) -> Command:
    known = Job(job_id="7", submit_line=submit_line, **job)  # type: ignore[arg-type]
    command = rebuild(resubmit, known, AttemptFacts(index=0), None, ())
    assert command is not None
    # What is printed is what the shell gives back.
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {command.line()}"], capture_output=True, check=True)
    env = [f"{key}={value}" for key, value in command.env]
    assert done.stdout.decode().split("\0")[:-1] == [*env, *command.words]
    return command


@pytest.mark.parametrize(
    ("words", "script"),
    [
        ("-N 2 -p gpu t.sh -x n1", "t.sh -x n1"),
        ("-N2 --exclusive t.sh", "t.sh"),
        ("--exclusive=user --nice=5 --no-kill -k t.sh a", "t.sh a"),
        ("--comment -x t.sh", "t.sh"),
        ("-HN 2 t.sh", "t.sh"),
        ("-HN2 t.sh", "t.sh"),
        ("-QWv t.sh", "t.sh"),
        ("-N 2 -- t.sh --lr 1", "t.sh --lr 1"),
        ("-N1 : -N2 t.sh", "t.sh"),
        ("--mem 4G --gpus-per-node 8 -t 1-0 t.sh", "t.sh"),
        ("-N 2", ""),
        ("-x", ""),
    ],
)
def test_where_the_script_begins(words: str, script: str) -> None:
    options, rest = take_apart(words.split())
    assert rest == script.split()
    assert words_of(options) == [w for w in _expanded(words) if w != "--"][: len(words_of(options))]


def _expanded(words: str) -> list[str]:
    for joined, apart in (("-HN", "-H -N"), ("-QWv", "-Q -W -v"), ("-H -N2", "-H -N2")):
        words = words.replace(joined, apart)
    return words.split()


@pytest.mark.skipif(shutil.which("sbatch") is None, reason="needs sbatch")
def test_sbatch_itself_takes_the_flags_without_a_value(tmp_path: Path) -> None:
    """``--FLAG --usage``: a flag leaves --usage alone, an option with a value eats it."""
    conf = tmp_path / "slurm.conf"
    conf.write_text("ClusterName=x\nSlurmctldHost=localhost\n")

    def usage(flag: str) -> bool:
        argv = ["sbatch", f"--{flag}", "--usage", "/nonexistent"]
        done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "SLURM_CONF": str(conf)})
        # A flag that is not known to this release is no evidence.
        shown = ("Usage: sbatch", "slurm")  # --version is one, too
        return any(text in done.stdout for text in shown) or "unrecognized option" in done.stderr

    assert {flag for flag in _FLAGS if not usage(flag)} == set()
    assert not usage("comment"), "the test can fail"


@pytest.mark.parametrize(
    ("line", "job", "expected"),
    [
        ("sbatch -N 2 -x n1 t.sh -x n9 --exclude=n8", {}, "sbatch -N 2 --exclude=n[1-2] t.sh -x n9 --exclude=n8"),
        ("sbatch --exclude=n1 --exclude=n4 t.sh", {}, "sbatch --exclude=n[2,4] t.sh"),
        ("sbatch --exclud=n1 --nodel=n2,n3 t.sh", {}, "sbatch -w n3 --exclude=n[1-2] t.sh"),
        ("sbatch -HN2 -xn1 t.sh", {}, "sbatch -H -N2 --exclude=n[1-2] t.sh"),
        ("sbatch --comment -w -J -x t.sh", {}, "sbatch --comment -w -J -x --exclude=n2 t.sh"),
        ("sbatch -N 2 -- t.sh -a", {}, "sbatch -N 2 --exclude=n2 t.sh -a"),
        ("sbatch -w n2 t.sh", {}, "sbatch --exclude=n2 t.sh"),
        # What the script asks for with #SBATCH is known from accounting, and must not be lost.
        ("sbatch t.sh", {"excluded_nodes": "n5"}, "sbatch --exclude=n[2,5] t.sh"),
        ("sbatch -x n1 t.sh", {"excluded_nodes": "n1"}, "sbatch --exclude=n[1-2] t.sh"),
        ("sbatch t.sh", {"requested_nodes": "n[1-3]", "node_count": 2}, "sbatch -w n[1,3] --exclude=n2 t.sh"),
        # Of an array only the task that failed.
        ("sbatch -a 0-99%5 t.sh", {"array_task_id": "7"}, "sbatch --exclude=n2 --array=7 t.sh"),
        ("sbatch --array 0-99 t.sh", {"array_task_id": "7"}, "sbatch --exclude=n2 --array=7 t.sh"),
        # Each component of a heterogeneous job.
        ("sbatch -N1 : -N2 -x n1 -w n2,n3,n4 t.sh", {}, "sbatch -N1 --exclude=n2 : -N2 -w n[3-4] --exclude=n[1-2] t.sh"),
    ],
)  # fmt: skip
def test_node_options_are_merged_however_they_are_written(line: str, job: dict[str, object], expected: str) -> None:
    assert list(rebuilt(line, **job).words) == expected.split()


def test_a_recorded_exclusion_of_the_script_is_not_repeated() -> None:
    command = rebuilt("sbatch t.sh", Resubmit("same-nodes", "retry"), excluded_nodes="n5", requested_nodes="n1")
    assert command.words == ("sbatch", "t.sh")


@pytest.mark.parametrize(
    ("job", "kept"),
    [
        ({"requested_nodes": "n2"}, "--nodelist="),
        ({"requested_nodes": "n[2-3]", "node_count": 2}, "--nodelist="),
        ({"requested_nodes": "n[2-3]", "node_count": 1}, "-w n3"),
        ({"requested_nodes": "n[3-4]"}, "--nodelist="),
    ],
)
def test_a_node_list_of_the_script_is_replaced(job: dict[str, object], kept: str) -> None:
    """sbatch refuses fewer nodes than it is to give; an empty list is none."""
    assert rebuilt("sbatch t.sh", **job).words == ("sbatch", *kept.split(), "--exclude=n2", "t.sh")


@pytest.mark.parametrize(
    ("line", "note"),
    [("sbatch -x ./bad t.sh", "./bad holds the excluded nodes: add n2"), ("sbatch -w ./l t.sh", "./l")],
)
def test_node_files_are_left_to_the_user(line: str, note: str) -> None:
    command = rebuilt(line)
    assert "./" in " ".join(command.words[:3])
    assert any(note in text for text in command.notes)


def test_what_accounting_joined_is_taken_apart_as_it_was_joined() -> None:
    """Slurm joins the words with single blanks and quotes nothing."""
    words = ["sbatch", "t.sh", '{"lr":1}', "it's", "$(id)", "`id`", "a\\b", "", "*", "ü😀", "a\tb", "a\nb"]
    assert list(rebuilt(" ".join(words), Resubmit("same-nodes", "x")).words) == words


def test_blanks_are_put_back_where_accounting_knows_the_word() -> None:
    job = {"name": "my  job", "comment": "a b c", "work_dir": "/scratch/my dir"}
    line = "sbatch -J my  job --comment=a b c -D /scratch/my dir t.sh x"
    command = rebuilt(line, **job)
    assert command.words[1:6] == ("-J", "my  job", "--comment=a b c", "-D", "/scratch/my dir")
    assert command.words[-2:] == ("t.sh", "x")


def test_a_record_written_by_hand_may_have_quotes() -> None:
    assert "a b" in rebuilt("sbatch -J 'a b' t.sh", source="file").words
    assert '{"lr":1}' in rebuilt('sbatch t.sh {"lr":1}', source="file").words


@pytest.mark.parametrize("wrap", ["--wrap=", "--wrap "])
def test_a_wrapped_command_is_one_word(wrap: str) -> None:
    command = rebuilt(f"sbatch -N 1 {wrap}echo $HOME; exit 3")
    assert command.line() == f"sbatch -N 1 {' '.join(_quoted(wrap))} --exclude=n2"
    assert any("is a guess" in note for note in command.notes)
    assert split(command.line())[-2].endswith("echo $HOME; exit 3")


def _quoted(wrap: str) -> list[str]:
    return ["'--wrap=echo $HOME; exit 3'"] if wrap.endswith("=") else ["--wrap", "'echo $HOME; exit 3'"]


def test_a_script_from_standard_input_is_asked_for() -> None:
    assert FROM_STDIN in rebuilt("sbatch -N 2").notes
    assert FROM_STDIN not in rebuilt("sbatch -N 2 t.sh").notes
    assert FROM_STDIN not in rebuilt("sbatch --wrap=hostname").notes
