"""What lies around a log: rank logs, Ray workers, Prometheus, core dumps, checkpoints, snapshots."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from slurm_triage.locate import checkpoint_dirs, checkpoint_path, locate
from slurm_triage.model.files import JobFiles

from .tree import IDLE, LOG, TRAINER, Outputs

NAME = "7-JAX-m"
K8S = "k8s-20260310-080957-475e"
CORPUS = Path(__file__).parents[1] / "corpus"


def roles(files: JobFiles) -> list[tuple[str, str, tuple[int, ...], str | None]]:
    return [(f.role, Path(f.path).name, f.ranks, f.host) for f in files.logs]


class TestK8s:
    """PITFALLS G1-G3."""

    def test_rank_logs_in_numeric_order(self, outputs: Outputs) -> None:
        _, directory = outputs.job(f"{K8S}-JAX-m")
        for rank in (10, 9, 1):
            (directory / f"rank-{rank}.log").write_bytes(LOG)
        (directory / "rank-x.log").write_bytes(LOG)
        (directory / "rank-2.log.old").write_bytes(LOG)
        expected = [
            ("primary", f"{K8S}-JAX-m.log", (0,), None),
            ("rank", "rank-1.log", (1,), None),
            ("rank", "rank-9.log", (9,), None),
            ("rank", "rank-10.log", (10,), None),
        ]
        assert roles(locate(K8S)) == expected
        assert roles(locate(str(directory / "rank-9.log"))) == expected

    def test_rank_log_link_is_not_followed(self, outputs: Outputs, tmp_path: Path) -> None:
        _, directory = outputs.job(f"{K8S}-JAX-m")
        (tmp_path / "secret").write_bytes(b"x")
        (directory / "rank-1.log").symlink_to(tmp_path / "secret")
        assert len(locate(K8S).logs) == 1

    def test_rank_zero_missing(self, outputs: Outputs) -> None:
        directory = outputs.directory(f"{K8S}-JAX-m")
        for rank in (1, 2):
            (directory / f"rank-{rank}.log").write_bytes(LOG)
        for target in (K8S, str(directory), str(directory / "rank-2.log")):
            files = locate(target)
            assert [(r, ranks) for r, _, ranks, _ in roles(files)] == [("primary", (1,)), ("rank", (2,))]
            assert files.problem is None
            assert files.notes == ("the log of rank 0 is missing: rank 1 stands in for it",)

    def test_barrier_failure(self, outputs: Outputs) -> None:
        """No log, no link, only the barrier's files: a job all the same."""
        directory = outputs.directory(f"{K8S}-JAX-m")
        (directory / ".coord").mkdir()
        for name in ("rank-0", "rank-2", "ready-0", "ready-2", "ready-x"):
            (directory / ".coord" / name).touch()
        for target in (K8S, str(directory)):
            files = locate(target)
            assert files.coord_ranks == (0, 2)
            assert files.logs == ()
            assert "rank 0,2 reached the start barrier" in (files.problem or "")


