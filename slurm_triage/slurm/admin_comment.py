"""The one-line verdict in Slurm's AdminComment, so that ``sacct -o JobID,State,AdminComment`` shows it.

Only slurmdbd can write it for a job that is over, and only for root, SlurmUser and operators: ``sacctmgr modify job``.
"""

from __future__ import annotations

from collections.abc import Sequence

from slurm_triage.errors import AccountingError
from slurm_triage.model.job import Job
from slurm_triage.slurm import command
from slurm_triage.slurm.accounting import display_id

#: As much as a table row can show.
MAX_CHARACTERS = 200

TIMEOUT_S = 20.0

#: sacctmgr turns quotes into backticks and takes a comma or an equals sign for its own syntax in some versions.
_PLAIN = {ord('"'): None, ord("'"): None, ord("`"): None, ord("\\"): "/", ord("="): ":", ord(","): ";", ord("|"): "/"}


def plain(text: str) -> str:
    """The text as one line of printable ASCII that sacctmgr keeps unchanged (22.05 makes it lower case)."""
    line = " ".join(text.translate(_PLAIN).split())
    return "".join(c if " " <= c <= "~" else "?" for c in line)[:MAX_CHARACTERS]


def write(job: Job, text: str, sacctmgr: Sequence[str] = ("sacctmgr",)) -> None:
    """Set AdminComment of the job's last run. Raises AccountingError (the site may not allow it).

    The job is named by its display id: the raw id of one array task means the whole array to sacctmgr.
    """
    job_id = display_id(job)
    if job_id is None:
        raise AccountingError("a job without an id cannot get a comment; give the job's id")
    where = ["modify", "job", "where", f"jobid={job_id}"]
    if job.cluster is not None:
        where.append(f"cluster={job.cluster}")
    command.run([*sacctmgr, "-i", *where, "set", f"AdminComment={plain(text)}"], timeout_s=TIMEOUT_S)
