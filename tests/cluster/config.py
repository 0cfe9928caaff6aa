"""Configuration files of the test cluster."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.layout import CLUSTER_NAME, Layout

DATABASE_PASSWORD = "slurm-triage-test"
HOOKS = ("prolog-slurmctld", "epilog-slurmctld", "jobcomp", "mail", "prolog", "task-prolog", "task-epilog")
GPUS_PER_NODE = 4
NO_OP = "#!/bin/sh\nexit 0\n"


def listen_on_loopback(layout: Layout, hostname: str) -> bool:
    """True if daemons that listen on the address of the host's own name listen on the loopback interface."""
    try:
        return layout.lane == "root" or socket.gethostbyname(hostname).startswith("127.")
    except OSError:
        return False


def slurmdbd_conf(layout: Layout, hostname: str, commit_delay_s: int = 0) -> str:
    listen = "CommunicationParameters=NoInAddrAny\n" if listen_on_loopback(layout, hostname) else ""
    return f"""\
{listen}AuthType=auth/munge
AuthInfo=socket={layout.munge_socket}
DbdHost={hostname}
DbdAddr=127.0.0.1
DbdPort={layout.dbd_port}
SlurmUser=slurm
PidFile={layout.inside}/run/slurmdbd.slurm
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={layout.database_port}
StorageUser=slurm
StoragePass={DATABASE_PASSWORD}
StorageLoc=slurm_acct_db
CommitDelay={commit_delay_s}
DebugLevel=info
"""


def slurm_conf(layout: Layout, hostname: str, *, memory_cgroup: bool, extra: Sequence[str] = ()) -> str:
    """``extra`` lines come last before the nodes and win over the defaults of the same name."""
    settings = {
        "ClusterName": CLUSTER_NAME,
        "SlurmctldHost": f"{hostname}(127.0.0.1)",
        "SlurmctldPort": str(layout.base_port),
        "SlurmUser": "slurm",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={layout.munge_socket}",
        "CredType": "cred/munge",
        "StateSaveLocation": f"{layout.inside}/state",
        "SlurmdSpoolDir": f"{layout.inside}/spool/%n",
        "SlurmctldPidFile": f"{layout.inside}/run/slurmctld.slurm",
        "SlurmdPidFile": f"{layout.inside}/spool/%n/slurmd.slurm",
        "SlurmctldDebug": "verbose",
        "SlurmdDebug": "verbose",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/cgroup" if memory_cgroup else "task/none",
        "JobAcctGatherType": "jobacct_gather/linux",
        "JobAcctGatherFrequency": "task=1",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        # More cores and memory than a small test machine has: jobs here mostly sleep.
        "SlurmdParameters": "config_overrides",
        "GresTypes": "gpu",
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "127.0.0.1",
        "AccountingStoragePort": str(layout.dbd_port),
        "AccountingStoreFlags": "job_comment,job_env,job_script",
        "AccountingStorageTRES": "gres/gpu",
        # The munge socket for talking to slurmdbd; AuthInfo does not cover that connection.
        "AccountingStoragePass": str(layout.munge_socket),
        "PlugStackConfig": f"{layout.inside}/etc/plugstack.conf",
        "MpiDefault": "none",
        # Listen on the address of the host's own name, which is on the loopback interface here, not on every one.
        "CommunicationParameters": "NoInAddrAny,NoCtldInAddrAny" if listen_on_loopback(layout, hostname) else "",
        # The shortest times at which a lost node, a stubborn process and a full queue are still told apart.
        "ReturnToService": "2",
        "SlurmdTimeout": "15",
        "SlurmctldTimeout": "30",
        "MessageTimeout": "10",
        "KillWait": "3",
        "MinJobAge": "300",
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": "bf_interval=3,batch_sched_delay=0,sched_interval=5",
        "PreemptType": "preempt/partition_prio",
        "PreemptMode": "REQUEUE",
        "JobRequeue": "1",
        "DefMemPerCPU": "100",
        "MaxArraySize": "20001",
        "MaxJobCount": "30000",
        **hook_settings(layout),
    }
    for line in extra:
        key, _, value = line.partition("=")
        settings[key] = value
    lines = [f"{key}={value}" for key, value in settings.items() if value]
    for node in layout.nodes:
        lines.append(
            f"NodeName={node} NodeHostname={node} NodeAddr=127.0.0.1 Port={layout.node_port(node)}"
            f" CPUs=8 RealMemory=8000 Gres=gpu:{GPUS_PER_NODE} State=UNKNOWN"
        )
    lines.append("PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1")
    lines.append("PartitionName=broken Nodes=node02,node05 MaxTime=INFINITE State=UP PriorityTier=1")
    lines.append("PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF")
    return "\n".join(lines) + "\n"


def hook_settings(layout: Layout) -> dict[str, str]:
    """Every hook is configured from the start and does nothing; tests replace the files, which needs no restart."""
    hooks = layout.inside / "hooks"
    return {
        "PrologSlurmctld": f"{hooks}/prolog-slurmctld",
        "EpilogSlurmctld": f"{hooks}/epilog-slurmctld",
        "Prolog": f"{hooks}/prolog",
        "Epilog": f"{hooks}/epilog.d/*",
        "TaskProlog": f"{hooks}/task-prolog",
        "TaskEpilog": f"{hooks}/task-epilog",
        "MailProg": f"{hooks}/mail",
        "JobCompType": "jobcomp/script",
        "JobCompLoc": f"{hooks}/jobcomp",
    }


def gres_conf(layout: Layout) -> str:
    """GPUs that do not exist: Slurm counts the files and never opens them."""
    return f"Name=gpu File={layout.inside}/etc/gpu[0-{GPUS_PER_NODE - 1}]\n"


def hosts(layout: Layout, hostname: str) -> str:
    """Names of the nodes, for the nodes."""
    return f"127.0.0.1 localhost {hostname} {' '.join(layout.nodes)}\n"


def cgroup_conf(layout: Layout, version: int | None) -> str:
    """``version`` of the kernel's memory control groups, None if there are none."""
    if version is None:
        return "ConstrainRAMSpace=no\n"
    return f"""\
CgroupPlugin=cgroup/v{version}
CgroupMountpoint={layout.inside}/cgroup
ConstrainRAMSpace=yes
ConstrainSwapSpace=no
{"IgnoreSystemd=yes" if version == 2 else ""}
"""


def write_file(path: Path, text: str, mode: int = 0o644) -> bool:
    """Write unless the file has this text already; True if it was written."""
    if path.is_file() and path.read_text() == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return True
