"""Which leaf switch a node hangs on, where the site has told Slurm (topology/tree)."""

from __future__ import annotations

import re
from collections.abc import Callable

from slurm_triage.errors import AccountingError
from slurm_triage.model.nodelist import expand
from slurm_triage.slurm import command

_LEAF = re.compile(r"^SwitchName=(\S+) Level=0 .*?\bNodes=(\S+)", re.MULTILINE)
_TIMEOUT_S = 5.0


def leaf_switches() -> Callable[[str], str | None]:
    """Node -> switch; None for all nodes where there is no tree, or nobody can be asked now."""
    try:
        return parse(command.run(["scontrol", "show", "topology"], timeout_s=_TIMEOUT_S)).get
    except AccountingError:
        return lambda _: None


def parse(text: str) -> dict[str, str]:
    """What ``scontrol show topology`` prints."""
    return {node: switch for switch, nodes in _LEAF.findall(text) for node in expand(nodes)}
