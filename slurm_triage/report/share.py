"""A document that may be pasted in public: user, host names, addresses and paths become user-1, node-3, ip-2, path-7.

The same name becomes the same alias everywhere, also inside node lists such as ``gpu[07-12]``, so that the story can
still be followed. Everything rendered from the document shares its aliases.
"""

from __future__ import annotations

import ipaddress
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from slurm_triage.model.nodelist import expand, fold

#: Keys whose values come from this program or from rules, never from the site.
_OWN_WORDS = frozenset(
    {
        *("schema", "generator", "generated_at", "now", "class", "rule", "rules", "role", "status", "domain"),
        *("confidence", "retry", "stage", "launcher", "source", "unit", "pattern", "action", "result", "origin"),
        *("start", "end", "submit", "first_time", "last_time", "last_step_time", "state", "exit"),
    }
)
_PATH_KEYS = frozenset({"path", "file", "job_dir", "work_dir", "stdout", "tsdb_path", "core_dumps"})
_NODE_KEYS = frozenset({"node", "nodes", "host", "head_node", "exclude", "peer"})
_NAMED_KEYS = {"user": "user", "account": "account", "cluster": "cluster"}

#: User names that are also ordinary words of logs: replaced only where the text says that they are user names.
_COMMON_USERS = frozenset(
    {
        *("admin", "data", "debug", "default", "job", "jobs", "jax", "main", "nobody", "node", "python", "ray", "root"),
        *("slurm", "step", "steps", "system", "test", "train", "training", "ubuntu", "user", "users"),
    }
)
#: Directories that are the same on every machine.
_PUBLIC_DIRECTORIES = ("/dev/", "/proc/", "/sys/", "/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/")
_PACKAGES = re.compile(r"/(?:site|dist)-packages/.*\Z", re.DOTALL)
#: Names of source files say where a program stopped and nothing about the site.
_SOURCE_FILE = re.compile(r"[\w.+-]+\.(?:py|pyx|c|cc|cpp|cxx|h|hpp|cu|cuh|hip|rs|go|so(?:\.[\d.]+)?)\Z")

_PATH = r"(?<![\w/.~-])/(?:[\w.+@%=~-]+/)+[\w.+@%=~-]*"
_URL = r"\b(?:https?|s3|gs|gcs|hdfs|abfss?|nfs|file|docker|oci|ftp|sftp|ssh|grpc|tcp)://[^\s\"'<>`]+"
_LOGIN = r"(?<![\w.+%-])[\w.+%-]{1,64}@[A-Za-z0-9][\w.-]*"
_IPV4 = r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\w)"
#: Not followed by the rest of an IPv4 address (``::ffff:10.0.0.7``): that is found by itself.
_IPV6 = (
    r"(?:(?<![\w:.])|(?<=[Gg]id)|(?<=[Gg]ids))[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:%\w{1,15})?(?![\w:]|\.\d)"
)
#: Link-local, unique local and global addresses, however short.
_IPV6_PREFIX = re.compile(r"(?:fe80|f[cd][0-9a-f]{2}|2[0-9a-f]{3}):", re.IGNORECASE)
_MAC = r"(?<![\w:])[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5,7}(?![\w:])"
_LOCAL = re.compile(r"localhost|127\.\d|0\.0\.0\.0|\[?::1?\]?$")
_DOMAIN = re.compile(r"\.[A-Za-z]{2,}\Z")

_ALIAS = re.compile(r"(?:path|user)-\d+(?:/.*)?\Z", re.DOTALL)

_HOST_SHAPE = r"[A-Za-z][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)*"
_HOST_NAME = rf"(?P<host>{_HOST_SHAPE})(?!\w)"
#: Where logs name a host that no other field knows: NCCL and RCCL begin their lines with ``host:pid:thread [gpu]``,
#: Open MPI and UCX with ``[host:pid]``, parallel shells with ``node07: ``, syslog with the clock, host and program.
_HOST_IN_TEXT = re.compile(
    rf"(?:(?<![\w.-])(?={_HOST_SHAPE}:\d{{1,9}}:\d{{1,9}} \[\d)|\[(?={_HOST_SHAPE}(?::\d{{1,9}}){{1,2}}(?:\]| :))"
    rf"|\d\d:\d\d:\d\d\S{{0,16}} (?={_HOST_SHAPE} [\w./()@-]{{1,64}}(?:\[\d{{1,9}}\])?: )"
    rf"|\[(?={_HOST_SHAPE}\]:\d)|^(?=(?:node|host|nid|compute|dgx)[a-z0-9-]{{0,40}}: )"
    rf"|slurmstepd-|\bhost(?:name)?[=:]\s{{0,8}}|srun: error: (?:Nodes? )?|\bON "
    rf"|\b[Nn]ode(?:s|List)?[= ]|[Nn]ode failure on |@){_HOST_NAME}"
)
_HOST_IN_SSH = re.compile(rf"@{_HOST_NAME}")
_DOMAINS = r"(?:\.[A-Za-z][\w-]*)"
_MAX_ODD_PATHS = 200
_SPLIT_NUMBER = re.compile(r"(.*?)(\d{1,15})(\D*)\Z", re.DOTALL)


