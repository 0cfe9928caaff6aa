"""Directories that somebody else prepared: nothing foreign is read, nothing hangs, nothing is unbounded."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_triage.errors import NotFoundError
from slurm_triage.locate import candidates, locate, locate_all, trust
from slurm_triage.model.job import Job

from .tree import LOG, STRANGER, Outputs, disown

NAME = "7-JAX-m"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "private" / "secret.log"
    path.parent.mkdir()
    path.write_bytes(b"password\n")
    return path


def paths(files: object) -> str:
    """Everything that was found, to look for what must not be there."""
    return repr(files)


class TestLinks:
    @pytest.mark.parametrize("leads_to", ["/etc/shadow", "../../../../../../../../etc/shadow", "../private/secret.log"])
    @pytest.mark.usefixtures("secret")
    def test_log_link_out_of_the_tree(self, outputs: Outputs, leads_to: str, monkeypatch: pytest.MonkeyPatch) -> None:
        directory = outputs.directory(NAME, link=leads_to)
        disown(directory / "log", monkeypatch)
        for target in ("7", str(directory), str(directory / "log")):
            files = locate(target)
            assert files.logs == ()
            assert files.problem

    def test_own_log_link_must_lead_to_a_log(self, outputs: Outputs) -> None:
        """Also root's own link is no reason to read a password file."""
        directory = outputs.directory(NAME, link="/etc/shadow")
        assert locate(str(directory)).logs == ()

    def test_own_log_link_elsewhere(self, outputs: Outputs, secret: Path) -> None:
        directory = outputs.directory(NAME, link=str(secret))
        assert [f.path for f in locate(str(directory)).logs] == [str(secret)]

    def test_log_that_is_a_foreign_link(self, outputs: Outputs, secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        directory = outputs.directory(NAME, link=f"../{NAME}.log")
        link = outputs.path / f"{NAME}.log"
        link.symlink_to(secret)
        disown(link, monkeypatch)
        for target in ("7", str(directory)):
            files = locate(target)
            assert files.logs == ()
            assert "is a symbolic link that leads nowhere or belongs to somebody else" in (files.problem or "")
        with pytest.raises(NotFoundError, match="is a link of another user and is not followed"):
            locate(str(link))

    def test_link_through_a_linked_directory(
        self, outputs: Outputs, secret: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        directory = outputs.directory(NAME, link="../way/secret.log")
        (outputs.path / "way").symlink_to(secret.parent)
        disown(directory / "log", monkeypatch)
        assert "secret" not in paths(locate("7").logs)

    def test_own_link_as_target(self, outputs: Outputs) -> None:
        log, directory = outputs.job(NAME)
        alias = outputs.path / "latest"
        alias.symlink_to(log)
        assert [f.path for f in locate(str(alias)).logs] == [str(log)]
        alias.unlink()
        alias.symlink_to(directory)
        assert [f.path for f in locate(str(alias)).logs] == [str(log)]

    def test_own_link_in_place_of_the_log(self, outputs: Outputs, secret: Path) -> None:
        """A log moved to another file system and linked: its directory is still beside the link."""
        directory = outputs.directory(NAME, link=f"../{NAME}.log")
        (outputs.path / f"{NAME}.log").symlink_to(secret)
        for target in ("7", str(directory), str(outputs.path / f"{NAME}.log")):
            files = locate(target)
            assert [f.path for f in files.logs] == [str(secret)]
            assert files.job_dir == str(directory)

    def test_foreign_job_directory_link(self, outputs: Outputs, secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        outputs.log(f"{NAME}.log")
        link = outputs.path / NAME
        link.symlink_to(secret.parent)
        disown(link, monkeypatch)
        assert "private" not in paths(locate("7"))

    def test_artifact_links(self, outputs: Outputs, secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        directory = outputs.job(NAME)[1]
        (secret.parent / "submit_cmd.txt").write_text("password")
        artifact = directory / "artifact"
        for leads_to in (str(secret.parent), "../.artifacts/../../private", "../.artifacts/evil"):
            artifact.unlink()
            artifact.symlink_to(leads_to)
            disown(artifact, monkeypatch)
            (outputs.path / ".artifacts" / "evil").unlink(missing_ok=True)
            (outputs.path / ".artifacts" / "evil").symlink_to(secret.parent)
            files = locate("7")
            assert (files.artifact_dir, files.submit_cmd) == (None, None), leads_to

    def test_submit_cmd_link(self, outputs: Outputs, secret: Path) -> None:
        outputs.job(NAME)
        command = outputs.path / ".artifacts/artifact_20260301_101010_ab12/submit_cmd.txt"
        command.unlink()
        command.symlink_to(secret)
        assert locate("7").submit_cmd is None

    def test_loops(self, outputs: Outputs) -> None:
        directory = outputs.directory(NAME, link="log")
        (directory / "self").symlink_to(".")
        (directory / "artifact").symlink_to("artifact")
        (outputs.path / f"{NAME}.log").symlink_to(f"{NAME}.log")
        (outputs.path / "8-JAX-loop").symlink_to(".")
        assert locate("7").logs == ()
        assert [f.job_id for f in locate_all(outputs.path)] == ["7"]
        with pytest.raises(NotFoundError, match="leads nowhere"):
            locate(str(outputs.path / f"{NAME}.log"))


class TestSpecialFiles:
    def make(self, kind: str, path: Path) -> None:
        if kind == "a named pipe":
            os.mkfifo(path)
        elif kind == "a socket":
            with socket.socket(socket.AF_UNIX) as server:
                # The name of a socket is short: bind it from inside its directory.
                old = Path.cwd()
                os.chdir(path.parent)
                server.bind(path.name)
                os.chdir(old)
        else:
            path.mkdir()

    @pytest.mark.parametrize("kind", ["a named pipe", "a socket"])
    def test_in_place_of_the_log(self, outputs: Outputs, kind: str) -> None:
        self.make(kind, outputs.path / f"{NAME}.log")
        files = locate("7")
        assert files.logs == ()
        assert f"is {kind}, not a log file" in (files.problem or "")
        with pytest.raises(NotFoundError, match=f"is {kind}, not a log file: name a log"):
            locate(str(outputs.path / f"{NAME}.log"))

    def test_device(self) -> None:
        with pytest.raises(NotFoundError, match="/dev/null is a device, not a log file"):
            locate("/dev/null")

    def test_everything_else_a_pipe(self, outputs: Outputs) -> None:
        log, directory = outputs.job(NAME)
        for name in ("rank-1.log", "kernel-dmesg.txt", "core.7.x", "ray_logs", "prometheus", "triage", ".coord"):
            os.mkfifo(directory / name)
        os.mkfifo(outputs.path / f"{NAME}.err")
        files = locate("7")
        assert [f.path for f in files.logs] == [str(log)]
        assert (files.node_snapshots, files.core_dumps, files.coord_ranks) == ((), (), ())

    @pytest.mark.usefixtures("outputs")
    def test_accounting_names_a_file_of_somebody_else(self, secret: Path) -> None:
        job = Job(job_id="7", uid=STRANGER, state="FAILED", stdout=str(secret))
        if os.geteuid() != 0:
            pytest.skip("only another user's record can name a foreign file")
        os.chown(secret, STRANGER + 1, -1)
        assert locate("7", job=job).logs == ()
        os.chown(secret, STRANGER, -1)
        assert [f.path for f in locate("7", job=job).logs] == [str(secret)]

    def test_planted_log_does_not_beat_the_owners(self, outputs: Outputs) -> None:
        if os.geteuid() != 0:
            pytest.skip("needs files of two users")
        planted, own = outputs.log("7-A.log"), outputs.log("7-B.log")
        os.utime(own, (1000, 1000))
        os.chown(own, STRANGER, -1)
        assert locate("7", job=Job(uid=STRANGER)).logs[0].path == str(own)
        assert locate("7").logs[0].path == str(planted)


class TestSize:
    def test_work_grows_with_the_number_of_entries_and_no_faster(self, outputs: Outputs) -> None:
        """Counted in calls of functions: a directory ten times as large takes at most ten times as many."""
        outputs.job(NAME)

        def look() -> None:
            assert locate("7", outputs=outputs.path).logs[0].path == str(outputs.path / f"{NAME}.log")
            assert locate(str(outputs.path / NAME)).job_id == "7"

        calls = []
        for number in range(20_000):
            # No digit of the job that is looked for: names that contain it are looked at twice.
            (outputs.path / f"1{number:016b}-JAX-m.log").touch()
            if number + 1 in {2_000, 20_000}:
                calls.append(calls_of(look))
        assert calls[1] < 10.5 * calls[0]

    def test_the_number_of_entries_is_bounded(self, outputs: Outputs, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(trust, "MAX_ENTRIES", 10)
        for number in range(20):
            outputs.log(f"{number}.log", LOG)
        assert len(list(locate_all(outputs.path))) == 10
        assert "entries of" in next(iter(locate_all(outputs.path))).notes[0]
        with pytest.raises(NotFoundError, match=r"entries of .* were looked at"):
            locate("77", outputs=outputs.path)

    def test_deep_and_wide_below_a_name_part(self, outputs: Outputs, monkeypatch: pytest.MonkeyPatch) -> None:
        """The search for nested names stops by depth and by number."""
        monkeypatch.setattr(candidates, "_MAX_NESTED", 100)
        deep = outputs.path / "7-x"
        for _ in range(50):
            deep = deep / "d"
        deep.mkdir(parents=True)
        for number in range(1_000):
            (outputs.path / "7-x" / f"d{number}").mkdir()
        listed: set[Path] = set()
        scandir = os.scandir

        def counted(path: Path) -> object:
            listed.add(path)
            return scandir(path)

        monkeypatch.setattr(os, "scandir", counted)
        with pytest.raises(NotFoundError):
            locate("7", outputs=outputs.path)
        assert 90 < len(listed) <= 100 + candidates.NEST_DEPTH
        below = [path.relative_to(outputs.path).parts for path in listed if outputs.path in path.parents]
        assert max(map(len, below)) <= candidates.NEST_DEPTH + 1


def calls_of(action: Callable[[], None]) -> int:
    """How many functions, of Python and of C, an action calls."""
    count = 0

    def see(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(see)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count
