"""Private names of one job for ``--share``: found in its report, its accounting record and its logs, each replaced by
the same alias in all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from slurm_triage.model.facts import LogFacts
from slurm_triage.model.job import Job
from slurm_triage.report.share import Aliases

#: Variables that hold host names or node lists.
_HOSTS_IN_ENV = re.compile(
    r"(?<![A-Za-z0-9])(?:HOST|HOSTNAME|SLURMD_NODENAME|SLURM_(?:JOB_|STEP_|SUBMIT_)?(?:NODELIST|HOST)|SLURM_TOPOLOGY_ADDR"
    r"|MASTER_ADDR|MASTER_HOST|HEAD_NODE|NODELIST|NodeList|JAX_COORDINATOR_(?:IP|ADDRESS)|PBS_O_HOST)=[\"']?([A-Za-z][\w.\[\],-]*)"
)
_USERS = re.compile(
    r"(?<![A-Za-z0-9])(?:USER|LOGNAME|USERNAME|SUDO_USER|SLURM_JOB_USER)=[\"']?([A-Za-z_][\w.-]*)"
    r"|/(?:home|users|Users)/([A-Za-z_][\w.-]*)(?=/)"
)
#: Words that stand where a user's name would and tell nobody who it is.
_NOBODY = frozenset({"root", "user", "users", "runner", "ubuntu", "shared", "data", "nobody", "slurm", "ray", "jovyan"})
#: Lines in which report/share.py may find host names that no other field knows.
_MAY_NAME_HOST = re.compile(
    r":\d+:\d+ \[\d|\[[A-Za-z][\w.-]*[\]:]|^(?:node|host|nid|compute|dgx)|[Nn]ode(?:s|List)?[= ]"
    r"|slurmstepd-|host|srun: error: |\bON |ode failure on |@|_NODENAME|NODELIST|MASTER_|HEAD_"
)
#: What looks like a path and is none (names of remote calls), or ends in a name that programs gave and that says what
#: happened (unfinished checkpoints, shared memory, removed files that are still open).
_TELLING = re.compile(
    r"/(?:[a-z]\w{0,40}\.){0,6}[A-Z]\w{0,60}Service/[A-Z]\w{0,60}"
    r"|(?P<directory>(?<![\w/.~-])/(?:[\w.+@%=~-]+/)*)"
    r"(?P<name>\d+\.orbax-checkpoint-tmp[\d.-]*|torch_\d[\d_]*|nccl-\w{6}|\.nfs[0-9a-f]{16,})(?![\w.-])"
)


def private_names(job: Job, facts: LogFacts, document: Mapping[str, Any], texts: Iterable[str]) -> SharedNames:
    """``document``: the report (not shared). ``texts``: the lines of all logs."""
    hosts = [host for attempt in facts.attempts for host in attempt.rank_hosts.values()]
    hosts += [m.node for attempt in facts.attempts for m in (*attempt.matches, *attempt.facts) if m.node]
    hosts += [name for name in (job.failed_node, job.requested_nodes, job.excluded_nodes) if name]
    hosts += [node for attempt in job.earlier for node in attempt.nodes]
    # What a rule takes for a node may be an address: those are found by themselves.
    hosts = [host for host in hosts if host[:1].isalpha() and ":" not in host]
    users: dict[str, None] = dict.fromkeys([job.user] if job.user else [])
    speaking: dict[str, None] = {}
    for text in texts:
        if "USER" in text or "LOGNAME" in text or "/home/" in text or "sers/" in text:
            users.update(dict.fromkeys(a or b for a, b in _USERS.findall(text)))
        if _MAY_NAME_HOST.search(text):
            hosts += _HOSTS_IN_ENV.findall(text)
            speaking[text] = None
    named = [user for user in users if user.lower() not in _NOBODY]
    known = {**document, "job": {**document["job"], "user": named[0] if named else None}}
    return SharedNames({**known, "bundle": {"host": hosts, "lines": list(speaking)}}, named[1:])


class SharedNames:
    """Aliases (report/share.py) for more than one user."""

    def __init__(self, document: Mapping[str, Any], more_users: Iterable[str]) -> None:
        self._aliases = Aliases(document)
        others = sorted({user for user in more_users if len(user) > 2}, key=len, reverse=True)
        shape = "|".join(map(re.escape, others))
        self._others = re.compile(rf"(?<![A-Za-z0-9])(?:{shape})(?![A-Za-z0-9])") if others else None

    def text(self, text: str) -> str:
        parts: list[str] = []
        position = 0
        for match in _TELLING.finditer(text):
            parts += [self._renamed(text[position : match.start()]), self._telling(match)]
            position = match.end()
        return "".join(parts) + self._renamed(text[position:])

    def _telling(self, match: re.Match[str]) -> str:
        directory, name = match["directory"], match["name"]
        if name is None or len(directory) == 1:
            return match[0]
        # A shared path never ends in a slash: /dev/shm/ stays what it is.
        return f"{self._aliases.path(directory.rstrip('/') or '/')}/{name}"

    def _renamed(self, text: str) -> str:
        text = self._aliases.text(text) if text else text
        if self._others is None:
            return text
        return self._others.sub(lambda match: self._aliases.named("user", match[0]), text)

    def host(self, name: str) -> str:
        return self._aliases.node(name)

    def record(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """An accounting record (bundle/record.py). Numbers of users and groups are left out."""
        return {key: self._value(key, value) for key, value in record.items() if key not in ("uid", "gid")}

    def _value(self, key: str, value: Any) -> Any:
        if key in ("steps", "earlier"):
            return [self.record(item) for item in value]
        if key == "nodes":
            return [self._aliases.node(node) for node in value]
        if not isinstance(value, str) or key in ("state", "reason", "exit_code", "derived_exit_code", *_TIMES):
            return value
        if key in ("failed_node", "requested_nodes", "excluded_nodes"):
            return self._aliases.node(value)
        if key in ("work_dir", "stdout", "stderr"):
            return self._aliases.path(value)
        if key in ("user", "account", "cluster", "reservation", "partition", "qos"):
            return self._aliases.named(key, value)
        return self.text(value)


_TIMES = ("submit", "start", "end")


def lines_of(texts: Iterable[bytes]) -> Iterator[str]:
    for text in texts:
        for line in text.split(b"\n"):
            yield line.decode("utf-8", "surrogateescape")
