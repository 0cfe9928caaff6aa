"""A real one-machine Slurm cluster: what tests do with it. ``daemons.py`` brings it up and down."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from slurm_triage.model.job import TERMINAL_STATES
from tests.cluster import config
from tests.cluster.daemons import Daemons

#: States after which a job does not come back.
OVER = TERMINAL_STATES - {"REQUEUED"}


class Cluster(Daemons):
    """Hooks and jobs."""

    # ---- hooks ----------------------------------------------------------------------------------------------------

    def set_hooks(self, hooks: Mapping[str, Path | str | None], substitute: Mapping[str, str] | None = None) -> None:
        """Install hook scripts in place of the ones that do nothing; no restart needed.

        Keys: the names in ``config.HOOKS`` and ``epilog.d/NAME``. Values: a file to copy, the script's text, or None to
        go back to doing nothing. ``substitute`` replaces texts in the scripts, as an installation under another
        prefix does.
        """
        for name, content in hooks.items():
            target = self.dir / "hooks" / name
            if content is None and name.startswith("epilog.d/"):
                target.unlink(missing_ok=True)
                continue
            text = config.NO_OP if content is None else content.read_text() if isinstance(content, Path) else content
            for old, new in (substitute or {}).items():
                text = text.replace(old, new)
            new_file = target.with_name("." + target.name)
            new_file.write_text(text)
            new_file.chmod(0o755)
            # A slurmd that lists the directory between write and chmod must not meet a file it cannot run.
            new_file.rename(target)

    # ---- jobs -----------------------------------------------------------------------------------------------------

    def submit(self, user: str, script: str, *args: str, cwd: str | Path | None = None, **env: str) -> str:
        """Submit a batch script (its text). Returns the job id. A script without ``#!`` gets /bin/bash."""
        text = script if script.startswith("#!") else f"#!/bin/bash\n{script}\n"
        argv = ["sbatch", "--parsable", *args]
        result = self.run(argv, user=user, cwd=cwd or self.home(user), env=env, stdin=text)
        return re.split(r"[;\n]", result.stdout)[0]

    def scancel(self, *args: str) -> None:
        self.output("scancel", *args)

    def queue(self) -> dict[str, str]:
        """Raw job id -> state of every job slurmctld still holds; array tasks one by one."""
        rows = self.output("squeue", "-h", "-r", "-t", "all", "-o", "%A|%F_%K|%T").splitlines()
        states: dict[str, str] = {}
        for row in rows:
            raw, task, state = row.split("|")
            states[raw] = states[task] = state
        return states

    def job_state(self, job_id: str) -> str | None:
        return self.queue().get(job_id)

    def wait_state(self, job_id: str, *states: str, timeout_s: float = 60.0) -> str:
        """Wait until slurmctld shows the job in one of these states; returns it."""
        self.wait_for(f"job {job_id} {states}", lambda: self.job_state(job_id) in states, timeout_s)
        return self.job_state(job_id) or ""

    def wait(self, *job_ids: str, timeout_s: float = 240.0) -> dict[str, str]:
        """Wait until the jobs are over and accounting knows it. Returns job id -> state. ``12_3`` names an array task,
        ``12`` of an array waits for all of its tasks."""
        states: dict[str, str] = {}

        def done() -> bool:
            states.clear()
            rows = self.sacct("-nPXD", "-j", ",".join(job_ids), "-o", "jobidraw,jobid,state,end,workdir").splitlines()
            last: dict[str, list[str]] = {}
            for row in rows:
                raw, job_id, state, end, work_dir = row.split("|", 4)
                if not work_dir:  # 22.05 writes it up to five seconds after the end
                    return False
                last[raw] = last[job_id] = [state, end]
                array = job_id.partition("_")[0]
                if array != job_id and array in job_ids and raw != array:
                    last.setdefault(array, [state, end])
            held = self.queue()
            waiting = {raw for raw, state in held.items() if state not in OVER}
            for job_id in job_ids:
                state, end = last.get(job_id, ["", "Unknown"])
                if end == "Unknown" or job_id in waiting or any(w.startswith(job_id + "_") for w in waiting):
                    return False
                states[job_id] = state.partition(" ")[0]
            return all(state in OVER for state in states.values())

        self.wait_for(f"end of jobs {', '.join(job_ids)}", done, timeout_s, 0.3)
        return states
