"""One job from whatever names it."""

from __future__ import annotations

import gzip
import lzma
import os
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_triage.errors import NotFoundError
from slurm_triage.locate import locate
from slurm_triage.model.files import JobFiles
from slurm_triage.model.job import Job

from .tree import LOG, SUBMIT_CMD, Outputs, primary

NAME = "7877-JAX-llama2-70b-steps_15"


class TestTheSameJobFromEveryTarget:
    """Seed, workflow 1: given one of log, directory, id, resolve all of it."""

    @pytest.fixture
    def job(self, outputs: Outputs) -> tuple[Path, Path]:
        outputs.checkpoints("llama2-70b")
        outputs.job("787-JAX-other")
        outputs.job("78770-JAX-other")
        return outputs.job(NAME)

    def check(self, files: JobFiles, job: tuple[Path, Path]) -> None:
        log, directory = job
        assert primary(files) == str(log)
        assert files.job_dir == str(directory)
        assert files.job_id == "7877"
        assert files.outputs_dir == str(log.parent)
        assert files.submit_cmd == SUBMIT_CMD
        assert files.artifact_dir == str(log.parent / ".artifacts" / "artifact_20260301_101010_ab12")
        status = log.stat()
        assert files.primary is not None
        assert (files.primary.size_bytes, files.primary.inode) == (len(LOG), status.st_ino)
        assert files.primary.mtime == status.st_mtime
        assert files.primary.ranks == ()

    def test_log(self, job: tuple[Path, Path]) -> None:
        self.check(locate(str(job[0])), job)

    def test_directory(self, job: tuple[Path, Path]) -> None:
        self.check(locate(str(job[1])), job)

    def test_directory_with_slash(self, job: tuple[Path, Path]) -> None:
        self.check(locate(f"{job[1]}/"), job)

    def test_link(self, job: tuple[Path, Path]) -> None:
        self.check(locate(str(job[1] / "log")), job)

    def test_id_in_given_outputs(self, job: tuple[Path, Path]) -> None:
        self.check(locate("7877", outputs=job[0].parent), job)

    def test_id_in_default_outputs(self, job: tuple[Path, Path]) -> None:
        self.check(locate("7877"), job)

    @pytest.mark.parametrize("variable", ["SLURM_TRIAGE_OUTPUTS", "JOB_WORKSPACE"])
    def test_id_by_environment(
        self, job: tuple[Path, Path], variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        monkeypatch.setenv(variable, str(job[0].parent))
        self.check(locate("7877"), job)

    def test_relative_paths_from_inside(self, job: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(job[0].parent)
        self.check(locate(job[0].name), job)
        self.check(locate(job[1].name), job)
        self.check(locate("7877"), job)
        monkeypatch.chdir(job[1])
        self.check(locate("."), job)
        self.check(locate("log"), job)


@pytest.mark.parametrize(
    "job_id", ["local_20260310_080957_475e", "k8s-20260310-080957-475e", "k8s-20260310-080957-0lon", "7877_3", "7877"]
)
def test_ids_of_all_launchers(outputs: Outputs, job_id: str) -> None:
    log, directory = outputs.job(f"{job_id}-JAX-m-steps_2")
    outputs.job(f"{job_id[:-1]}-JAX-m-steps_2")
    for target in (job_id, str(log), str(directory)):
        files = locate(target)
        assert (files.job_id, primary(files), files.job_dir) == (job_id, str(log), str(directory))


def test_stdin() -> None:
    files = locate("-", job=Job(job_id="5"))
    assert files.job_id == "5"
    assert [(f.path, f.role) for f in files.logs] == [("-", "primary")]


class TestRenamed:
    """LAYOUT 1: the TGS tagger renames; the id is the only key."""

    def test_log_and_directory(self, outputs: Outputs) -> None:
        log, directory = outputs.job("7877-JAX-m-BF16-2N-pdbs4-TGS_1234.567")
        assert primary(locate("7877")) == str(log)
        assert locate(str(log)).job_dir == str(directory)

    def test_log_only(self, outputs: Outputs) -> None:
        """A running job tagged with -f: the directory keeps its name and its link leads nowhere."""
        directory = outputs.directory("7877-JAX-m", link="../7877-JAX-m.log")
        log = outputs.log("7877-JAX-m-2N-TGS_1.000.log")
        for target in ("7877", str(directory), str(log), str(directory / "log")):
            files = locate(target)
            assert (primary(files), files.job_dir) == (str(log), str(directory))

    def test_directory_only(self, outputs: Outputs) -> None:
        log = outputs.log("7877-JAX-m.log")
        directory = outputs.directory("7877-JAX-m-2N-TGS_1.000", link="../7877-JAX-m.log")
        for target in ("7877", str(directory), str(log)):
            files = locate(target)
            assert (primary(files), files.job_dir) == (str(log), str(directory))

    def test_requeued_after_renaming(self, outputs: Outputs) -> None:
        """Slurm opens the old name again: the newest log is the job's."""
        old = outputs.log("7877-JAX-m-2N-TGS_1.000.log")
        new = outputs.log("7877-JAX-m.log")
        os.utime(old, (1000, 1000))
        assert primary(locate("7877")) == str(new)
        os.utime(new, (500, 500))
        assert primary(locate("7877")) == str(old)

    def test_out_suffix(self, outputs: Outputs) -> None:
        log, directory = outputs.job("7877-JAX-m", ".out")
        for target in ("7877", str(directory), str(log)):
            assert primary(locate(target)) == str(log)
            assert locate(target).job_dir == str(directory)


class TestStrangeNames:
    @pytest.mark.parametrize(
        "name",
        ["JAX-m-a b  c", 'JAX-it\'s-"x"', "JAX-a\nb", "JAX- $(touch x);`id`", "JAX-\x1b[31m", "JAX-\udcff", "JAX-é雪"],
    )
    def test_found_by_every_target(self, outputs: Outputs, name: str) -> None:
        log, directory = outputs.job(f"48-{name}")
        for target in ("48", str(log), str(directory)):
            files = locate(target)
            assert (files.job_id, primary(files), files.job_dir) == ("48", str(log), str(directory))

    def test_slash_in_name(self, outputs: Outputs) -> None:
        """LAYOUT 1, job 12: nested log and directory, and a link that is wrong for the nesting."""
        stem = "12-JAX-m-_env_MAXTEXT_PATCH_BRANCH_yihuang/nosuch"
        log = outputs.log(f"{stem}.log")
        directory = outputs.directory(stem, link=f"../{stem}.log")
        for target in ("12", str(log), str(directory), str(directory / "log"), str(directory.parent)):
            files = locate(target)
            assert (files.job_id, primary(files)) == ("12", str(log)), target
            assert (files.job_dir, files.outputs_dir) == (str(directory), str(outputs.path)), target

    def test_two_slashes_in_name(self, outputs: Outputs) -> None:
        stem = "13-JAX-m-dataset_path_/mnt/data"
        log = outputs.log(f"{stem}.log")
        directory = outputs.directory(stem, link=f"../{stem}.log")
        files = locate("13")
        assert (primary(files), files.job_dir) == (str(log), str(directory))

    def test_slash_in_name_without_directory(self, outputs: Outputs) -> None:
        log = outputs.log("12-JAX-m-hf_path_allenai/c4.log")
        for target in ("12", str(log)):
            files = locate(target)
            assert (files.job_id, primary(files), files.job_dir) == ("12", str(log), None)
            assert files.outputs_dir == str(outputs.path)

    def test_slash_in_name_without_log(self, outputs: Outputs) -> None:
        stem = "12-JAX-m-hf_path_allenai/c4"
        directory = outputs.directory(stem, link=f"../{stem}.log")
        files = locate("12", job=Job(job_id="12", state="FAILED", exit_code=0, exit_signal=53))
        assert files.logs == ()
        assert files.job_dir == str(directory)
        assert "0:53" in (files.problem or "")

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(name=st.binary(min_size=1, max_size=80).filter(lambda b: b"/" not in b and b"\0" not in b))
    def test_any_bytes(self, tmp_path_factory: pytest.TempPathFactory, name: bytes) -> None:
        """Whatever stands behind the id, the job is found, and nothing but the job."""
        outputs = Outputs(tmp_path_factory.mktemp("any"))
        log, directory = outputs.job("7-JAX-" + os.fsdecode(name))
        outputs.job("70-JAX-" + os.fsdecode(name))
        for target in ("7", str(log), str(directory)):
            files = locate(target, outputs=outputs.path)
            assert (files.job_id, primary(files), files.job_dir) == ("7", str(log), str(directory))


class TestOneWithoutTheOther:
    def test_log_without_directory(self, outputs: Outputs) -> None:
        """PITFALLS B11: submit.sh removes the directory of a job that fails within three seconds."""
        log = outputs.log(f"{NAME}.log")
        outputs.job("9-JAX-other")
        for target in ("7877", str(log)):
            files = locate(target)
            assert (primary(files), files.job_dir, files.outputs_dir) == (str(log), None, str(outputs.path))

    def test_directory_without_link(self, outputs: Outputs) -> None:
        log = outputs.log(f"{NAME}.log")
        directory = outputs.directory(NAME)
        for target in ("7877", str(directory), str(log)):
            files = locate(target)
            assert (primary(files), files.job_dir) == (str(log), str(directory))

    def test_copied_directory_with_the_log_in_place_of_the_link(self, outputs: Outputs) -> None:
        directory = outputs.directory(NAME)
        (directory / "log").write_bytes(LOG)
        for target in ("7877", str(directory), str(directory / "log")):
            files = locate(target)
            assert (primary(files), files.job_dir) == (str(directory / "log"), str(directory))

    def test_id_named_checkpoint_directory_is_not_the_job_directory(self, outputs: Outputs) -> None:
        outputs.checkpoints("405-big-model")
        log, directory = outputs.job("405-JAX-m")
        assert locate("405").job_dir == str(directory)
        outputs.path.joinpath("405-JAX-m/log").unlink()
        outputs.path.joinpath("405-JAX-m/artifact").unlink()
        directory.rmdir()
        files = locate("405")
        assert (primary(files), files.job_dir) == (str(log), None)


COMPRESS = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}


@pytest.mark.parametrize("suffix", COMPRESS)
class TestCompressed:
    def test_log(self, outputs: Outputs, suffix: str) -> None:
        log = outputs.log(f"{NAME}.log{suffix}", COMPRESS[suffix](LOG))
        directory = outputs.directory(NAME, link=f"../{NAME}.log")
        for target in ("7877", str(log), str(directory)):
            files = locate(target)
            assert (files.job_id, primary(files), files.job_dir) == ("7877", str(log), str(directory))

    def test_the_plain_one_comes_first(self, outputs: Outputs, suffix: str) -> None:
        log, _ = outputs.job(NAME)
        outputs.log(f"{NAME}.log{suffix}", COMPRESS[suffix](LOG))
        assert primary(locate("7877")) == str(log)

    def test_every_other_log(self, outputs: Outputs, suffix: str) -> None:
        name = "k8s-20260310-080957-475e-JAX-m"
        outputs.log(f"{name}.out{suffix}", COMPRESS[suffix](LOG))
        outputs.log(f"{name}.err{suffix}", COMPRESS[suffix](LOG))
        directory = outputs.directory(name)
        (directory / f"rank-1.log{suffix}").write_bytes(COMPRESS[suffix](LOG))
        worker = outputs.worker(directory, "n1", 5, b"")
        worker.unlink()
        worker.with_name(worker.name + suffix).write_bytes(COMPRESS[suffix](b":actor_name:MaxTextTrainerActor\n" * 9))
        files = locate("k8s-20260310-080957-475e")
        assert [(f.role, f.path.rpartition(".")[0].rpartition(".")[2], f.ranks) for f in files.logs] == [
            ("primary", "out", (0,)),
            ("rank", "log", (1,)),
            ("ray-worker", "out", ()),
            ("stderr", "err", ()),
        ]


class TestNotFound:
    @pytest.mark.parametrize("target", ["nosuch.log", "outputs/nosuch", "outputs/x/y", "a\0b", "x" * 300, ""])
    @pytest.mark.usefixtures("outputs")
    def test_missing(self, target: str) -> None:
        with pytest.raises(NotFoundError) as error:
            locate(target)
        assert error.value.exit_status == 3
        assert "\n" not in str(error.value)

    def test_id(self, outputs: Outputs) -> None:
        outputs.job("78-JAX-m")
        with pytest.raises(NotFoundError, match=r"no log or directory of job 7 in .*outputs.*SLURM_TRIAGE_OUTPUTS"):
            locate("7")

    def test_outputs(self, tmp_path: Path) -> None:
        with pytest.raises(NotFoundError, match="cannot list the outputs directory"):
            locate("7", outputs=tmp_path / "nosuch")

    def test_directory_with_many_logs(self, outputs: Outputs) -> None:
        outputs.log("a.log")
        outputs.log("b.log")
        with pytest.raises(NotFoundError, match=r"holds 2 logs: name one of them, such as a\.log"):
            locate(str(outputs.path))

    def test_shared_checkpoints(self, outputs: Outputs) -> None:
        path = outputs.checkpoints("405-model")
        for target in (str(path), "405"):
            with pytest.raises(NotFoundError):
                locate(target)

    @pytest.mark.usefixtures("outputs")
    def test_sentences_escape_control_characters(self) -> None:
        with pytest.raises(NotFoundError) as error:
            locate("x\x1b[31m\n.log")
        assert str(error.value).isprintable()
