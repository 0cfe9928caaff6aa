"""What the ledger remembers of one attempt of one job: names, classes and numbers, never text of a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import orjson

from slurm_triage.ledger.frame import safe
from slurm_triage.model.nodelist import expand, fold

if TYPE_CHECKING:
    from slurm_triage.model.job import Job
    from slurm_triage.model.report import Report


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """Times are seconds since the epoch; unknown is None. Two records with the same ``key`` tell of the same attempt:
    the one with the higher ``revision`` (milliseconds since the epoch when the report was made) counts."""

    job_id: str
    attempt: str
    """``s<start>`` when the start is known, else ``r<restarts>``. The start alone tells attempts of one job apart, and
    sources that do not know the restart count (sacct of Slurm 22.05) still give the same key."""
    revision: int
    status: str
    cluster: str | None = None
    array_job_id: str | None = None
    array_task_id: str | None = None
    het_job_id: str | None = None
    restarts: int | None = None
    user: str | None = None
    account: str | None = None
    partition: str | None = None
    name: str | None = None
    state: str | None = None
    exit_code: str | None = None
    """As sacct prints it: status and signal, ``1:0``."""
    cls: str | None = None
    rule: str | None = None
    fingerprint: str | None = None
    confidence: str | None = None
    domain: str | None = None
    stage: str | None = None
    nodes: str = ""
    """Folded node list, ``chi[2801-2802]``."""
    node_count: int | None = None
    node_evidence: tuple[tuple[str, str], ...] = ()
    """(node, kind of evidence) for nodes that were themselves the ones that failed; see ``blame``."""
    submit: float | None = None
    start: float | None = None
    end: float | None = None
    elapsed_s: float | None = None
    gpus: int | None = None
    gpu_hours: float | None = None
    gpu_hours_lost: float | None = None
    steps_this_run: int | None = None
    last_step: int | None = None
    step_time_s: float | None = None
    setup_s: float | None = None
    throughput: float | None = None
    throughput_unit: str | None = None
    degraded: bool = False
    model: str | None = None
    image: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    args_digest: str | None = None
    """Tells whether two runs had the same launch arguments without keeping them (they may hold private paths)."""
    args: Mapping[str, str] = field(default_factory=dict)
    """Name of each launch argument -> digest of its value: tells which of them differ."""
    job_dir: str | None = None
    report_path: str | None = None
    generated_at: float | None = None
    rules_digest: str | None = None
    provisional: bool = False
    """Made before accounting's record was complete, or its report could not be written yet; a later revision of the
    same key replaces it."""

    @property
    def key(self) -> str:
        return "/".join(safe(part) for part in (self.cluster or "-", self.job_id, self.attempt))

    @property
    def display_id(self) -> str:
        """As sacct prints it: ``7878_3`` for array tasks, ``29+1`` for parts of a heterogeneous job."""
        if self.array_job_id and self.array_task_id is not None:
            return f"{self.array_job_id}_{self.array_task_id}"
        if self.het_job_id and self.het_job_id.isdecimal() and self.job_id.isdecimal():
            # The parts have consecutive ids, the leader's first.
            return f"{self.het_job_id}+{int(self.job_id) - int(self.het_job_id)}"
        return self.job_id

    @property
    def node_names(self) -> tuple[str, ...]:
        return _names(self.nodes)

    @property
    def culprits(self) -> tuple[str, ...]:
        return tuple(node for node, _ in self.node_evidence)

    @property
    def ended(self) -> float | None:
        """When the attempt ended, as well as is known."""
        return self.end if self.end is not None else self.generated_at


#: Launch arguments whose names are kept, and how much of a name.
MAX_ARGS, MAX_ARG_CHARS = 64, 64
#: The same node lists come again and again, and whole-ledger statistics need all of them.
_names = lru_cache(maxsize=4096)(expand)
#: The word ``class`` is what readers of the file expect; Python does not allow it as a name.
_JSON_NAMES = tuple("class" if name == "cls" else name for name in LedgerRecord.__dataclass_fields__)
_values_of = attrgetter(*LedgerRecord.__dataclass_fields__)
_EMPTY: tuple[Any, ...] = ((), {}, "")
#: JSON name, setter and default of each slot. Reading a million records through the constructor of a frozen dataclass
#: takes 16 s, through its slots 5 s (measured).
_SLOTS = tuple(
    (json_name, getattr(LedgerRecord, f.name).__set__, None if f.default is MISSING else f.default)
    for json_name, f in zip(_JSON_NAMES, fields(LedgerRecord), strict=True)
)
_set_evidence = next(setter for name, setter, _ in _SLOTS if name == "node_evidence")
_set_versions = next(setter for name, setter, _ in _SLOTS if name == "versions")
_set_args = next(setter for name, setter, _ in _SLOTS if name == "args")


def to_dict(record: LedgerRecord) -> dict[str, Any]:
    """Everything that is known, unknown left out."""
    return {
        name: value
        for name, value in zip(_JSON_NAMES, _values_of(record), strict=True)
        if value is not None and value is not False and value not in _EMPTY
    }


def to_json(record: LedgerRecord) -> bytes:
    try:
        return orjson.dumps(to_dict(record))
    except TypeError:
        # Only a text that is not Unicode (a path with bytes of another encoding) gets here.
        return orjson.dumps({name: _unicode(value) for name, value in to_dict(record).items()})


def from_dict(values: Mapping[str, Any]) -> LedgerRecord:
    """The inverse of ``to_dict``; names that a newer version added are ignored."""
    record = LedgerRecord.__new__(LedgerRecord)
    get = values.get
    for name, set_slot, default in _SLOTS:
        set_slot(record, get(name, default))
    _set_evidence(record, tuple((str(node), str(kind)) for node, kind in get("node_evidence", ())))
    _set_versions(record, get("versions", {}))
    _set_args(record, get("args", {}))
    return record


def _unicode(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, tuple):
        return tuple(_unicode(item) for item in value)
    if isinstance(value, Mapping):
        return {_unicode(name): _unicode(item) for name, item in value.items()}
    return value


def record_from_report(
    report: Report, report_path: str | None = None, kernel: Mapping[str, Sequence[str]] | None = None
) -> LedgerRecord:
    """The record of one finished triage. ``report_path`` is where its ``triage.json`` was written, ``kernel`` what the
    nodes' kernels said, from a source that the job's owner cannot write to."""
    # Imported here because look-ups need none of it and have 150 ms for everything.
    from slurm_triage.ledger.blame import node_evidence
    from slurm_triage.ledger.fingerprint import cause_rule, fingerprint

    job, progress, primary = report.job, report.progress, report.diagnosis.primary
    last = report.facts.last
    job_id = job.job_id or report.files.job_id or "log:" + _digest(report.log_path)
    throughput = report.throughput.recent if report.throughput.recent is not None else report.throughput.early
    return LedgerRecord(
        job_id=job_id,
        attempt=attempt_key(job.start, job.restarts if job.restarts is not None else report.attempt),
        revision=int(report.generated_at * 1000),
        status=report.diagnosis.status,
        cluster=job.cluster,
        array_job_id=job.array_job_id,
        array_task_id=job.array_task_id,
        het_job_id=job.het_job_id,
        restarts=job.restarts,
        user=job.user,
        account=job.account,
        partition=job.partition,
        name=job.name or last.header.job_name,
        state=job.state,
        exit_code=exit_text(job),
        cls=primary.cls if primary else None,
        rule=cause_rule(report.diagnosis),
        fingerprint=fingerprint(report.diagnosis, report.nodes, report.job),
        confidence=primary.confidence if primary else None,
        domain=primary.domain if primary else None,
        stage=primary.stage if primary else None,
        nodes=fold(report.nodes),
        node_count=report.node_count,
        node_evidence=node_evidence(report, kernel),
        submit=job.submit,
        start=job.start,
        end=job.end,
        elapsed_s=job.elapsed_s,
        gpus=report.cost.gpus if report.cost.gpus is not None else job.gpus,
        gpu_hours=report.cost.gpu_hours,
        gpu_hours_lost=report.cost.gpu_hours_lost,
        steps_this_run=progress.steps_this_run,
        last_step=progress.last_step,
        step_time_s=progress.step_time_s,
        setup_s=progress.setup_s,
        throughput=throughput,
        throughput_unit=report.throughput.unit if throughput is not None else None,
        degraded=report.throughput.degraded,
        model=last.header.model_name or last.config.get("model_name"),
        image=_image(report),
        versions={
            name.replace(" ", "_"): text for name, text in sorted(last.env.items()) if name.lower().endswith("version")
        },
        args_digest=_digest("\0".join(last.launch_args)) if last.launch_args else None,
        args=_argument_digests(last.launch_args),
        job_dir=report.files.job_dir,
        report_path=report_path,
        generated_at=report.generated_at,
        rules_digest=report.rules_digest,
    )


def attempt_key(start: float | None, restarts: int | None) -> str:
    """See ``LedgerRecord.attempt``."""
    return f"s{int(start)}" if start is not None else f"r{restarts or 0}"


def exit_text(job: Job) -> str | None:
    """As sacct prints it."""
    return f"{job.exit_code}:{job.exit_signal or 0}" if job.exit_code is not None else None


def _image(report: Report) -> str | None:
    env = report.facts.last.env
    named = env.get("image") or env.get("DOCKER_IMAGE")
    captured = (m.captures["image"] for m in report.facts.last.facts if m.captures.get("image"))
    return named or next(captured, None)


def _argument_digests(arguments: Sequence[str]) -> dict[str, str]:
    """Of ``key=value``; the last of a repeated key counts. Other arguments may hold anything and stay out. Four digits
    tell two values apart and a value from nobody."""
    pairs = (a.partition("=") for a in arguments)
    named = {key.lstrip("-")[:MAX_ARG_CHARS]: value for key, assigned, value in pairs if assigned}
    return {key: _digest(value)[:4] for key, value in list(named.items())[:MAX_ARGS] if key}


def _digest(text: str) -> str:
    import hashlib  # see record_from_report

    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
