"""Damage is found, told, put into quarantine; nothing else is touched."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_triage.cli.main import main
from slurm_triage.errors import LedgerError
from slurm_triage.ledger.append import open_writer
from slurm_triage.ledger.read import records, snapshot
from slurm_triage.ledger.repair import repair
from slurm_triage.ledger.segment import seal_path, segments
from slurm_triage.ledger.verify import verify, verify_all
from tests.ledger.conftest import Fresh
from tests.ledger.samples import T0, record


def write(root: Path, count: int = 12, segment_bytes: int = 3000) -> Path:
    with open_writer(root, "alpha", clock=lambda: T0, segment_bytes=segment_bytes) as writer:
        for i in range(count):
            writer.append([record(i)])
    return root / "alpha"


def damage(path: Path, offset: int, junk: bytes = b"#") -> None:
    data = bytearray(path.read_bytes())
    data[offset : offset + len(junk)] = junk
    path.write_bytes(bytes(data))


def kinds(directory: Path) -> list[str]:
    return [f.kind for f in verify(directory).findings]


def test_a_sound_ledger(tmp_path: Path) -> None:
    directory = write(tmp_path)
    verdict = verify(directory)
    assert (verdict.writer, verdict.lines, verdict.findings, verdict.lost) == ("alpha", 12, (), 0)
    assert verdict.segment_count == len(segments(directory)) > 2
    assert [v.writer for v in verify_all((tmp_path,))] == ["alpha"]


def test_damage_in_the_middle_costs_one_record_and_is_told(tmp_path: Path) -> None:
    directory = write(tmp_path)
    damage(segments(directory)[0].path, 900)
    verdict = verify(directory)
    assert [f.kind for f in verdict.new_losses] == ["seal-mismatch", "damaged", "gap"]
    assert verdict.lost == 1
    snap = snapshot([tmp_path])
    assert len(list(records(snap))) == 11
    assert snap.counts.damaged == 1
    assert "byte" in (snap.counts.first_damage or "")


def test_repair_quarantines_and_notes_and_later_damage_is_new_again(tmp_path: Path) -> None:
    directory = write(tmp_path)
    path = segments(directory)[0].path
    damage(path, 900)
    before = path.read_bytes()
    done = repair(directory, lambda: T0)
    assert (done.quarantined, done.lost_noted, done.resealed, done.busy) == (1, 1, 1, None)
    assert path.read_bytes() == before
    verdict = verify(directory)
    assert verdict.new_losses == ()
    assert verdict.lost == 1
    (kept,) = (p for p in (directory / "quarantine").iterdir() if p.name.startswith(path.name) and p.suffix != ".note")
    assert kept.read_bytes() in before
    damage(path, 2000)
    assert verify(directory).new_losses
    again = repair(directory, lambda: T0)
    assert again.quarantined == 1
    assert verify(directory).new_losses == ()
    assert verify(directory).lost == 2


def test_readers_are_quiet_about_what_is_in_quarantine_and_loud_about_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write(tmp_path)
    path = segments(directory)[0].path
    damage(path, 900)
    listing = ["list", "-S", "now-9999days", "-u", "alice", "-n", "--ledger", str(tmp_path)]
    assert main(listing) == 5
    assert "1 damaged places were skipped" in capsys.readouterr().err
    repair(directory, lambda: T0)
    assert main(listing) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert len(shown.out.splitlines()) == 11
    assert main(["ledger", "stats", "--ledger", str(tmp_path)]) == 0
    assert "1 damaged places are in quarantine" in capsys.readouterr().out
    damage(path, 2000)
    assert main(listing) == 5
    assert "1 damaged places were skipped" in capsys.readouterr().err
    # The same place, but more of it: the next line is gone, too.
    damage(path, 1100, b"#" * 500)
    assert main(listing) == 5
    assert "2 damaged places were skipped" in capsys.readouterr().err


def test_repair_of_a_sound_ledger_changes_nothing_but_indexes(tmp_path: Path) -> None:
    directory = write(tmp_path)
    for path in directory.glob("*.idx"):
        path.unlink()
    done = repair(directory, lambda: T0)
    assert (done.quarantined, done.lost_noted, done.resealed) == (0, 0, 0)
    assert done.indexed == len(segments(directory)) - 1
    assert not (directory / "quarantine").exists()


def test_repair_while_a_writer_is_at_work_says_so(tmp_path: Path) -> None:
    directory = write(tmp_path)
    damage(segments(directory)[0].path, 900)
    with open_writer(tmp_path, "alpha") as writer:
        writer.append([record(50)])
        done = repair(directory, lambda: T0)
        writer.append([record(51)])
    assert "another writer holds" in (done.busy or "")
    assert done.quarantined == 1
    assert verify(directory).new_losses == ()


def test_a_line_being_written_is_no_damage(tmp_path: Path) -> None:
    directory = write(tmp_path, count=1)
    with segments(directory)[-1].path.open("ab") as file:
        file.write(b'{"crc":"00000000","seq":9,')
    assert kinds(directory) == ["in-flight"]
    snap = snapshot([tmp_path])
    assert len(list(records(snap))) == 1
    assert snap.counts.damaged == 0


@pytest.mark.parametrize("junk", [b"#", b"", b"{}"])
def test_a_damaged_seal_is_told_and_made_again(tmp_path: Path, junk: bytes) -> None:
    directory = write(tmp_path)
    seal_path(segments(directory)[0].path).write_bytes(junk)
    assert "seal-damaged" in [f.kind for f in verify(directory).new_losses]
    assert len(list(records(snapshot([tmp_path])))) == 12
    repair(directory, lambda: T0)
    assert verify(directory).new_losses == ()
    assert segments(directory)[0].seal is not None


def test_a_lost_seal_is_told_and_made_again(tmp_path: Path) -> None:
    directory = write(tmp_path)
    seal_path(segments(directory)[1].path).unlink()
    assert kinds(directory) == ["unsealed"]
    repair(directory, lambda: T0)
    assert kinds(directory) == []


def test_a_lost_segment_is_a_gap(tmp_path: Path) -> None:
    directory = write(tmp_path)
    segments(directory)[1].path.unlink()
    (gap,) = verify(directory).new_losses
    assert gap.kind == "gap"
    assert gap.lost >= 4
    done = repair(directory, lambda: T0)
    assert done.lost_noted == gap.lost
    assert verify(directory).new_losses == ()


def test_a_sealed_segment_that_was_cut(tmp_path: Path) -> None:
    directory = write(tmp_path)
    path = segments(directory)[0].path
    path.write_bytes(path.read_bytes()[:-700])
    losses = {f.kind: f for f in verify(directory).new_losses}
    assert set(losses) >= {"seal-mismatch", "gap"}
    repair(directory, lambda: T0)
    assert verify(directory).new_losses == ()


def test_damaged_fence_and_mark_are_told(tmp_path: Path) -> None:
    directory = write(tmp_path)
    for name in ("fence", "high-water"):
        damage(directory / name, 20)
    assert kinds(directory) == ["fence-damaged", "high-water-damaged"]
    write(tmp_path, count=1)
    assert not {"fence-damaged", "high-water-damaged"} & set(kinds(directory))


def test_a_ledger_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot read"):
        verify(tmp_path / "nowhere")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    hits=st.lists(st.tuples(st.integers(0, 10**6), st.binary(min_size=1, max_size=30)), min_size=1, max_size=4),
    part=st.integers(0, 2),
)
def test_whatever_is_damaged_repair_makes_it_known_and_keeps_the_rest(
    fresh: Fresh, hits: list[tuple[int, bytes]], part: int
) -> None:
    root = fresh()
    directory = write(root)
    path = segments(directory)[part].path
    before = path.read_bytes()
    for offset, junk in hits:
        damage(path, offset % len(before), junk)
    touched = path.read_bytes() != before
    assert bool(verify(directory).findings) == touched
    alive = {r.key for r in records(snapshot([root]))}
    assert len(alive) >= 12 - 2 * len(hits)
    first = repair(directory, lambda: T0)
    assert verify(directory).new_losses == ()
    assert {r.key for r in records(snapshot([root]))} == alive
    second = repair(directory, lambda: T0)
    assert (second.quarantined, second.lost_noted, second.resealed) == (0, 0, 0)
    assert first.quarantined or not touched or path == segments(directory)[-1].path