class TestRayWorkers:
    """PITFALLS F4, LAYOUT 2."""

    @pytest.fixture
    def directory(self, outputs: Outputs) -> Path:
        return outputs.job(NAME)[1]

    def test_trainers_only(self, outputs: Outputs, directory: Path) -> None:
        for pid in range(100, 105):
            outputs.worker(directory, "n1", pid, IDLE, IDLE)
        outputs.worker(directory, "n1", 106, IDLE + b"some output of a data loader, step 5\n" * 9)
        outputs.worker(directory, "n10", 1, TRAINER % (2, b"n10"))
        outputs.worker(directory, "n2", 2, TRAINER % (1, b"n2"), IDLE + b"Traceback (most recent call last):\n")
        outputs.worker(directory, "n1", 3, TRAINER % (0, b"n1"))
        (directory / "ray_logs" / "n1" / "raylet.out").write_bytes(TRAINER)
        files = locate("7")
        assert [(role, host, ranks, name[-5:]) for role, name, ranks, host in roles(files)[1:]] == [
            ("ray-worker", "n1", (0,), "3.out"),
            ("ray-worker", "n2", (1,), "2.out"),
            ("ray-worker", "n2", (1,), "2.err"),
            ("ray-worker", "n10", (2,), "1.out"),
        ]
        assert files.ray_logs_dir == str(directory / "ray_logs")

    def test_session_layout(self, outputs: Outputs, directory: Path) -> None:
        outputs.worker(directory, "n1", 3, TRAINER % (0, b"n1"), layout="session_2026-01-01_10-00-00_1_1/logs")
        outputs.worker(directory, "n1", 4, IDLE, layout="session_2026-01-01_10-00-00_1_1/logs")
        assert [(role, host) for role, _, _, host in roles(locate("7"))[1:]] == [("ray-worker", "n1")]

    def test_restarted_actor_keeps_both_in_order_of_time(self, outputs: Outputs, directory: Path) -> None:
        second = outputs.worker(directory, "n1", 3, TRAINER % (0, b"n1"))
        first = outputs.worker(directory, "n1", 4, TRAINER % (0, b"n1"))
        for path, when in ((first, 1000), (second, 2000)):
            for kind in (path, path.with_suffix(".err")):
                os.utime(kind, (when, when))
        assert [f.path for f in locate("7").logs[1:]] == [str(first), str(second)]

    def test_another_trainer_actor(self, outputs: Outputs, directory: Path) -> None:
        trainer = outputs.worker(directory, "n1", 3, b":job_id:01\n:actor_name:TorchTrainWorker\nepoch 1\n")
        outputs.worker(directory, "n1", 4, b":job_id:01\n:actor_name:StatsActor\nloss: 1\n")
        assert [f.path for f in locate("7").logs[1:]] == [str(trainer)]

    def test_without_actor_lines_the_content_decides(self, outputs: Outputs, directory: Path) -> None:
        late = outputs.worker(
            directory, "n1", 3, IDLE + b"Config param x: y\n" * 10_000 + b"completed step: 3, seconds: 1\n"
        )
        outputs.worker(directory, "n1", 4, IDLE + b"just some words of a helper task\n")
        assert [f.path for f in locate("7").logs[1:]] == [str(late)]

    def test_idle_workers_only(self, outputs: Outputs, directory: Path) -> None:
        for pid in range(50):
            outputs.worker(directory, "n1", pid, IDLE, IDLE)
        assert len(locate("7").logs) == 1

    def test_two_node_numbers_in_one_file_give_no_rank(self, outputs: Outputs, directory: Path) -> None:
        outputs.worker(directory, "n1", 3, TRAINER % (0, b"n1") + TRAINER % (1, b"n1"))
        assert [ranks for _, _, ranks, _ in roles(locate("7"))[1:]] == [()]

    def test_worker_file_as_target(self, outputs: Outputs, directory: Path) -> None:
        worker = outputs.worker(directory, "n1", 3, TRAINER % (0, b"n1"))
        assert [f.path for f in locate(str(worker)).logs] == [str(outputs.path / f"{NAME}.log"), str(worker)]

    def test_worker_file_of_no_job(self, tmp_path: Path) -> None:
        worker = Outputs(tmp_path / "x").worker(tmp_path, "n1", 3, TRAINER % (0, b"n1"))
        shutil.move(worker, tmp_path / worker.name)
        assert [f.path for f in locate(str(tmp_path / worker.name)).logs] == [str(tmp_path / worker.name)]

    def test_hostile_directory(self, outputs: Outputs, directory: Path, tmp_path: Path) -> None:
        """Links, pipes and loops among the workers are passed over."""
        place = outputs.worker(directory, "n1", 3, TRAINER % (0, b"n1")).parent
        (tmp_path / "secret").write_bytes(TRAINER * 10)
        (place / f"worker-{9:056x}-ffffffff-9.out").symlink_to(tmp_path / "secret")
        os.mkfifo(place / f"worker-{8:056x}-ffffffff-8.out")
        (place.parent / "loop").symlink_to("..")
        (place / "session_x").symlink_to("..")
        assert len(locate("7").logs) == 2


@pytest.mark.parametrize("case", sorted(p.parent.name for p in (CORPUS / "runs").glob("*/ray_logs")))
def test_real_ray_runs(case: str) -> None:
    """One trainer per node, both of its files, whichever way the job is named."""
    directory = CORPUS / "runs" / case
    files = locate(str(directory))
    workers = [(f.host, f.ranks, f.path[-4:]) for f in files.logs if f.role == "ray-worker"]
    assert workers == [
        ("node07", (0,), ".out"),
        ("node07", (0,), ".err"),
        ("node08", (1,), ".out"),
        ("node08", (1,), ".err"),
    ]
    assert locate(str(directory / "log.txt")) == files


class TestPrometheus:
    def test_series(self, outputs: Outputs) -> None:
        directory = outputs.job(NAME)[1]
        (directory / "prometheus" / "wal").mkdir(parents=True)
        assert locate("7").prometheus_dir == str(directory / "prometheus")

    def test_started_but_nothing_written(self, outputs: Outputs) -> None:
        """The directory is made before the download can fail (PITFALLS F3)."""
        directory = outputs.job(NAME)[1]
        (directory / "prometheus").mkdir()
        assert locate("7").prometheus_dir is None
        (directory / "prometheus" / "prometheus.log").touch()
        assert locate("7").prometheus_dir is None


