"""Builds outputs directories as the launcher leaves them."""

from __future__ import annotations

import os
from pathlib import Path

from slurm_triage.model.files import JobFiles

LOG = b"JOB_ID=1\ncompleted step: 1, seconds: 1.0\n"
SUBMIT_CMD = "RAY=1 ./submit.sh llama2-70b:t1 -N 2 -- steps=3"
TRAINER = b":job_id:01000000\n:actor_name:MaxTextTrainerActor\n[Node %d @ %s] Launching training subprocess: python\n"
IDLE = b":job_id:01000000\n"

#: A user who is neither root nor whoever runs the tests.
STRANGER = 54321


class Outputs:
    """An outputs directory under construction."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)

    def log(self, name: str, content: bytes = LOG) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def directory(self, name: str, *, link: str | None = None) -> Path:
        """A directory, with its ``log`` link if ``link`` says where it leads."""
        path = self.path / name
        path.mkdir(parents=True, exist_ok=True)
        if link is not None:
            (path / "log").symlink_to(link)
        return path

    def job(self, name: str, suffix: str = ".log") -> tuple[Path, Path]:
        """A finished Slurm job: (log, directory), as ``submit.sh`` makes them."""
        log = self.log(name + suffix)
        directory = self.directory(name, link=f"../{name}{suffix}")
        artifact = self.path / ".artifacts" / "artifact_20260301_101010_ab12"
        artifact.mkdir(parents=True, exist_ok=True)
        (artifact / "submit_cmd.txt").write_text(SUBMIT_CMD + "\n")
        (directory / "artifact").symlink_to("../.artifacts/artifact_20260301_101010_ab12")
        return log, directory

    def checkpoints(self, name: str, *steps: str) -> Path:
        """A shared checkpoint directory."""
        for step in steps or ("0", "200"):
            (self.path / name / "run" / "checkpoints" / step).mkdir(parents=True)
        return self.path / name

    def worker(self, directory: Path, host: str, pid: int, out: bytes, err: bytes = b"", layout: str = "") -> Path:
        """A Ray worker's pair of files; ``layout`` is a directory between host and files."""
        place = directory / "ray_logs" / host / layout
        place.mkdir(parents=True, exist_ok=True)
        stem = f"worker-{pid:056x}-ffffffff-{pid}"
        (place / f"{stem}.out").write_bytes(out)
        (place / f"{stem}.err").write_bytes(err)
        return place / f"{stem}.out"


def disown(path: Path, monkeypatch: object) -> None:
    """Make a link somebody else's: change its owner, or (without root) who we seem to be."""
    if os.geteuid() == 0:
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)  # type: ignore[attr-defined]


def primary(files: JobFiles) -> str:
    """The path of the job's log."""
    assert files.problem is None
    assert files.primary is not None
    return files.primary.path
