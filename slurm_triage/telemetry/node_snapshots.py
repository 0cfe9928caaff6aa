"""Kernel messages that a node's epilog left: read like one more log of the job.

A rank that the kernel kills prints nothing; only the node's kernel log has it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from slurm_triage.model.files import JobFiles, LogFile

_HOST = re.compile(r"^node-(?P<host>[\w.-]+)\.txt$")


def with_node_snapshots(files: JobFiles) -> JobFiles:
    """``files`` with its node snapshots appended to the logs, last, so that the job's own log defines the attempts."""
    if not files.node_snapshots or not files.logs:
        return files
    return replace(files, logs=(*files.logs, *(_log_file(path) for path in files.node_snapshots)))


def _log_file(path: str) -> LogFile:
    match = _HOST.match(Path(path).name)
    return LogFile(path, "node", host=match["host"] if match is not None else None)