class TestArtifact:
    def test_link_into_a_subdirectory(self, outputs: Outputs) -> None:
        directory = outputs.job(NAME)[1]
        store = outputs.path / ".artifacts" / "artifact_20260301_101010_ab12"
        (store / "sub").mkdir()
        (directory / "artifact").unlink()
        (directory / "artifact").symlink_to(f"../.artifacts/{store.name}/sub")
        files = locate("7")
        assert files.artifact_dir == str(store / "sub")
        assert files.submit_cmd == (store / "submit_cmd.txt").read_text().rstrip("\n")

    def test_deleted(self, outputs: Outputs) -> None:
        outputs.job(NAME)
        shutil.rmtree(outputs.path / ".artifacts")
        files = locate("7")
        assert (files.artifact_dir, files.submit_cmd) == (None, None)

    def test_undecodable_command(self, outputs: Outputs) -> None:
        outputs.job(NAME)
        (outputs.path / ".artifacts/artifact_20260301_101010_ab12/submit_cmd.txt").write_bytes(b"./submit.sh \xff\n")
        assert locate("7").submit_cmd == "./submit.sh \ufffd"


def test_core_dumps(outputs: Outputs, tmp_path: Path) -> None:
    directory = outputs.job(NAME)[1]
    own = directory / "core.7.1700000000.0.chi1.python3.9"
    shared = outputs.path / "core.7.1700000001.1.chi2.python3.10"
    for path in (own, shared, outputs.path / "core.70.1.0.x.y.1", outputs.path / "core.dump"):
        path.write_bytes(b"core")
    (directory / "core.7.link").symlink_to(tmp_path)
    assert locate("7").core_dumps == (str(own), str(shared))


def test_node_snapshots(outputs: Outputs) -> None:
    directory = outputs.job(NAME)[1]
    (directory / "triage").mkdir()
    for name in ("node-chi10.txt", "node-chi9.txt", "other.txt"):
        (directory / "triage" / name).touch()
    (directory / "kernel-dmesg.txt").touch()
    assert [Path(p).name for p in locate("7").node_snapshots] == ["node-chi9.txt", "node-chi10.txt", "kernel-dmesg.txt"]


class TestCheckpoints:
    STEPS = ("0", "200", "1000", "1200.orbax-checkpoint-tmp", "1400.orbax-checkpoint-tmp-1700000000", "notes", "5x")

    def test_committed_or_not(self, outputs: Outputs) -> None:
        path = outputs.checkpoints("model", *self.STEPS) / "run" / "checkpoints"
        (path / "600").write_text("a file is no checkpoint")
        assert [(c.step, c.committed) for c in checkpoint_dirs(path)] == [
            (0, True),
            (200, True),
            (1000, True),
            (1200, False),
            (1400, False),
        ]
        assert checkpoint_dirs(path)[0].path == str(path / "0")

    def test_missing_directory(self, tmp_path: Path) -> None:
        assert checkpoint_dirs(tmp_path / "nosuch") == ()

    def test_in_the_job_directory(self, outputs: Outputs) -> None:
        outputs.job(NAME)
        outputs.checkpoints(NAME, "5", "10.orbax-checkpoint-tmp")
        assert [(c.step, c.committed) for c in locate("7").checkpoints] == [(5, True), (10, False)]

    def test_shared_directory_named_in_the_log(self, outputs: Outputs) -> None:
        outputs.job(NAME)
        path = outputs.checkpoints("model") / "run" / "checkpoints"
        assert checkpoint_path(locate("7"), "/outputs/model/run/checkpoints/") == str(path)

    def test_renamed_job_directory(self, outputs: Outputs) -> None:
        outputs.job("7-JAX-m-2N-TGS_1.000")
        path = outputs.checkpoints("7-JAX-m-2N-TGS_1.000") / "run" / "checkpoints"
        assert checkpoint_path(locate("7"), "/outputs/7-JAX-m/run/checkpoints/") == str(path)

    @pytest.mark.parametrize("configured", ["", "relative", "/outputs/../etc", "/nosuch", "/outputs/nosuch", "/a\0b"])
    def test_paths_that_lead_nowhere(self, outputs: Outputs, configured: str) -> None:
        outputs.job(NAME)
        assert checkpoint_path(locate("7"), configured) is None

    def test_links_on_the_way_are_not_followed(self, outputs: Outputs, tmp_path: Path) -> None:
        outputs.job(NAME)
        Outputs(tmp_path / "private").checkpoints("model")
        (outputs.path / "model").symlink_to(tmp_path / "private" / "model")
        assert checkpoint_path(locate("7"), "/outputs/model/run/checkpoints/") is None

    def test_own_directory_elsewhere(self, outputs: Outputs, tmp_path: Path) -> None:
        outputs.job(NAME)
        path = Outputs(tmp_path / "elsewhere").checkpoints("model")
        assert checkpoint_path(locate("7"), str(path)) == str(path)
