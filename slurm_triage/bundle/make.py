"""The whole way from a job to its bundle: triage, choose, scrub, lay out, replay, pack."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from slurm_triage import __version__
from slurm_triage.bundle.archive import check_name, write_archive
from slurm_triage.bundle.layout import member_names, other_members
from slurm_triage.bundle.names import SharedNames, lines_of, private_names
from slurm_triage.bundle.ranges import Part, choose_ranges, length_of, read_parts, spots, statements
from slurm_triage.bundle.record import job_record
from slurm_triage.bundle.scrub import Scrubber
from slurm_triage.errors import UsageError
from slurm_triage.locate import locate
from slurm_triage.logs.labels import detect
from slurm_triage.logs.line import NO_LABELS
from slurm_triage.logs.source import STDIN
from slurm_triage.model.files import JobFiles
from slurm_triage.model.job import Job
from slurm_triage.model.report import Report
from slurm_triage.pipeline import Engine, triage
from slurm_triage.report.build_document import report_document
from slurm_triage.report.redact import redact
from slurm_triage.slurm.record_file import load_record
from slurm_triage.telemetry.node_snapshots import with_node_snapshots

#: Of all logs together. Packed about a tenth; what still goes through most issue trackers' limits of 10 to 25 MB.
MAX_LOG_BYTES = 32 << 20

README = """\
A job's log and accounting record, without secrets, for slurm-triage {version} (rules {digest}).

    slurm-triage log {target} --accounting {name}/accounting.json{now}

