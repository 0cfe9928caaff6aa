"""How classes relate to each other when several of them show in one log.

Source: the seed's list of cascades, and the traps of the public reports: a text can be true and still be only the
messenger.
"""

from __future__ import annotations

#: Detectors: they report that *something* stopped answering. A death or fault found on any rank explains them.
#: Seed: "OOM on one node -> NCCL timeout on other nodes -> heartbeat timeout"; "the heartbeat timeout is the kill
#: mechanism, not the root cause".
SYMPTOMS = frozenset(
    {"hang", "heartbeat-timeout", "nccl-timeout", "coordination-fail", "restore-straggler", "kill-task-failed"}
)

#: Stops from outside: "cancellation is the mechanism, not the root cause".
STOPS = frozenset({"cancelled", "time-limit", "train-timeout", "preempted", "requeued"})

#: Printed when a stage is over its limit, which is after the tasks have been killed for it.
STAGE_TIMEOUTS = frozenset({"preflight-timeout", "pull-timeout", "ecc-timeout", "train-timeout"})

#: Say how a process ended, not why; anything more specific on the same rank explains them.
GENERIC = frozenset({"python-exception", "signal-kill", "actor-fail"})

#: Say only that something ended badly.
OUTCOMES = frozenset({"subprocess-fail", "stage-fail", "unknown-death", "incomplete-success"})

#: Written by the kernel or the scheduler, often long after the fact: when they speak, order in the log means nothing.
WITNESSES = frozenset({"oom-host", "node-fail", "gpu-hw-fault", "prolog-fail", "launch-fail"})

#: Failures after which training may go on for a while before the job stops: background checkpoint saves raise up to
#: ten steps later, NaN losses and failing hardware as well.
LINGERING = frozenset(
    {
        "checkpoint-fs-error",
        "checkpoint-error",
        "fs-error",
        "disk-quota",
        "permission-denied",
        "nan-loss",
        "gpu-hw-fault",
        "oom-host",
    }
)

#: Faults that a process does not get from being stopped.
NOT_BY_STOPPING = frozenset({"oom-gpu", "oom-host", "disk-quota", "permission-denied", "gpu-hw-fault", "nan-loss"})

#: Failures that cost results although every step was done: the last checkpoint is missing, or the losses are worthless.
LOST_RESULTS = frozenset(
    {"checkpoint-fs-error", "checkpoint-error", "fs-error", "disk-quota", "permission-denied", "nan-loss"}
)


def level(cls: str) -> int:
    """0 specific cause, 1 generic death, 2 symptom, 3 stop from outside, 4 outcome."""
    if cls in OUTCOMES:
        return 4
    if cls in STOPS:
        return 3
    if cls in SYMPTOMS:
        return 2
    if cls in GENERIC:
        return 1
    return 0
