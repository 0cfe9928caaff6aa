"""``resubmit --exec``: in the directory where the job was submitted, wherever the user stands."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from slurm_triage.cli.main import main
from slurm_triage.cli.text_table import printable
from slurm_triage.resubmit.recorded import FROM_STDIN

LOG = "0: Traceback (most recent call last):\n0: RuntimeError: x\n[NODE_EXIT] host=n1 rank=0 exit_code=1\n"


def program(path: Path) -> None:
    """Writes where and with what it was called."""
    path.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        f"json.dump([os.getcwd(), sys.argv[1:]], open({str(path.parent / 'called')!r}, 'w'))\n"
    )
    path.chmod(0o755)


def called(directory: Path) -> list[object]:
    found: list[object] = json.loads((directory / "called").read_text())
    return found


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("SLURM_TRIAGE_LEDGER", str(tmp_path / "none"))


def plain(tmp_path: Path, submit_line: str) -> tuple[Path, list[str]]:
    """A job that accounting knows; its directory, and the arguments that name it."""
    work = tmp_path / "my work"
    work.mkdir()
    (work / "slurm-7.out").write_text(LOG)
    record = {
        "job_id": "7", "state": "FAILED", "exit_code": "1:0", "work_dir": str(work), "nodes": "n1", "start": 1.0,
        "submit_line": submit_line, "stdout": str(work / "slurm-7.out"),
    }  # fmt: skip
    (tmp_path / "record.json").write_text(json.dumps(record))
    return work, [str(work / "slurm-7.out"), "--accounting", str(tmp_path / "record.json")]


def test_the_launcher_is_found_beside_its_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repo = tmp_path / "repo"
    job = repo / "outputs" / "7-JAX-m"
    (job / "artifact").mkdir(parents=True)
    (job / "artifact/submit_cmd.txt").write_text("./submit.sh m -N 1 -- steps=5 hf_data_dir=it\\'s\n")
    job.with_name("7-JAX-m.log").write_text(LOG)
    (job / "log").symlink_to("../7-JAX-m.log")
    program(repo / "submit.sh")
    assert main(["resubmit", str(job), "--exec"]) == 0
    assert called(repo) == [str(repo), ["m", "-N", "1", "--", "steps=5", "hf_data_dir=it's"]]
    assert f"# in {repo}, where it was submitted\n" in capsys.readouterr().out


def test_a_plain_job_is_submitted_in_its_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work, args = plain(tmp_path, "sbatch -N 1 train.sh --lr 0.1")
    program(tmp_path / "sbatch")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["resubmit", *args]) == 0
    assert not (tmp_path / "called").exists()
    assert capsys.readouterr().out.endswith(f"# in {work}, where it was submitted\nsbatch -N 1 train.sh --lr 0.1\n")
    assert main(["resubmit", *args, "--exec"]) == 0
    assert called(tmp_path) == [str(work), ["-N", "1", "train.sh", "--lr", "0.1"]]


def test_what_cannot_be_run_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, args = plain(tmp_path, "sbatch -N 1 train.sh")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["resubmit", *args, "--exec"]) == 3
    assert capsys.readouterr().err.startswith("slurm-triage: cannot run sbatch in ")


def test_a_script_that_is_not_recorded_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, args = plain(tmp_path, "sbatch -N 1")
    assert main(["resubmit", *args]) == 0
    assert FROM_STDIN in capsys.readouterr().out
    assert main(["resubmit", *args, "--exec"]) == 2
    assert FROM_STDIN in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        "srun -N 1 a.out",
        "LD_PRELOAD=/tmp/x.so sbatch train.sh",
        "PATH=/tmp:/bin sbatch train.sh",
        "env sbatch train.sh",
        "./submit.sh m -N 1",
        " sbatch train.sh",
        "sbatch\ttrain.sh",
        "/tmp/sbatch/x train.sh",
    ],
)
def test_what_is_no_call_of_sbatch_is_named_and_not_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    """Who talks to slurmctld without sbatch may say what he likes; the next one may be an administrator."""
    work, args = plain(tmp_path, line)
    program(work / "submit.sh")
    assert main(["resubmit", *args, "--exec"]) == 3
    assert not (work / "called").exists()
    said = capsys.readouterr()
    # The advice is told all the same; there is nothing in it that a shell would run.
    assert said.out
    assert all(line.startswith("# ") for line in said.out.splitlines())
    assert f"accounting's submit line is no call of sbatch: {printable(line)}; " in said.err


def test_the_sbatch_that_is_run_is_the_callers_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work, args = plain(tmp_path, f"{tmp_path}/my work/sbatch train.sh")
    for directory in (tmp_path, work):
        program(directory / "sbatch")
    monkeypatch.setenv("PATH", str(tmp_path))
    known = json.loads((tmp_path / "record.json").read_text())
    assert main(["resubmit", *args, "--exec"]) == 0
    assert called(tmp_path) == [known["work_dir"], ["train.sh"]]
    assert not (work / "called").exists()
    assert f"# it was {work}/sbatch; this is the sbatch that your shell finds\n" in capsys.readouterr().out


def test_a_recorded_command_that_is_none_gives_way_with_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "repo/outputs/7-JAX-m"
    (job / "artifact").mkdir(parents=True)
    (job / "artifact/submit_cmd.txt").write_text("RAY=1 rm -rf x\n")
    job.with_name("7-JAX-m.log").write_text(LOG)
    (tmp_path / "record.json").write_text(json.dumps({"job_id": "7", "state": "FAILED", "submit_line": "sbatch a.sh"}))
    assert main(["resubmit", str(job), "--accounting", str(tmp_path / "record.json")]) == 0
    said = capsys.readouterr().out
    assert "# submit_cmd.txt is left out: it calls neither the launcher nor sbatch\n" in said
    assert said.endswith("\nsbatch a.sh\n")
