"""Why there is no log: one sentence that tells a job that waits from one that was killed before it could write."""

from __future__ import annotations

from pathlib import Path

from slurm_triage.logs.source import shown
from slurm_triage.model.job import Job
from slurm_triage.model.nodelist import fold_ranks

#: Slurm's ExitCode 0:53: slurmd could not start the batch script.
LAUNCH_SIGNAL = 53

#: The launcher refuses names above this: the log's name adds the id, and a file name has at most 255 bytes.
MAX_JOB_NAME_BYTES = 243


def why_no_log(
    job_id: str | None,
    where: Path,
    *,
    job: Job | None = None,
    dangling: Path | None = None,
    unusable: str | None = None,
    coord_ranks: tuple[int, ...] = (),
) -> str:
    """The sentence for ``JobFiles.problem``.

    ``where`` is the directory that was searched, ``dangling`` what the ``log`` link names, ``unusable`` why a file
    with the right name is no log, ``coord_ranks`` the ranks that reached the k8s start barrier.
    """
    name = f"job {job_id}" if job_id else "the job"
    if unusable is not None:
        return f"there is no log of {name}: {unusable}"
    if job is not None and job.state is not None:
        return _by_accounting(name, where, job)
    if coord_ranks:
        return (
            f"there is no log of {name}: rank {fold_ranks(coord_ranks)} reached the start barrier but training never "
            "began, so other pods are missing: ask kubectl get pods"
        )
    missing = f"the log link names {shown(dangling)}, which does not exist" if dangling else f"none in {shown(where)}"
    ask = f"sacct -j {job_id} tells which" if job_id and job_id[0].isdigit() else "look at how it was started"
    return (
        f"there is no log of {name} ({missing}): it is pending, was cancelled before it started, or was killed before "
        f"its script could run (exit 0:53); {ask}"
    )


def _by_accounting(name: str, where: Path, job: Job) -> str:
    reason = f" ({job.reason})" if job.reason else ""
    if job.state == "PENDING" and job.restarts:
        return f"{name} waits to be started again{reason}: its former log is gone; look again when it runs"
    if job.state == "PENDING":
        return f"{name} is pending{reason} and has not started, so there is no log yet: look again when it runs"
    if job.exit_signal == LAUNCH_SIGNAL and not job.exit_code:
        return f"Slurm killed {name} before its script could run (exit 0:53), so there is no log: {_launch_advice(job)}"
    if job.never_started:
        state = "was cancelled" if job.state == "CANCELLED" else f"ended as {job.state}{reason}"
        return f"{name} {state} before it started, so no log was ever written"
    if job.stdout == "/dev/null":
        return f"{name} sent its output to /dev/null, so there is no log: give it an --output file"
    place = f"at {shown(job.stdout)}" if job.stdout else f"in {shown(where)}"
    if not job.is_terminal:
        return f"{name} is {job.state}, but its log is not {place}: name the log file, or look again in a minute"
    code = f" (exit {job.exit_code or 0}:{job.exit_signal or 0})" if job.exit_code is not None else ""
    return f"{name} ended as {job.state}{code}, but its log is not {place}: it was moved or deleted; name the log file"


def _launch_advice(job: Job) -> str:
    length = len((job.name or "").encode("utf-8", "surrogateescape"))
    if length > MAX_JOB_NAME_BYTES:
        return f"its name has {length} bytes and the log's file name may have 255; give it a shorter name"
    node = f" on {job.nodes[0]}" if job.nodes else ""
    return (
        "most often the log's path cannot be opened (a name longer than 255 bytes, a missing directory), else a prolog "
        f"failed; look at slurmd's log{node}"
    )
