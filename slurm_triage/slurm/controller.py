"""What slurmctld itself says about jobs (``scontrol show job``, ``squeue``): more, and earlier, than accounting, but
only for running jobs and those that ended within MinJobAge (five minutes by default)."""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from slurm_triage.errors import AccountingError
from slurm_triage.model.exit_status import decode_wait_status, parse_slurm_exit
from slurm_triage.model.job import Job
from slurm_triage.slurm import command, expand, fields

#: One question about one job costs 8 ms; about more jobs than this, one question about all that have ended.
MAX_SINGLE = 8

#: A controller that does not answer is not worth more of a person's time; scontrol itself would wait 2 x 10 s.
TIMEOUT_S = 3.0
ALL_TIMEOUT_S = 10.0

#: squeue's fields and their widths: it pads every value to the width and cuts what is longer. 1 000 ended jobs are
#: 2.2 MB. A comment has at most 1 024 bytes (measured), and its last word may be triage=off.
_COLUMNS = {"JobID": 12, "State": 20, "Reason": 40, "exit_code": 12, "STDOUT": 1024, "Comment": 1025}
_ENDED = "CG,CD,CA,F,TO,NF,PR,OOM,BF,DL"
#: squeue's answers must not cost the controller more than one part in this many of its time.
_PAUSE = 50.0

WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUE_HOLD", "REQUEUED"})
ENDED_BY_REQUEUE = frozenset({"REQUEUED", "PREEMPTED", "NODE_FAIL"})

# The keys stand at the start of a line, three blanks in. Only job names, comments and the like come from users.
_FIELDS = {
    "state": re.compile(r"^   JobState=(\S+)", re.MULTILINE),
    "reason": re.compile(r"^   JobState=\S+ Reason=(\S+)", re.MULTILINE),
    "restarts": re.compile(r"^   Requeue=\d+ Restarts=(\d+)", re.MULTILINE),
    "exit": re.compile(r"^   Requeue=.* ExitCode=(\d+:\d+)", re.MULTILINE),
    "requested": re.compile(r"^   ReqNodeList=(\S+)", re.MULTILINE),
    "excluded": re.compile(r"^   ReqNodeList=\S+ ExcNodeList=(\S+)", re.MULTILINE),
    "failed_node": re.compile(r"^   FailedNode=(\S+)", re.MULTILINE),
    "stdout": re.compile(r"^   StdOut=(.+)$", re.MULTILINE),
    "stderr": re.compile(r"^   StdErr=(.+)$", re.MULTILINE),
    "comment": re.compile(r"^   Comment=(.+?) *$", re.MULTILINE),
}


@dataclass(frozen=True, slots=True)
class ControllerView:
    """One job as slurmctld sees it now. ``state`` may be COMPLETING; ``reason`` is Slurm's word, unchanged."""

    state: str | None = None
    reason: str | None = None
    restarts: int | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    requested_nodes: str | None = None
    excluded_nodes: str | None = None
    failed_node: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    comment: str | None = None


class Controller:
    """Asks slurmctld. ``prefix``: what stands before its commands (how to reach another file system)."""

    def __init__(self, prefix: Sequence[str] = ()) -> None:
        self._scontrol = (*prefix, "scontrol")
        self._squeue = (*prefix, "squeue")
        self._not_before = 0.0

    def show(self, job_id: str) -> ControllerView | None:
        """None if slurmctld does not know the job (any more), or raises AccountingError if it cannot be asked."""
        try:
            output = command.run([*self._scontrol, "show", "job", job_id], timeout_s=TIMEOUT_S)
        except AccountingError as error:
            if "Invalid job id" in str(error):
                return None
            raise
        return parse(output, job_id)

    def ended(self) -> dict[str, ControllerView]:
        """All jobs that have ended, by raw id. Raises AccountingError.

        ``scontrol show job`` is no use for this: a job's name may hold newlines, and so the whole record of another
        job."""
        # A delimiter that nobody can know in advance.
        delimiter = f"\x1f{secrets.token_hex(8)}\x1f"
        columns = ",".join(f"{name}:{width}{delimiter}" for name, width in _COLUMNS.items())
        argv = [*self._squeue, "-h", "-a", "-t", _ENDED, "-O", columns]
        return parse_ended(command.run(argv, timeout_s=ALL_TIMEOUT_S), delimiter)

    def complete(self, jobs: Mapping[str, Job]) -> dict[str, Job]:
        """The jobs with what slurmctld knows better. As they are when slurmctld does not answer: the answer of
        accounting is good without."""
        views: Mapping[str, ControllerView] = {}
        if len(jobs) <= MAX_SINGLE:
            views = self._one_by_one(jobs)
        elif (began := time.monotonic()) >= self._not_before:
            with contextlib.suppress(AccountingError):
                views = {raw: _named(view, jobs.get(raw)) for raw, view in self.ended().items()}
            took_s = time.monotonic() - began
            self._not_before = began + took_s + _PAUSE * took_s
        return {raw: merge(job, views[raw]) if raw in views else job for raw, job in jobs.items()}

    def _one_by_one(self, ids: Iterable[str]) -> dict[str, ControllerView]:
        views = {}
        for raw in ids:
            try:
                view = self.show(raw)
            except AccountingError:
                break
            if view is not None:
                views[raw] = view
        return views