expect.json holds the verdict that this should give. "[slurm-triage bundle: N bytes left out]" in a log marks a gap.
Left out as well: time series, core dumps, checkpoints (only the names of their directories are kept).{shared}
"""


@dataclass(frozen=True, slots=True)
class Bundle:
    """What was made. ``left_out_bytes``: of the logs. ``same``: the bundle gives the verdict of the job."""

    path: Path
    left_out_bytes: int
    expected: Mapping[str, Any]
    replayed: Mapping[str, Any]

    @property
    def same(self) -> bool:
        return self.expected == self.replayed


def make_bundle(
    job: Job,
    files: JobFiles,
    engine: Engine,
    output: Path | None,
    *,
    name: str | None = None,
    share: bool = False,
    max_bytes: int = MAX_LOG_BYTES,
    now: float | None = None,
) -> Bundle:
    """Writes the archive ``output``, which unpacks into a directory ``name``: by default named after the job's id, and
    then nothing that is there already is replaced. Raises TriageError."""
    if output is not None:
        check_name(output)
    if any(log.path == STDIN for log in files.logs):
        raise UsageError("standard input can be read only once; name the file instead")
    files = with_node_snapshots(files)
    report = triage(job, replace(files, node_snapshots=()), engine, now=now)
    name = name or _name(report)
    output = output or _unused(Path(f"{name}.tar.gz"))
    lengths = [length_of(log) for log in files.logs]
    parts = _parts(report, lengths, engine, max_bytes)
    names = None
    if share:
        texts = lines_of(part.data for of_file in parts for part in of_file)
        names = private_names(job, report.facts, report_document(report), texts)
    with tempfile.TemporaryDirectory(prefix="slurm-triage-bundle-") as scratch:
        tree = Path(scratch) / name
        tree.mkdir()
        members = member_names(files, names.host if names else str)
        left_out = 0
        for log, length, of_file, member in zip(files.logs, lengths, parts, members, strict=True):
            text, kept = _scrubbed(of_file, length, names)
            left_out += length - kept
            _put(tree / member, text, log.mtime)
        for member, content in other_members(report.files).items():
            _put(tree / member, _scrub_text(content, names), None)
        _put(tree / "accounting.json", _json(_accounting(job, report, names)), None)
        replayed = verdict(_replay(tree, files, report, engine))
        expected = verdict(report)
        _put(tree / "expect.json", _json(_expect(report, expected, replayed, left_out)), None)
        _put(tree / "README", _readme(name, files, report, share).encode(), None)
        _settle_times(tree, max((int(log.mtime or 0) for log in files.logs), default=0))
        write_archive(tree, output)
    return Bundle(output, left_out, expected, replayed)


def _name(report: Report) -> str:
    job_id = report.job.job_id or report.files.job_id or "job"
    return f"triage-bundle-{re.sub(r'[^A-Za-z0-9_+.-]', '-', job_id)}"


def _unused(path: Path) -> Path:
    if path.exists():
        raise UsageError(f"{path} is there already; remove it, or choose another file with -o")
    return path


def verdict(report: Report) -> dict[str, Any]:
    """What must be the same on both sides."""
    primary = report.diagnosis.primary
    return {
        "status": report.diagnosis.status,
        "class": primary.cls if primary else None,
        "rank": primary.rank if primary else None,
    }


def _parts(report: Report, lengths: list[int], engine: Engine, max_bytes: int) -> list[list[Part]]:
    """What to keep of each log. All files have the same allowance; a small one leaves its rest to nobody."""
    allowance = max_bytes if sum(lengths) <= max_bytes else max_bytes // max(1, len(lengths))
    wanted = spots(report.facts, lengths)
    parts: list[list[Part]] = []
    for log, length, places in zip(report.files.logs, lengths, wanted, strict=True):
        if length > allowance:
            places = [*places, *statements(log, engine.ruleset, engine.matcher)]
        parts.append(list(read_parts(log, choose_ranges(length, allowance, places))))
    return parts


def _scrubbed(parts: list[Part], length: int, names: SharedNames | None) -> tuple[bytes, int]:
    """(text of one log, how many bytes of the original are in it)."""
    scrub = Scrubber(detect(parts[0].data[: 256 << 10] if parts else b""), names.text if names else None).scrub
    out: list[bytes] = []
    position = kept = 0
    for part in parts:
        if part.start > position:
            out.append(_gap(part.start - position))
        out.append(scrub(part.data, part.context))
        kept += len(part.data)
        position = part.start + len(part.data)
    if position < length:
        out.append(_gap(length - position))
    return b"".join(out), kept


def _gap(size_bytes: int) -> bytes:
    return b"[slurm-triage bundle: %d bytes left out]\n" % size_bytes


def _scrub_text(text: str, names: SharedNames | None) -> bytes:
    return Scrubber(NO_LABELS, names.text if names else None).scrub(text.encode("utf-8", "surrogateescape"))


def _accounting(job: Job, report: Report, names: SharedNames | None) -> dict[str, Any]:
    record = job_record(job)
    record.setdefault("job_id", report.job.job_id)
    clean: dict[str, Any] = redact({"job": record})["job"]
    return names.record(clean) if names else clean


def _expect(report: Report, expected: Mapping[str, Any], replayed: Mapping[str, Any], left_out: int) -> dict[str, Any]:
    primary = report.diagnosis.primary
    return {
        **expected,
        "stage": primary.stage if primary else None,
        "confidence": primary.confidence if primary else None,
        "last_step": report.progress.last_step,
        "now": report.now,
        "left_out_bytes": left_out,
        "replayed": "same" if expected == replayed else dict(replayed),
        "generator": {"version": report.version, "rules_digest": report.rules_digest},
    }


def _replay(tree: Path, files: JobFiles, report: Report, engine: Engine) -> Report:
    """The verdict of the bundle as its README says to ask for it."""
    record = load_record(str(tree / "accounting.json"))
    target, by_id = _target(files, report)
    found = locate(target, outputs=tree, job=record) if by_id else locate(str(tree / target), job=record)
    return triage(record, found, engine, now=report.now)


def _target(files: JobFiles, report: Report) -> tuple[str, bool]:
    """(what to name when replaying, whether that is an id). A job without a log is found by what else it left, or by
    its id where it left nothing."""
    if files.logs:
        return "log", False
    return (report.job.job_id or "", True) if not other_members(files) else ("", False)


def _readme(name: str, files: JobFiles, report: Report, share: bool) -> str:
    target, by_id = _target(files, report)
    return README.format(
        version=__version__,
        digest=report.rules_digest,
        name=name,
        target=f"{target} --outputs {name}" if by_id else f"{name}/{target}",
        now=f" --now {report.now:.0f}" if report.now is not None else "",
        shared="\nUser, host names, addresses and paths are replaced; the same name is the same everywhere." * share,
    )


def _put(path: Path, data: bytes, mtime: float | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    # Clocks without a year are dated by the log's time.
    os.utime(path, (int(mtime or 0), int(mtime or 0)))


def _settle_times(tree: Path, fixed: int) -> None:
    """Whatever has no time of its own, directories included, gets the newest log's."""
    for path in (tree, *tree.rglob("*")):
        if path.is_dir() or not path.stat().st_mtime:
            os.utime(path, (fixed, fixed))


def _json(value: Mapping[str, Any]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
