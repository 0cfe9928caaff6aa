"""Jobs that end in every way a real cluster offers, submitted together and waited for together.

``start_all`` submits and acts; ``finish_all`` waits. The names are the vocabulary of the tests.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.cluster.cluster import Cluster

# Each disturbing scenario has a node of its own; the others run on the two quiet ones.
QUIET, BROKEN, PREEMPTION, LOST, HELD, CALM = "node01", "node02", "node03", "node04", "node05", "node06"

#: A hook that fails for the jobs of the scenarios named here, and only for them.
FAILING_PROLOG = """#!/bin/sh
[ "$SLURM_JOB_PARTITION" = broken ] && exit 1
exit 0
"""
FAILING_PROLOG_SLURMCTLD = """#!/bin/sh
[ "$SLURM_JOB_NAME" = prolog-slurmctld-fails ] && exit 1
exec {then}
"""
#: Uses more memory than the job may, in a child of the batch script.
EAT_MEMORY = "python3 -c 'x = bytearray(400 << 20); print(len(x))'"


@dataclass(frozen=True)
class Scenario:
    """``act`` is called when the job has reached the state ``when``."""

    name: str
    script: str = ""
    args: Sequence[str] = ()
    node: str = QUIET
    user: str = "alice"
    when: str = "RUNNING"
    act: Callable[[Cluster, str], None] | None = None
    state: str = "FAILED"
    needs_memory_cgroup: bool = False
    ends: bool = True
    """False: the job stays pending (launch failed, held) and is never over by itself."""


def _end_now(cluster: Cluster, job_id: str) -> None:
    """Bring the time limit close; slurmctld looks every 30 s."""
    cluster.scontrol("update", f"jobid={job_id}", "EndTime=now+2seconds")


def _scancel(cluster: Cluster, job_id: str) -> None:
    cluster.scancel(job_id)


def _lose_node(cluster: Cluster, job_id: str) -> None:
    """The node dies while the job runs on it; slurmctld notices after SlurmdTimeout. ``finish_all`` brings it back."""
    del job_id
    cluster.crash(LOST)


def _has_start(cluster: Cluster, job_id: str) -> None:
    """A run that is over before slurmctld gets around to telling slurmdbd of it has no start in accounting."""
    told = ("-nPX", "-j", job_id, "-o", "start")
    cluster.wait_for("start in accounting", lambda: "Unknown" not in cluster.sacct(*told) != "", 30.0, 0.3)


def _requeue(cluster: Cluster, job_id: str) -> None:
    """A second run at once, instead of after the two minutes that Slurm waits."""
    _has_start(cluster, job_id)
    cluster.scontrol("requeue", job_id)
    cluster.wait_for("requeued job pending", lambda: cluster.job_state(job_id) == "PENDING", 60.0)
    # Started again within the second in which its node still ends the first run, the second fails with 1:0 (22.05, on
    # nodes without an epilog that takes any time).
    time.sleep(2.0)
    cluster.scontrol("update", f"jobid={job_id}", "StartTime=now")


def _preempt(cluster: Cluster, job_id: str) -> None:
    _has_start(cluster, job_id)
    cluster.submit("bob", "sleep 1", "-p", "high", "-w", PREEMPTION, "--exclusive", "-J", "preemptor")
    cluster.wait_for("preempted job pending", lambda: cluster.job_state(job_id) == "PENDING", 60.0)
    cluster.scontrol("update", f"jobid={job_id}", "StartTime=now")


FIRST_RUN = "echo run $SLURM_RESTART_COUNT; [ ${SLURM_RESTART_COUNT:-0} -gt 0 ] || sleep 300"
APPEND = ("--open-mode=append", "--requeue")

SCENARIOS: Mapping[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario("success", "echo done", state="COMPLETED"),
        Scenario("two-nodes", "srun -l hostname", ("-N", "2", "-w", f"{QUIET},{CALM}"), node="", state="COMPLETED"),
        Scenario("gpus", "echo done", ("--gres=gpu:2", "--comment=two words", "-t", "1-02:00:00"), state="COMPLETED"),
        Scenario("exit-3", "echo failing; exit 3", ("--mail-type=END,FAIL",)),
        Scenario("exit-200", "exit 200"),
        Scenario("exit-137", "exit 137", user="bob"),
        Scenario("batch-killed", "kill -SEGV $$"),
        Scenario("batch-terminated", "kill -TERM $$"),
        Scenario("step-killed", "srun sh -c 'kill -SEGV $$'"),
        # The node tells of the step's end by itself, on a busy machine after the job's, whose code then leaves it out.
        Scenario("step-fails-script-goes-on", "srun sh -c 'exit 5'; sleep 2; exit 0", state="COMPLETED"),
        Scenario("output-name-too-long", "echo never", ("-o", "x" * 260)),
        Scenario("bad-interpreter", "#!/no/such/interpreter\n"),
        Scenario("work-dir-missing", "pwd", ("-D", "/no/such/directory", "-o", "/dev/null"), state="COMPLETED"),
        Scenario("time-limit", "sleep 300", ("-t", "1"), act=_end_now, state="TIMEOUT"),
        Scenario("cancelled", "sleep 300", act=_scancel, state="CANCELLED"),
        Scenario(
            "cancelled-term-trapped", "trap '' TERM; sleep 300 & wait; sleep 300", act=_scancel, state="CANCELLED"
        ),
        Scenario("cancelled-pending", "echo never", ("--hold",), when="PENDING", act=_scancel, state="CANCELLED"),
        Scenario("node-lost", "sleep 300", ("--no-requeue",), node=LOST, act=_lose_node, state="NODE_FAIL"),
        Scenario("requeued", FIRST_RUN, APPEND, act=_requeue, state="COMPLETED"),
        Scenario("preempted", FIRST_RUN, (*APPEND, "--exclusive"), PREEMPTION, act=_preempt, state="COMPLETED"),
        Scenario("array", "exit $SLURM_ARRAY_TASK_ID", ("-a", "0-2", "-o", "array-%A_%a.out"), state=""),
        Scenario("oom-step", EAT_MEMORY.join(("srun ", "; exit 7")), ("--mem=100",), needs_memory_cgroup=True),
        Scenario("oom-batch", EAT_MEMORY + "; exit 0", ("--mem=100",), state="OUT_OF_MEMORY", needs_memory_cgroup=True),
        Scenario("hostile-name", "exit 1", ("-J", 'a|b;$(touch /tmp/x) "c"\nd é%j')),
        Scenario("prolog-fails", "echo never", ("-p", "broken", "--no-requeue"), BROKEN, state="CANCELLED"),
        Scenario("launch-failed-held", "echo never", ("-p", "broken", "--requeue"), HELD, state="PENDING", ends=False),
        Scenario("het", "srun true", ("-N1", "--time=5", "-w", QUIET, ":", "-N1", "-w", CALM), "", state="COMPLETED"),
        Scenario("prolog-slurmctld-fails", "echo never", ("--no-requeue",), state="CANCELLED"),
    )
}


@dataclass
class Started:
    """Job ids by scenario name; ``skipped`` holds the reason of each scenario that this machine cannot play."""

    ids: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)


def start_all(cluster: Cluster, names: Sequence[str] | None = None, prolog_slurmctld: str = "/bin/true") -> Started:
    """Submit the scenarios and do what each of them needs while its job is pending or running.

    ``prolog_slurmctld``: a command that PrologSlurmctld runs for all jobs but the one it fails for.
    """
    started = Started()
    failing = FAILING_PROLOG_SLURMCTLD.format(then=prolog_slurmctld)
    cluster.set_hooks({"prolog": FAILING_PROLOG, "prolog-slurmctld": failing})
    for scenario in SCENARIOS.values():
        if names is not None and scenario.name not in names:
            continue
        if scenario.needs_memory_cgroup and cluster.memory_cgroup is None:
            started.skipped[scenario.name] = "this kernel has no memory cgroup that may be used"
            continue
        directory = cluster.workdir(scenario.user, scenario.name)
        args = ["-J", scenario.name, *scenario.args]
        if scenario.node:
            args += ["-w", scenario.node]
        started.ids[scenario.name] = cluster.submit(scenario.user, scenario.script, *args, cwd=directory)
    waiting = {name: SCENARIOS[name] for name in started.ids if SCENARIOS[name].act is not None}
    deadline = time.monotonic() + 60.0
    while waiting:
        states = cluster.queue()
        for name, scenario in list(waiting.items()):
            if states.get(started.ids[name]) == scenario.when and scenario.act is not None:
                # A batch script needs a moment between the job's start and its first command (traps).
                time.sleep(0.3)
                scenario.act(cluster, started.ids[name])
                del waiting[name]
        if time.monotonic() > deadline:
            raise TimeoutError(f"scenarios never started: {sorted(waiting)}; queue: {states}")
        time.sleep(0.2)
    return started


def finish_all(cluster: Cluster, started: Started, timeout_s: float = 240.0) -> dict[str, str]:
    """Wait for the end of all; returns state by scenario name, and puts drained nodes back into service.

    Jobs that never end (launch failed, held) are left waiting, with state PENDING.
    """
    over = {name: job_id for name, job_id in started.ids.items() if SCENARIOS[name].ends}
    states = cluster.wait(*over.values(), timeout_s=timeout_s)
    for node in cluster.layout.nodes:
        cluster.restore(node)
    for node in cluster.drained():
        cluster.resume(node)
    cluster.wait_for("all nodes idle", cluster.all_idle, 60.0)
    held = {name: job_id for name, job_id in started.ids.items() if name not in over}
    return {
        **{name: states[job_id] for name, job_id in over.items()},
        **{name: cluster.wait_state(job_id, "PENDING") for name, job_id in held.items()},
    }