def parse(output: str, job_id: str) -> ControllerView | None:
    """The record of one raw id; ``scontrol show job`` of an array prints all of its tasks."""
    blocks = re.split(r"^(?=JobId=)", output, flags=re.MULTILINE)
    block = next((b for b in blocks if b.startswith(f"JobId={job_id} ")), None)
    if block is None:
        return None
    values = {name: match[1] for name, pattern in _FIELDS.items() if (match := pattern.search(block))}
    code, signal = parse_slurm_exit(values.get("exit"))
    return ControllerView(
        state=values.get("state"),
        reason=fields.text(values.get("reason")),
        restarts=fields.number(values.get("restarts")),
        exit_code=code,
        exit_signal=signal,
        requested_nodes=fields.text(values.get("requested")),
        excluded_nodes=fields.text(values.get("excluded")),
        failed_node=fields.text(values.get("failed_node")),
        stdout=fields.text(values.get("stdout")),
        stderr=fields.text(values.get("stderr")),
        comment=fields.text(values.get("comment")),
    )


def parse_ended(output: str, delimiter: str) -> dict[str, ControllerView]:
    """Rows of ``squeue -O``, the delimiter behind each field. Raises AccountingError where the last is not whole.

    Nothing is believed of a job of which two rows speak: while squeue waits for its answer, everybody on this host can
    see the delimiter, and a comment can be changed."""
    found: dict[str, ControllerView] = {}
    twice = set()
    for row in fields.rows(output, delimiter, tuple(_COLUMNS)):
        values = {name: value.rstrip(" ") for name, value in row.items()}
        if values["JobID"] in found:
            twice.add(values["JobID"])
        # What fills its column may have been cut.
        whole = {name: fields.text(value) for name, value in values.items() if len(value.encode()) < _COLUMNS[name]}
        code, signal = _exit(whole.get("exit_code"))
        found[values["JobID"]] = ControllerView(
            state=whole.get("State"),
            # "RaisedSignal:11(Segmentation fault)", as scontrol writes it
            reason=(whole.get("Reason") or "").replace(" ", "_") or None,
            exit_code=code,
            exit_signal=signal,
            stdout=whole.get("STDOUT"),
            comment=whole.get("Comment"),
        )
    return {job_id: view for job_id, view in found.items() if job_id not in twice}


def _exit(text: str | None) -> tuple[int | None, int | None]:
    """Code and signal: "200:0" from Slurm 24.11, a wait status from 22.05 (both seen)."""
    if text is not None and ":" in text:
        return parse_slurm_exit(text)
    status = fields.number(text)
    return (None, None) if status is None else decode_wait_status(status)


def _named(view: ControllerView, job: Job | None) -> ControllerView:
    """squeue (22.05) shows for a task of an array without ``--output`` the file of a job that is none."""
    name = f"/slurm-{job.job_id}.out" if job is not None and job.array_task_id is not None else None
    if name is None or view.stdout is None or not view.stdout.endswith(name):
        return view
    return replace(view, stdout=f"{view.stdout.removesuffix(name)}/{expand.DEFAULT_ARRAY}")


def merge(job: Job, view: ControllerView) -> Job:
    """Accounting's record with the controller's knowledge.

    Not taken: the exit code of a cancelled job, for which slurmctld shows the signal that scancel sent, and anything
    when the two do not speak of the same state.
    """
    if view.state in WAITING and job.state in ENDED_BY_REQUEUE:
        return _requeued(job, view)
    if view.state not in (job.state, "COMPLETING"):
        return job
    return replace(
        with_true_exit(job, view.exit_code, view.exit_signal),
        reason=view.reason,
        requested_nodes=view.requested_nodes or job.requested_nodes,
        excluded_nodes=view.excluded_nodes or job.excluded_nodes,
        failed_node=job.failed_node or view.failed_node,
        stdout=job.stdout or expand.path(view.stdout, job),
        stderr=job.stderr or expand.path(view.stderr, job),
        comment=job.comment or view.comment,
    )


def _requeued(job: Job, view: ControllerView) -> Job:
    """The run that waits in the queue. Accounting shows only the run before, until the new one may start (two minutes
    later; never, if it is held after a failed launch)."""
    waiting = replace(
        job,
        state=view.state,
        reason=view.reason,
        restarts=view.restarts,
        exit_code=None,
        exit_signal=None,
        derived_exit_code=None,
        derived_exit_signal=None,
        submit=job.end,
        start=None,
        end=None,
        elapsed_s=None,
        nodes=(),
        steps=(),
        final=False,
        earlier=(*job.earlier, replace(job, earlier=())),
    )
    return replace(waiting, stdout=job.stdout or expand.path(view.stdout, job))


def with_true_exit(job: Job, code: int | None, signal: int | None) -> Job:
    """The job with an exit code of 128 and above restored, from a source that does not subtract 128."""
    if code is None or job.exit_code is None or signal or job.exit_signal or code != job.exit_code + 128:
        return job
    steps = tuple(
        replace(step, exit_code=code) if step.step_id == "batch" and step.exit_code == job.exit_code else step
        for step in job.steps
    )
    return replace(job, exit_code=code, steps=steps)
