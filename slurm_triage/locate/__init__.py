"""From a log, a job directory or a job id to the files of the job."""

from slurm_triage.locate.by_id import search_roots
from slurm_triage.locate.checkpoints import checkpoint_dirs, checkpoint_path, with_configured_checkpoints
from slurm_triage.locate.target import locate
from slurm_triage.locate.tree import is_outputs_tree, locate_all

__all__ = [
    "checkpoint_dirs",
    "checkpoint_path",
    "is_outputs_tree",
    "locate",
    "locate_all",
    "search_roots",
    "with_configured_checkpoints",
]
