"""What to do about running again, by class (seed, "Next-step templates" and its retry-first policy)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slurm_triage.model import nodelist
from slurm_triage.model.diagnosis import Primary, Resubmit, Status, Suspect
from slurm_triage.model.duration import human
from slurm_triage.model.progress import Progress

_HEARTBEAT_KEY = "jax_distributed_heartbeat_timeout_seconds"
_STAGE_OF = {"preflight-timeout": "preflight", "pull-timeout": "pull", "ecc-timeout": "ecc", "train-timeout": "train"}
_AGAIN = "the same failure will come again until the cause is fixed"
_AGAIN_IF = "if this is the cause, the same failure will come again until it is fixed"
#: Doubling a stage's limit is the smallest change that a slow but healthy stage needs; the seed's example is 1800 s.
_STAGE_FACTOR = 2


def advise(
    status: Status,
    primary: Primary | None,
    suspects: Sequence[Suspect],
    progress: Progress,
    changes: Mapping[str, str],
    heartbeat_s: int | None,
    stage_limits_s: Mapping[str, float | None],
) -> Resubmit:
    """Action, reason and argument changes. ``heartbeat_s``: a timeout that fits this job; None if the present one does.

    The command line is put together from the recorded one elsewhere."""
    if primary is None:
        why = {"running": "the job is running", "completed": "the job completed"}.get(status, "no failure was found")
        return Resubmit("none", why)
    if primary.retry in {"pointless", "not-needed"} or primary.cls == "soft-success":
        return Resubmit("none", _no_rerun_reason(primary))
    if status == "completed" and primary.cls == "tgs-degradation":
        return Resubmit("none", "the job completed; look at the slow nodes before the next run")
    args = dict(changes)
    notes: list[str] = []
    if primary.cls == "heartbeat-timeout" and heartbeat_s is not None:
        args[_HEARTBEAT_KEY] = str(heartbeat_s)
        notes.append(f"raise the heartbeat timeout to {heartbeat_s} s ({human(heartbeat_s)})")
    stage = _STAGE_OF.get(primary.cls)
    if stage is not None:
        limit = stage_limits_s.get(stage)
        limit_s = int(limit * _STAGE_FACTOR) if limit else 1800
        args["STAGE_TIMEOUTS"] = f"{stage}:{limit_s}"
        notes.append(f'set STAGE_TIMEOUTS="{stage}:{limit_s}"')
    for key, value in changes.items():
        notes.append(f"set {key.removeprefix('_env_')}={value}")
    excluded = tuple(sorted(s.node for s in suspects if s.exclude))
    if excluded:
        notes.append(f"leave out {nodelist.fold(excluded)}")
        return Resubmit("other-nodes", f"{primary.title}; the fault is in the node", None, excluded, tuple(notes), args)
    if primary.retry == "after-fix":
        return Resubmit(
            "after-fix", _AGAIN if primary.confidence == "high" else _AGAIN_IF, None, (), tuple(notes), args
        )
    if primary.retry == "other-nodes":
        return Resubmit("other-nodes", "a retry may help, on other nodes if it recurs", None, (), tuple(notes), args)
    why = "a retry on the same nodes usually helps; exclude nodes only if it happens again there"
    if primary.cls == "unknown-death" or primary.confidence == "low":
        why = "the cause is not certain; a retry on the same nodes shows whether it comes again"
    if progress.last_checkpoint is not None:
        why += f"; it continues from checkpoint {progress.last_checkpoint}"
    return Resubmit("same-nodes", why, None, (), tuple(notes), args)


def _no_rerun_reason(primary: Primary) -> str:
    if primary.cls == "soft-success":
        return "training is complete; running it again would only repeat it"
    if primary.retry == "not-needed":
        return "nothing failed that a new run would have to make up for"
    return "a new run would end the same way"
