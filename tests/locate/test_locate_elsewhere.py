"""Jobs whose files the launcher did not lay out: Slurm's own names, a log in a directory of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_triage.errors import NotFoundError
from slurm_triage.locate import locate
from slurm_triage.model.job import Job

from .tree import LOG, Outputs, primary

NAME = "7877-JAX-llama2-70b-steps_15"


class TestPlainSlurm:
    def test_default_name(self, outputs: Outputs) -> None:
        log = outputs.log("slurm-123.out")
        outputs.log("slurm-1234.out")
        for target in ("123", str(log)):
            files = locate(target)
            assert (files.job_id, primary(files), files.job_dir) == ("123", str(log), None)

    def test_array_task(self, outputs: Outputs) -> None:
        log = outputs.log("slurm-123_4.out")
        outputs.log("slurm-123_40.out")
        assert primary(locate("123_4")) == str(log)
        with pytest.raises(NotFoundError, match=r"array: name one of its tasks, such as 123_4$"):
            locate("123")

    def test_array_task_by_its_raw_id(self, outputs: Outputs) -> None:
        log = outputs.log("slurm-123_4.out")
        assert primary(locate("130", job=Job(job_id="130", array_job_id="123", array_task_id="4"))) == str(log)

    @pytest.mark.parametrize("name", ["train-123.out", "train_123.log", "123_0_log.out", "my job.123.out"])
    def test_id_at_the_end(self, outputs: Outputs, name: str) -> None:
        log = outputs.log(name)
        outputs.log("5-JAX-m-steps_123.log")
        assert primary(locate("123")) == str(log)

    @pytest.mark.parametrize("name", ["console", "train.txt", "a b\n.log"])
    def test_any_file(self, outputs: Outputs, name: str) -> None:
        files = locate(str(outputs.log(name)))
        assert (primary(files), files.job_id, files.job_dir) == (str(outputs.path / name), None, None)

    def test_stderr_beside(self, outputs: Outputs) -> None:
        log, error = outputs.log("slurm-123.out"), outputs.log("slurm-123.err")
        for target in ("123", str(log), str(error)):
            files = locate(target)
            assert [(f.path, f.role) for f in files.logs] == [(str(log), "primary"), (str(error), "stderr")]

    def test_stderr_alone(self, outputs: Outputs) -> None:
        error = outputs.log("slurm-123.err")
        assert [(f.path, f.role) for f in locate(str(error)).logs] == [(str(error), "primary")]

    def test_stderr_by_accounting(self, outputs: Outputs) -> None:
        outputs.log("slurm-123.out")
        error = outputs.log("errors/x-123.txt")
        job = Job(job_id="123", work_dir=str(outputs.path), stderr="errors/x-%j.txt")
        assert locate("123", job=job).logs[-1].path == str(error)

    @pytest.mark.parametrize(
        "stdout, name",
        [
            ("logs/%x.%j.out", "logs/a b.123.out"),
            ("%A_%a.txt", "9_3.txt"),
            ("%%-%5j-%u-%N", "%-00123-alice-n1"),
            ("{path}/whole", "whole"),
        ],
    )
    def test_where_accounting_says(self, outputs: Outputs, tmp_path: Path, stdout: str, name: str) -> None:
        work = Outputs(tmp_path / "work")
        log = work.log(name)
        job = Job(
            job_id="123",
            array_job_id="9",
            array_task_id="3",
            name="a b",
            user="alice",
            nodes=("n1",),
            work_dir=str(work.path),
            stdout=stdout.format(path=work.path),
        )
        assert primary(locate("123", outputs=outputs.path, job=job)) == str(log)

    def test_default_name_in_the_work_directory(self, outputs: Outputs, tmp_path: Path) -> None:
        log = Outputs(tmp_path / "work").log("slurm-123.out")
        job = Job(job_id="123", work_dir=str(tmp_path / "work"))
        assert primary(locate("123", outputs=outputs.path, job=job)) == str(log)

    def test_a_file_called_like_an_id(self, outputs: Outputs) -> None:
        Path("4711").write_bytes(LOG)
        assert primary(locate("4711")) == str(outputs.path.parent / "4711")


class TestSelfContained:
    """A log in a directory of its own, with its evidence around it."""

    def test_directory_with_log_txt(self, outputs: Outputs) -> None:
        log = outputs.log("case/log.txt")
        outputs.log("case/expect.json", b"{}")
        files = locate(str(log.parent))
        assert (primary(files), files.job_dir) == (str(log), str(log.parent))

    def test_evidence_beside_the_log(self, outputs: Outputs) -> None:
        log = outputs.log("case/log.txt")
        kernel = outputs.log("case/kernel-dmesg.txt")
        worker = outputs.worker(log.parent, "n1", 1, b":actor_name:MaxTextTrainerActor\n")
        for target in (str(log), str(log.parent)):
            files = locate(target)
            assert files.job_dir == str(log.parent)
            assert files.node_snapshots == (str(kernel),)
            assert [f.path for f in files.logs] == [str(log), str(worker)]

    def test_evidence_beside_one_of_many_logs_belongs_to_none(self, outputs: Outputs) -> None:
        log, _ = outputs.log("a.log"), outputs.log("b.log")
        outputs.log("kernel-dmesg.txt")
        assert locate(str(log)).node_snapshots == ()
        assert locate(str(log)).job_dir is None

    def test_directory_beside_a_log_in_a_case(self, outputs: Outputs) -> None:
        log = outputs.log("case/job.log")
        rank = outputs.log("case/job/rank-1.log")
        for target in ("case", "case/job", "case/job.log", "case/job/rank-1.log"):
            files = locate(str(outputs.path / target))
            assert [f.path for f in files.logs] == [str(log), str(rank)], target
            assert files.job_dir == str(rank.parent)

    def test_the_only_log(self, outputs: Outputs) -> None:
        log = outputs.log("run/train.out")
        assert primary(locate(str(log.parent))) == str(log)
