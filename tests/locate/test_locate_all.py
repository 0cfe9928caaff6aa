"""Every job of an outputs tree, once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_triage.errors import NotFoundError
from slurm_triage.locate import is_outputs_tree, locate_all

from .tree import LOG, Outputs


def jobs(outputs: Outputs) -> list[tuple[str | None, str | None, str | None]]:
    """(id, log, directory), relative."""

    def relative(path: str | None) -> str | None:
        return None if path is None else str(Path(path).relative_to(outputs.path))

    return [
        (f.job_id, relative(f.primary.path) if f.primary else None, relative(f.job_dir))
        for f in locate_all(outputs.path)
    ]


def test_everything_at_once(outputs: Outputs) -> None:
    outputs.checkpoints("llama2-70b")
    outputs.checkpoints("405-model")
    outputs.log("debug_repro.7.20260101.log")
    outputs.log("notes.txt")
    outputs.job("10-JAX-m")
    outputs.job("9-JAX-a b")
    outputs.log("11-JAX-m.log")
    outputs.directory("12-JAX-m", link="../12-JAX-m.log")
    outputs.log("13-JAX-p_/x/y.log")
    outputs.directory("13-JAX-p_/x/y", link="../nowhere.log")
    outputs.job("local_20260310_080957_475e-JAX-m")
    (outputs.directory("k8s-20260310-080957-475e-JAX-m") / ".coord").mkdir()
    outputs.log("14-JAX-m-2N-TGS_1.000.log")
    outputs.directory("14-JAX-m", link="../14-JAX-m.log")
    outputs.log("15-JAX-m.log.gz")
    outputs.log("slurm-16.out")
    outputs.log("slurm-16.err")
    outputs.directory("17-FOO")
    outputs.log("train.log")
    outputs.log("copied/log.txt")
    assert jobs(outputs) == [
        ("9", "9-JAX-a b.log", "9-JAX-a b"),
        ("10", "10-JAX-m.log", "10-JAX-m"),
        ("11", "11-JAX-m.log", None),
        ("12", None, "12-JAX-m"),
        ("13", "13-JAX-p_/x/y.log", "13-JAX-p_/x/y"),
        ("14", "14-JAX-m-2N-TGS_1.000.log", "14-JAX-m"),
        ("15", "15-JAX-m.log.gz", None),
        ("16", "slurm-16.out", None),
        ("17", None, "17-FOO"),
        ("k8s-20260310-080957-475e", None, "k8s-20260310-080957-475e-JAX-m"),
        ("local_20260310_080957_475e", "local_20260310_080957_475e-JAX-m.log", "local_20260310_080957_475e-JAX-m"),
        (None, "copied/log.txt", "copied"),
        (None, "train.log", None),
    ]


def test_no_job_twice(outputs: Outputs) -> None:
    """A directory renamed by hand, a compressed copy and a link to it are the same job."""
    outputs.log("9-JAX-m.log")
    outputs.log("9-JAX-m.log.gz")
    outputs.directory("best-run", link="../9-JAX-m.log")
    (outputs.path / "alias.log").symlink_to("9-JAX-m.log")
    assert jobs(outputs) == [("9", "9-JAX-m.log", "best-run")]


def test_renamed_by_hand(outputs: Outputs) -> None:
    outputs.job("my best run")
    assert jobs(outputs) == [(None, "my best run.log", "my best run")]


def test_checkpoint_directory_with_a_log_beside_it(outputs: Outputs) -> None:
    """A shared directory named like another job's id is not that job's."""
    outputs.checkpoints("405-model")
    outputs.job("405-JAX-m")
    assert jobs(outputs) == [("405", "405-JAX-m.log", "405-JAX-m")]


def test_cases_in_directories_of_their_own(outputs: Outputs) -> None:
    outputs.log("a/log.txt")
    outputs.log("b/job.log")
    outputs.log("b/job/rank-1.log")
    assert jobs(outputs) == [(None, "a/log.txt", "a"), (None, "b/job.log", "b/job")]


def test_empty(outputs: Outputs) -> None:
    assert jobs(outputs) == []


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"cannot list the directory .*nosuch \(No such file or directory\)"):
        list(locate_all(tmp_path / "nosuch"))


def test_unreadable_directory_of_one_job_does_not_stop_the_others(
    outputs: Outputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    outputs.job("9-JAX-m")
    outputs.job("10-JAX-m")
    scandir = os.scandir

    def refuse(path: Path) -> object:
        if Path(path).name == "9-JAX-m":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = list(locate_all(outputs.path))
    assert [(f.job_id, f.job_dir is None, len(f.logs)) for f in found] == [("9", True, 1), ("10", False, 1)]
    assert found[0].notes == ("9-JAX-m could not be read: Permission denied",)


NAMES = st.text(min_size=1, max_size=20).filter(lambda s: "/" not in s and "\0" not in s and s.isprintable())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(numbers=st.sets(st.integers(0, 10**6), max_size=6), name=NAMES)
def test_any_set_of_jobs(tmp_path_factory: pytest.TempPathFactory, numbers: set[int], name: str) -> None:
    outputs = Outputs(tmp_path_factory.mktemp("any"))
    outputs.checkpoints("shared")
    for number in numbers:
        outputs.job(f"{number}-JAX-{name}")
    assert [j for j, _, _ in jobs(outputs)] == [str(n) for n in sorted(numbers)]


class TestIsTree:
    def test_outputs(self, outputs: Outputs) -> None:
        log, directory = outputs.job("9-JAX-m")
        assert is_outputs_tree(outputs.path)
        assert not is_outputs_tree(directory)
        log.unlink()
        assert not is_outputs_tree(directory)

    def test_two_plain_logs(self, outputs: Outputs) -> None:
        outputs.log("slurm-1.out")
        assert not is_outputs_tree(outputs.path)
        outputs.log("slurm-1.err")
        assert not is_outputs_tree(outputs.path)
        outputs.log("slurm-2.out")
        assert is_outputs_tree(outputs.path)

    def test_case(self, outputs: Outputs) -> None:
        outputs.log("case/job.log")
        outputs.log("case/job/rank-1.log")
        assert not is_outputs_tree(outputs.path / "case")
        assert not is_outputs_tree(outputs.path / "case" / "job")

    def test_cases(self, outputs: Outputs) -> None:
        outputs.log("a/log.txt", LOG)
        outputs.log("b/log.txt", LOG)
        assert is_outputs_tree(outputs.path)
        assert not is_outputs_tree(outputs.path / "a")

    def test_relative(self, outputs: Outputs, monkeypatch: pytest.MonkeyPatch) -> None:
        _, directory = outputs.job("9-JAX-m")
        monkeypatch.chdir(directory)
        assert not is_outputs_tree(Path())
        assert is_outputs_tree(Path(".."))
