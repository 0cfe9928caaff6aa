"""A test cluster with slurm-triage installed on it by install.sh, the way a site would do it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.cluster.layout import CHECKOUT
from tests.cluster.processes import ClusterError
from tests.service.launcher_jobs import LauncherJob

#: Settings of a worker whose reports do not keep tests waiting.
QUICK = {"settle_s": "1", "reconcile_s": "5", "reconcile_lag_s": "10", "final_wait_s": "20"}


class Site:
    """``prefix``: everything that install.sh makes lies below it. Works on lane "host" (same file system)."""

    def __init__(self, cluster: Cluster, prefix: Path, python: str = sys.executable) -> None:
        self.cluster = cluster
        self.prefix = prefix
        self.queue = prefix / "queue"
        self.python = python
        installed = subprocess.run([python, "-c", "import slurm_triage"], cwd="/", capture_output=True, check=False)
        # A Python that has slurm-triage is used as it is; others find it in the checkout.
        self._path = {} if installed.returncode == 0 else {"PYTHONPATH": str(CHECKOUT)}
        self._worker: subprocess.Popen[bytes] | None = None

    @property
    def env(self) -> dict[str, str]:
        """For commands of slurm-triage, on top of the cluster's own."""
        return {
            "SLURM_TRIAGE_CONFIG": str(self.prefix / "etc/config.toml"),
            "PYTHONDONTWRITEBYTECODE": "1",
            **self._path,
        }

    def install_argv(self, *options: str) -> list[str]:
        """install.sh with this site's places."""
        places = {
            "--prefix": "opt",
            "--etc": "etc",
            "--libexec": "libexec",
            "--bin": "bin",
            "--spool": "spool",
            "--var": "var",
        }
        argv = ["sh", str(CHECKOUT / "install.sh"), "--python", self.python]
        for option, name in places.items():
            argv += [option, str(self.prefix / name)]
        return [*argv, "--slurm-conf", str(self.cluster.layout.slurm_conf), *options]

    def install(self, *options: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run install.sh. Without systemd's units, even on a machine that has systemd."""
        argv = self.install_argv("--no-systemd", *options)
        self.prefix.mkdir(parents=True, exist_ok=True)
        # Jobs of users run what lies here.
        self.prefix.chmod(0o755)
        env = {**self.cluster.env, "PYTHONDONTWRITEBYTECODE": "1", **self._path}
        result = subprocess.run(argv, env=env, text=True, capture_output=True, timeout=300.0, check=False)
        if check and result.returncode:
            raise ClusterError(f"install.sh ended with {result.returncode}: {result.stdout}{result.stderr}")
        self.own_queue()
        return result

    def own_queue(self) -> None:
        """The nodes' epilogs queue where no other site on this machine does, nor an earlier one did."""
        hook_conf = self.prefix / "etc/hook.conf"
        if hook_conf.exists() and "\nqueue=" not in hook_conf.read_text():
            with open(hook_conf, "a") as conf:
                conf.write(f"queue={self.queue}\n")

    def quiet(self) -> bool:
        """No job is about to report itself: each node's epilog has run, what it queued has been carried and read."""
        waiting = [*self.queue.glob("*/*.*.*"), *self.prefix.glob("spool/new/*")]
        return self.cluster.all_idle() and not waiting

    def command(self, *args: str, user: str = "root", check: bool = True) -> subprocess.CompletedProcess[str]:
        """slurm-triage as a user."""
        return self.cluster.run(
            [self.python, "-m", "slurm_triage", *args], user=user, env=self.env, check=check, timeout_s=120.0
        )

    def start_worker(self, **settings: str) -> int:
        """In the background; returns its pid. ``settings``: SLURM_TRIAGE_... variables, lower case names."""
        extra = {f"SLURM_TRIAGE_{name.upper()}": value for name, value in settings.items()}
        with open(self.prefix / "worker.log", "ab") as output:
            self._worker = subprocess.Popen(
                [self.python, "-m", "slurm_triage", "worker", "-v"],
                cwd="/",
                env={**self.cluster.env, **self.env, **extra},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return self._worker.pid

    def stop_worker(self, timeout_s: float = 60.0) -> int:
        """SIGTERM; returns the exit status."""
        worker, self._worker = self._worker, None
        if worker is None:
            return 0
        worker.terminate()
        return worker.wait(timeout_s)

    def kill_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.kill()
            worker.wait()

    def worker_log(self) -> str:
        return (self.prefix / "worker.log").read_text(errors="replace")

    # ---- jobs -----------------------------------------------------------------------------------------------------

    def submit(self, job: LauncherJob, user: str, directory: Path, *args: str) -> str:
        """Submit the job from ``directory`` (the user's, with ``outputs`` in it). Makes the job directory, as the
        launcher's submit script does. Returns the job id."""
        job_id = self.cluster.submit(
            user, job.script, "-N2", "-n2", "-J", job.job_name, "-o", job.output, *args, cwd=directory
        )
        target = self.cluster.path(directory) / "outputs" / f"{job_id}-{job.job_name}"
        if len(os.fsencode(target.name)) <= 255:
            target.mkdir(exist_ok=True)
            uid = self.cluster.uid(user)
            os.chown(target, uid, uid)
        return job_id

    def outputs(self, user: str, name: str) -> Path:
        """A new working directory of the user with ``outputs`` in it."""
        directory = self.cluster.workdir(user, name)
        outputs = self.cluster.path(directory) / "outputs"
        outputs.mkdir()
        uid = self.cluster.uid(user)
        os.chown(outputs, uid, uid)
        return directory

    def records(self, *job_ids: str) -> dict[str, list[Mapping[str, object]]]:
        """Ledger records by job id."""
        from slurm_triage.ledger.query import by_job
        from slurm_triage.ledger.record import to_dict

        return {job_id: [to_dict(r) for r in by_job([self.prefix / "var/ledger"], job_id)] for job_id in job_ids}

    def wait_for_reports(self, *job_ids: str, timeout_s: float = 90.0) -> dict[str, Mapping[str, object]]:
        """The newest final record of each job, once all are there. Raises TimeoutError."""
        until = time.monotonic() + timeout_s
        while True:
            found = {job_id: runs[-1] for job_id, runs in self.records(*job_ids).items() if runs}
            final = {job_id: record for job_id, record in found.items() if not record.get("provisional")}
            if len(final) == len(job_ids):
                return final
            if time.monotonic() > until:
                missing = sorted(set(job_ids) - set(final))
                raise TimeoutError(f"no report of jobs {missing} in {timeout_s:.0f} s; {self.worker_log()[-2000:]}")
            time.sleep(0.3)


@contextmanager
def installed(cluster: Cluster, name: str, *options: str, **settings: str) -> Iterator[Site]:
    """slurm-triage on the cluster, with a worker at work; the cluster is as before afterwards. ``options``: further
    ones of install.sh."""
    site = Site(cluster, cluster.dir / f"{name}-{os.getpid()}")
    cluster.reconfigure("EpilogSlurmctld=", "JobCompType=", "JobCompLoc=")
    try:
        site.install("--edit-slurm-conf", *options)
        cluster.ctld_restart()
        cluster.scontrol("reconfigure")
        cluster.wait_for("all nodes idle", cluster.all_idle, 30.0)
        site.start_worker(**settings)
        yield site
    finally:
        site.stop_worker()
        site.install("--uninstall", "--purge", check=False)
        cluster.reconfigure()
        # What stays until slurmctld has been restarted.
        site.install("--uninstall", "--purge", check=False)
