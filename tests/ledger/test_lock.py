"""The election: one writer at a time, whoever races and however holders die."""

import os
import signal
import time
from pathlib import Path

import pytest

from slurm_triage.errors import LedgerError
from slurm_triage.ledger import lock
from slurm_triage.ledger.append import open_writer
from slurm_triage.ledger.read import records, snapshot
from slurm_triage.ledger.verify import verify
from tests.ledger.racing import race
from tests.ledger.samples import record

KINDS = ("flock", "strict")


@pytest.mark.parametrize("kind", KINDS)
def test_eight_processes_race_and_never_two_hold_it(tmp_path: Path, kind: lock.Kind) -> None:
    # A machine that is busy otherwise may need longer until all have had their turns.
    for seconds in (1.5, 6.0, 24.0):
        root = tmp_path / f"{seconds}"
        root.mkdir()
        outcome = race(root, kind, processes=8, seconds=seconds)
        assert outcome.overlaps == 0
        if outcome.holds > 8:
            break
    assert outcome.holds > 8
    assert outcome.acknowledged == len(list(records(snapshot([root]))))
    assert not verify(root / "alpha").new_losses


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_writer_is_refused_with_a_sentence(tmp_path: Path, kind: lock.Kind) -> None:
    held = lock.acquire(tmp_path, kind=kind)
    child = os.fork()
    if child == 0:
        try:
            lock.acquire(tmp_path, kind=kind)
        except LedgerError as error:
            os._exit(0 if "another writer holds" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    held.release()


@pytest.mark.parametrize("kind", KINDS)
def test_the_lock_of_a_killed_holder_is_taken_over(tmp_path: Path, kind: lock.Kind) -> None:
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        held = lock.acquire(tmp_path, kind=kind)
        os.write(tell, b".")
        time.sleep(60)
        held.release()
        os._exit(0)
    assert os.read(told, 1) == b"."
    with pytest.raises(LedgerError, match=r"another writer holds"):
        lock.acquire(tmp_path, kind=kind)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    lock.acquire(tmp_path, timeout_s=2, kind=kind).release()


def test_a_holder_on_another_host_is_left_alone_until_an_administrator_breaks_its_claim(tmp_path: Path) -> None:
    lock.acquire(tmp_path, kind="strict").release()
    claims = tmp_path / f"{lock.LOCK}.filelock" / "claims"
    for state in ("intent", "held"):
        token = "a" * 32
        text = f"filelock-strict-v1\n{token}\n1\n{b'elsewhere'.hex()}\n\n"
        (claims / f"{state}-v1-{token}.claim").write_text(text)
    with pytest.raises(LedgerError, match=r"on elsewhere.*--break-claim"):
        lock.acquire(tmp_path, kind="strict")
    for state in ("intent", "held"):
        lock.break_claim(tmp_path, f"{state}-v1-{token}.claim")
    lock.acquire(tmp_path, kind="strict").release()
    with pytest.raises(LedgerError, match="no claim"):
        lock.break_claim(tmp_path, "held-v1-x.claim")


def test_the_first_writer_decides_the_kind_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "file_system", lambda _: "nfs4")
    assert lock.lock_kind(tmp_path) == "strict"
    monkeypatch.setattr(lock, "file_system", lambda _: "ext4")
    assert lock.lock_kind(tmp_path) == "strict"


def test_a_damaged_kind_is_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "lock-kind").touch()
    with pytest.raises(LedgerError, match=r"stop all writers and write \w+ into it"):
        lock.acquire(tmp_path)


def test_a_ledger_made_with_flock_is_refused_over_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "file_system", lambda _: "xfs")
    assert lock.lock_kind(tmp_path) == "flock"
    monkeypatch.setattr(lock, "file_system", lambda _: "nfs4")
    with pytest.raises(LedgerError, match="not safe on nfs4"):
        open_writer(tmp_path.parent, tmp_path.name)


def test_the_type_of_a_file_system_is_known() -> None:
    assert lock.file_system(Path("/proc")) == "proc"
    assert lock.file_system(Path("/proc/self")) == "proc"


def test_append_works_under_the_strict_lock(tmp_path: Path) -> None:
    (tmp_path / "alpha").mkdir()
    (tmp_path / "alpha" / "lock-kind").write_text("strict")
    for i in range(2):
        with open_writer(tmp_path, "alpha") as writer:
            writer.append([record(i)])
    assert len(list(records(snapshot([tmp_path])))) == 2
