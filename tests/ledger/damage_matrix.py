"""The rows of the crash matrix that change bytes of a finished ledger: cut files, flipped bits."""

from __future__ import annotations

from pathlib import Path

from slurm_triage.ledger import index, query
from slurm_triage.ledger.files import Files
from slurm_triage.ledger.read import records, snapshot
from slurm_triage.ledger.record import to_dict
from slurm_triage.ledger.segment import segments
from slurm_triage.ledger.verify import verify
from tests.ledger.workload import Row, Worker, scratch


def _finished(root: Path) -> Worker:
    worker = Worker(root, [])
    worker.run(Files())
    return worker


def cuts(step: int = 1) -> Row:
    """Each segment is cut at each byte of its last two lines, and everywhere in between."""
    row = Row("segment cut at each byte of a record")
    with scratch() as root:
        worker = _finished(root)
        for segment in segments(root / "alpha"):
            data = segment.path.read_bytes()
            lines = data.splitlines(keepends=True)
            from_byte = len(data) - sum(len(line) for line in lines[-2:])
            for length in range(max(0, from_byte), len(data), step):
                segment.path.write_bytes(data[:length])
                whole = data[:length].count(b'"rec":{') - (
                    b'"rec":{' in data[data.rfind(b"\n", 0, length) + 1 : length]
                )
                _damaged(row, worker, segment.path.name, max_lost=data.count(b'"rec":{') - whole)
            segment.path.write_bytes(data)
    return row


def flips(step: int = 1) -> Row:
    """Each bit of each file of the ledger is flipped."""
    row = Row("each bit of a record, head, seal, fence and mark flipped")
    with scratch() as root:
        worker = _finished(root)
        index.refresh(root / "alpha")
        first = segments(root / "alpha")[0].path
        last = segments(root / "alpha")[-1].path
        for path, limit in (
            (first, 2200),
            (first.with_suffix(".seal"), None),
            (last, 1200),
            (root / "alpha" / "fence", None),
            (root / "alpha" / "high-water", 120),
        ):
            data = path.read_bytes()
            for bit in range(0, 8 * min(len(data), limit or len(data)), step):
                path.write_bytes(_flip(data, bit))
                _damaged(row, worker, path.name, max_lost=1)
            path.write_bytes(data)
    return row


def index_flips(step: int = 1) -> Row:
    """Each bit of an index is flipped: look-ups must stay right."""
    row = Row("each bit of an index flipped, then looked up")
    with scratch() as root:
        worker = _finished(root)
        directory = root / "alpha"
        index.refresh(directory)
        path = index.index_path(segments(directory)[0].path)
        data = path.read_bytes()
        for bit in range(0, 8 * len(data), step):
            path.write_bytes(_flip(data, bit))
            row.injected += 1
            for one in worker.acknowledged[:2]:
                found = query.by_job([root], one.job_id)
                row.undetected += [f.key for f in found] != [one.key]
    return row


def _flip(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def _damaged(row: Row, worker: Worker, name: str, max_lost: int) -> None:
    """Verify must say something, every other record must be read, and none wrongly."""
    row.injected += 1
    row.acknowledged += len(worker.acknowledged)
    stem = name.split(".")[0]
    revisions = {(r.key, r.revision): to_dict(r) for r in worker.acknowledged}
    keys = {r.key for r in worker.acknowledged}
    try:
        told = any(f.file.split(".")[0] == stem or f.lost for f in verify(worker.root / "alpha").findings)
        read = list(records(snapshot([worker.root])))
        wrong = sum(revisions.get((r.key, r.revision)) != to_dict(r) for r in read)
    except (LookupError, TypeError, ValueError):
        # A damaged line got so far that it was taken for a record or a seal.
        row.undetected += 1
        return
    row.undetected += (not told) + wrong
    row.doubled += len(read) - len({r.key for r in read})
    row.lost += max(0, len(keys) - len(read) - max_lost)
