"""GPU-hours that a job used, and those of them that bought nothing."""

from __future__ import annotations

from slurm_triage.model.facts import AttemptFacts
from slurm_triage.model.job import Job
from slurm_triage.model.progress import Cost, Progress
from slurm_triage.progress.silence_limit import is_stalled

#: The launcher submits every job with ``--gpus-per-task=8 --ntasks-per-node=1``.
_LAUNCHER_GPUS_PER_NODE = 8
_S_PER_HOUR = 3600.0


def cost(job: Job, attempt: AttemptFacts, progress: Progress, node_count: int | None) -> Cost:
    """GPU-hours of the whole job and how many of them are lost; unknown is None.

    Lost of an ended run: the time of the steps since the last usable checkpoint plus the silence at the end;
    everything, setup included, when it left no checkpoint. Nothing of a finished one. Of a live run only a stall counts
    as a loss.
    """
    gpus = _gpus(job, attempt, node_count)
    wall_s = _wall_s(job, progress)
    if gpus is None or wall_s is None:
        return Cost(gpus=gpus)
    lost_s = _lost_s(job, attempt, progress, wall_s)
    return Cost(
        gpus=gpus,
        gpu_hours=gpus * wall_s / _S_PER_HOUR,
        gpu_hours_lost=None if lost_s is None else gpus * min(lost_s, wall_s) / _S_PER_HOUR,
    )


def _gpus(job: Job, attempt: AttemptFacts, node_count: int | None) -> int | None:
    if job.gpus is not None:
        return job.gpus
    nodes = node_count if node_count is not None else attempt.header.nnodes
    per_node = _gpus_per_node(attempt)
    return None if nodes is None or per_node is None else nodes * per_node


def _gpus_per_node(attempt: AttemptFacts) -> int | None:
    """From the environment, from one process per GPU, else what the launcher asks Slurm for.

    The last only in a log with the launcher's header and a Slurm job number: local and Kubernetes runs carry the same
    header but get other hardware.
    """
    for key in ("SLURM_GPUS_ON_NODE", "GPUS_PER_NODE"):
        text = attempt.env.get(key, "")
        if text.isdigit() and int(text) > 0:
            return int(text)
    if attempt.procs_per_node is not None and attempt.procs_per_node > 1:
        return attempt.procs_per_node
    header = attempt.header
    launched = (header.job_id or "").isdigit() and header.passthrough_args is not None
    return _LAUNCHER_GPUS_PER_NODE if launched else None


def _wall_s(job: Job, progress: Progress) -> float | None:
    """The GPUs are paid for from the job's start to its end, whatever the last attempt took of it."""
    if job.start is not None and job.end is not None and job.end >= job.start:
        return job.end - job.start
    return job.elapsed_s if job.elapsed_s is not None and job.is_terminal else progress.wall_s


def _lost_s(job: Job, attempt: AttemptFacts, progress: Progress, wall_s: float) -> float | None:
    total, last = progress.total_steps, progress.last_step
    reached = last if last is not None else progress.restored_from
    if total is not None and reached is not None and reached >= total - 1:
        return 0.0
    ended = job.is_terminal or job.end is not None or bool(attempt.summaries)
    if not ended and not is_stalled(progress):
        return None
    if last is None:
        return None if _succeeded(job, attempt) else wall_s
    if total is None and _succeeded(job, attempt):
        return 0.0
    if progress.lost_steps is None:
        return None
    if progress.last_checkpoint is None:
        return wall_s
    return None if progress.lost_s is None else progress.lost_s + (progress.silence_s or 0.0)


def _succeeded(job: Job, attempt: AttemptFacts) -> bool:
    if job.state is not None:
        return job.state == "COMPLETED"
    return bool(attempt.summaries) and all(s.success for s in attempt.summaries)
