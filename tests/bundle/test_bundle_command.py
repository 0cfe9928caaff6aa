"""The command: what it prints, how it names the bundle, and how it says no."""

from __future__ import annotations

import errno
import json
import tarfile
from pathlib import Path

import pytest

from slurm_triage.bundle.archive import write_archive
from slurm_triage.cli.main import main
from slurm_triage.errors import TriageError

from .conftest import CORPUS


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "7-JAX-x.log").write_text("Traceback (most recent call last):\nValueError: no\n")
    assert main(["bundle", "7-JAX-x.log"]) == 0
    assert capsys.readouterr().out.startswith("triage-bundle-7.tar.gz: ")
    with tarfile.open(tmp_path / "triage-bundle-7.tar.gz") as archive:
        assert archive.getnames()[0] == "triage-bundle-7"


def test_a_bundle_is_called_by_the_job_that_the_log_names_and_replaces_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    log = str(CORPUS / "launcher" / "slurm-node-down" / "log.txt")
    assert main(["bundle", log]) == 0
    made = tmp_path / "triage-bundle-34.tar.gz"
    before = made.stat().st_mtime_ns
    assert main(["bundle", log]) == 2
    assert "is there already" in capsys.readouterr().err
    assert made.stat().st_mtime_ns == before
    assert main(["bundle", log, "-o", made.name]) == 0


@pytest.mark.parametrize(
    "args, status",
    [
        (["none.log"], 3),
        (["-"], 2),
        (["x.log", "-o", "x.zip"], 2),
        (["x.log", "--max-mib", "0"], 2),
        (["x.log", "-o", "none/x.tar.gz"], 1),
    ],
)
def test_mistakes_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], args: list[str], status: int
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.log").write_text("Killed\n")
    before = sorted(tmp_path.iterdir())
    assert main(["bundle", *args]) == status
    assert capsys.readouterr().err.startswith("slurm-triage: ")
    assert sorted(tmp_path.iterdir()) == before


def test_a_directory_that_may_not_be_entered_is_named_by_what_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may enter all of them, so the file system's answer is given here: at opening and at removing alike."""
    tree = tmp_path / "b"
    tree.mkdir()

    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(TriageError, match=r"cannot write /private/x\.tar\.gz \(Permission denied\)"):
        write_archive(tree, Path("/private/x.tar.gz"))


def test_a_bundle_that_gives_another_verdict_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CORPUS / "runs" / "mt-slow-gradual"
    monkeypatch.chdir(tmp_path)
    assert main(["bundle", str(case / "log.txt"), "--max-mib", "0.004", "-o", "x.tar.gz"]) == 5
    assert "gives another verdict" in capsys.readouterr().err
    with tarfile.open("x.tar.gz") as archive:
        member = archive.extractfile(next(n for n in archive.getnames() if n.endswith("/expect.json")))
        assert member is not None
        assert json.loads(member.read())["replayed"] != "same"