def share_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """``document`` with aliases for private names. Applying it twice changes nothing more. What is told of other jobs
    names nodes, images and users that no alias covers: it is left out."""
    document = {**document, "history": None}
    aliases = Aliases(document)
    shared = {key: _shared(value, key, aliases) for key, value in document.items()}
    progress = shared.get("progress")
    if isinstance(progress, dict) and isinstance(progress.get("source"), str):
        progress["source"] = aliases.path(progress["source"])
    return shared


def _shared(value: Any, key: str, aliases: Aliases) -> Any:
    if isinstance(value, Mapping):
        return {aliases.text(name): _shared(item, name, aliases) for name, item in value.items()}
    if isinstance(value, list):
        return [_shared(item, key, aliases) for item in value]
    if not isinstance(value, str) or key in _OWN_WORDS:
        return value
    if key in _PATH_KEYS:
        return aliases.path(value)
    if key in _NODE_KEYS:
        return aliases.node(value)
    return aliases.named(_NAMED_KEYS[key], value) if key in _NAMED_KEYS else aliases.text(value)


class Aliases:
    """The aliases of one document, given out in the order in which the names are met."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._given: dict[str, dict[str, str]] = {}
        paths: list[str] = []
        nodes: list[str] = []
        others: list[str] = []
        for key, text in _strings(document):
            if key in _PATH_KEYS and text != "-":
                paths.append(text)
            elif key in _NODE_KEYS:
                nodes.extend(name for name in expand(text) if not _is_number_or_address(name))
            elif key not in _OWN_WORDS:
                others.extend(m["host"] for m in _HOST_IN_TEXT.finditer(text) if _looks_like_host(m["host"]))
                others.extend(m["host"] for m in _HOST_IN_SSH.finditer(text) if "ssh " in text)
        # Nodes of the job come first, in their order: node-1 is then the first node everywhere.
        for host in (*nodes, *others):
            self.node(host)
        job = document.get("job")
        user = job.get("user") if isinstance(job, Mapping) else None
        self._user = user if isinstance(user, str) and user else None
        self.named("user", self._user or "")
        self._pattern = self._compile(paths, _short(nodes), _short(others))

    def named(self, kind: str, name: str) -> str:
        """``kind-N`` for ``name``."""
        given = self._given.setdefault(kind, {})
        return given.setdefault(name, f"{kind}-{len(given) + 1}") if name else name

    def node(self, name: str) -> str:
        """The alias of a host name or of each name in a node list. A domain does not make it another host."""
        names = expand(name)
        if len(names) > 1 or (names and names[0] != name):
            return fold(self.node(single) for single in names)
        if _LOCAL.match(name) or name.isdigit():
            return name
        if _is_address(name):
            return self.named("ip", name)
        return self.named("node", name.split(".", 1)[0])

    def path(self, path: str) -> str:
        """The alias of a path. Names of source files, and what lies below site-packages, are kept."""
        if path == "-" or path.startswith(_PUBLIC_DIRECTORIES) or _ALIAS.match(path):
            return path
        packages = _PACKAGES.search(path)
        if packages:
            return self.named("path", path[: packages.start()]) + packages[0]
        directory, name = posixpath.split(path)
        if directory and _SOURCE_FILE.match(name):
            return f"{self.named('path', directory)}/{name}"
        return self.named("path", path)

    def text(self, text: str) -> str:
        """Free text with every private name in it replaced."""
        return self._pattern.sub(self._replace, text)

    def _compile(self, paths: list[str], nodes: list[str], others: list[str]) -> re.Pattern[str]:
        # Only paths that the general expression would not find whole (relative, with blanks) need to be named.
        odd = [p for p in dict.fromkeys(paths) if "/" in p and re.fullmatch(_PATH, p) is None][:_MAX_ODD_PATHS]
        parts = [f"(?P<known>{_any_of(odd)})"] if odd else []
        parts += [
            f"(?P<url>{_URL})",
            f"(?P<path>{_PATH})",
            f"(?P<mac>{_MAC})",
            f"(?P<ip4>{_IPV4})",
            f"(?P<ip6>{_IPV6})",
        ]
        parts += [f"(?P<login>{_LOGIN})"]
        families = _families([*nodes, *others])
        if families:
            shapes = "|".join(rf"{head}(?:{number}|\[[\d,-]+\]){tail}" for head, number, tail in families)
            parts.append(rf"(?P<node>(?<![A-Za-z0-9])(?:{shapes}){_DOMAINS}*(?![A-Za-z0-9\[]))")
        # A name without a number may be a word (``login``): it needs its domain, unless it is a node of the job.
        plain_nodes = [name for name in nodes if _SPLIT_NUMBER.match(name) is None and len(name) > 2]
        plain_others = [name for name in others if _SPLIT_NUMBER.match(name) is None]
        for names, repeat in ((plain_nodes, "*"), (plain_others, "+")):
            if names:
                group = "host" if repeat == "*" else "domain"
                parts.append(rf"(?P<{group}>(?<![\w.-])(?:{_any_of(names)}){_DOMAINS}{repeat}(?![\w-]))")
        if self._user:
            anywhere = len(self._user) > 2 and self._user.lower() not in _COMMON_USERS
            before = r"(?<![A-Za-z0-9])" if anywhere else r"(?:(?<=user=)|(?<=user )|(?<=USER=)|(?<=User:))"
            parts.append(rf"(?P<user>{before}{re.escape(self._user)}(?![A-Za-z0-9]))")
        return re.compile("|".join(parts))

    def _replace(self, match: re.Match[str]) -> str:
        kind, text = match.lastgroup, match[0]
        if kind in {"known", "path"}:
            return self.path(text)
        if kind in {"node", "host", "domain"}:
            return self.node(text)
        if kind == "user":
            return self.named("user", text)
        if kind == "login":
            return self._login(text)
        if kind == "url":
            return text if _LOCAL.match(text.partition("://")[2]) else self.named("url", text)
        if kind == "mac":
            return self.named("mac", text)
        return self.named("ip", text) if _is_address(text) else text

    def _login(self, text: str) -> str:
        """``user@host``, or a mail address when the host ends in a domain and is no node of the job."""
        user, _, host = text.partition("@")
        known = host.split(".", 1)[0] in self._given.get("node", {})
        if not known and _DOMAIN.search(host):
            return self.named("email", text)
        address = _is_address(host)
        if not known and not address and user != self._user:
            return text
        alias = user if user == "root" or _ALIAS.match(user) else self.named("user", user)
        return f"{alias}@{self.node(host) if known or address else host}"


def _strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _strings(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, key)


def _short(hosts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name.split(".", 1)[0] for name in hosts))


def _families(hosts: Iterable[str]) -> list[tuple[str, str, str]]:
    """(beginning, number, end) as expressions that find the numbered hosts and their sisters (``gpu07`` for gpu01)."""
    widths: dict[tuple[str, str], set[str]] = {}
    for match in map(_SPLIT_NUMBER.match, hosts):
        if match and match[1]:
            widths.setdefault((match[1], match[3]), set()).add(match[2])
    return [(re.escape(head), _number_like(numbers), re.escape(tail)) for (head, tail), numbers in widths.items()]


def _number_like(numbers: set[str]) -> str:
    if not any(number.startswith("0") for number in numbers):
        return r"\d{1,15}"
    # Padded: sisters have the same width, so that device gpu0 is not taken for a sister of host gpu01.
    return "(?:" + "|".join(rf"\d{{{width}}}" for width in sorted({len(n) for n in numbers})) + ")"


def _any_of(names: list[str]) -> str:
    return "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))


def _looks_like_host(name: str) -> bool:
    """Words such as ``task`` follow the same phrases; the host names of a cluster carry a number."""
    return len(name) > 2 and any(c.isdigit() for c in name) and not _LOCAL.match(name)


def _is_number_or_address(name: str) -> bool:
    return name.isdigit() or ":" in name or _is_address(name)


def _is_address(text: str) -> bool:
    """A routable address, not a version, a time of day or a C++ scope."""
    plain = text.partition("%")[0]
    if _LOCAL.match(plain):
        return False
    try:
        address = ipaddress.ip_address(plain)
    except ValueError:
        return False
    if address.version == 4 or _IPV6_PREFIX.match(plain):
        return True
    return sum(1 for group in plain.split(":") if group) >= 3
