"""All scenarios played once on a cluster, with our hooks installed; what the tests look at afterwards."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slurm_triage.service.spool_event import Event
from slurm_triage.slurm.controller import Controller
from slurm_triage.slurm.sacct import SacctAccounting
from tests.cluster import scenarios
from tests.cluster.cluster import Cluster
from tests.cluster.layout import CHECKOUT
from tests.slurm.hook_files import events_in

HOOK_KINDS = ("epilog-slurmctld", "prolog-slurmctld", "jobcomp", "mail", "task-epilog")
HELPERS = ("record-event", "carry-events", "kernel-messages")


@dataclass
class Played:
    cluster: Cluster
    ids: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def events_of(self, name: str, *kinds: str) -> list[Event]:
        return [event for event in self.events if event.job_id == self.ids[name] and event.kind in kinds]


def install_hooks(cluster: Cluster) -> Path:
    """Our hooks on the cluster, as an installation below another prefix has them. Returns the spool (host's view)."""
    inside = cluster.layout.inside
    spool, hooks = cluster.dir / "triage-spool", cluster.dir / "hooks"
    for name in ("new", "tmp"):
        (spool / name).mkdir(parents=True, exist_ok=True)
        (spool / name).chmod(0o1733)
    # Events that could not be carried wait for the next job on their node.
    shutil.rmtree(cluster.dir / "triage-queue", ignore_errors=True)
    moved = {"/etc/slurm-triage": f"{inside}/etc", "/usr/libexec/slurm-triage": f"{inside}/hooks"}
    for name in HELPERS:
        text = (CHECKOUT / "hooks" / name).read_text()
        for old, new in moved.items():
            text = text.replace(old, new)
        (hooks / name).write_text(text)
    (cluster.dir / "etc/hook.conf").write_text(f"spool={inside}/triage-spool\nqueue={inside}/triage-queue\n")
    cluster.set_hooks({kind: CHECKOUT / "hooks" / kind for kind in HOOK_KINDS}, moved)
    cluster.set_hooks({"epilog.d/50-slurm-triage": CHECKOUT / "epilog.d/50-slurm-triage"}, moved)
    return spool


def remove_hooks(cluster: Cluster) -> None:
    cluster.set_hooks(dict.fromkeys(HOOK_KINDS))
    cluster.set_hooks({"epilog.d/50-slurm-triage": None})
    for name in ("triage-spool", "triage-queue"):
        shutil.rmtree(cluster.dir / name, ignore_errors=True)


def play(cluster: Cluster, names: Sequence[str] | None = None) -> Played:
    """``names``: these scenarios only."""
    spool = install_hooks(cluster)
    # The scenarios need PrologSlurmctld for themselves; ours is called from there.
    cluster.set_hooks({"start": CHECKOUT / "hooks/prolog-slurmctld"})
    started = scenarios.start_all(cluster, names, prolog_slurmctld=f"{cluster.layout.inside}/hooks/start")
    played = Played(cluster, ids=started.ids, skipped=started.skipped)
    played.states = scenarios.finish_all(cluster, started)
    wait_for_nodes(cluster)
    wait_for_controller(cluster)
    played.events = read_spool(spool)
    return played


def wait_for_nodes(cluster: Cluster) -> None:
    """Until what the nodes' epilogs have queued is in the spool."""
    queue = cluster.dir / "triage-queue"
    cluster.wait_for("events of the nodes", lambda: not any(queue.glob("*/*.*")), 20.0)


def wait_for_controller(cluster: Cluster) -> None:
    """Until no hook writes any more. A job that was never launched is over, and its node idle, before slurmctld gets
    around to its EpilogSlurmctld on a machine with much else to do."""
    new = cluster.dir / "triage-spool/new"
    cluster.wait_for(
        "last event", lambda: time.time() - max(path.stat().st_ctime for path in new.iterdir()) > 2.0, 30.0
    )


def read_spool(spool: Path) -> list[Event]:
    return sorted(events_in(spool), key=lambda event: event.time)


def accounting(cluster: Cluster, *, controller: bool = False) -> SacctAccounting:
    """sacct of the cluster, called from outside of its file system."""
    asked = Controller(cluster.prefix) if controller else None
    return SacctAccounting([*cluster.prefix, "sacct"], controller=asked)
