"""What a user, or Slurm's own, can do to others through Slurm's log of ended jobs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_triage.service import completion_log
from tests.service.test_completion_log import LINE, Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.log.close()


def test_a_name_is_good_for_few_lines(place: Place) -> None:
    """A name has up to 1 024 bytes: room for some fifty short lines about jobs of others."""
    place.write(7, name="".join(f"\nJobId={number} UserId=x " for number in range(100, 145))[:1024])
    place.write(8)
    found = place.job_ids()
    assert len(found) <= 10
    assert {7, 8} <= set(found)


def test_names_that_somebody_has_taken_first(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a spool where everybody may write (--open-spool): they stood in the way of all lines that followed."""
    monkeypatch.setattr("time.time", lambda: 1800000000.0)
    place.write(7)
    place.arrived()
    (made,) = (place.spool / "new").iterdir()
    for job_id in (8, 9):
        (place.spool / "tmp" / made.name.replace(".7.", f".{job_id}.")).write_text("mine")
    place.write(8, 9)
    assert place.job_ids() == [8, 9]


@pytest.mark.parametrize("job_id", [4294967294, 4294967295, 9999999999])
def test_a_number_that_no_job_has(place: Place, job_id: int) -> None:
    place.write(job_id)
    place.write(8)
    assert place.job_ids() == [8]


def _link(path: Path, to: Path) -> None:
    path.unlink()
    path.symlink_to(to)


def _hard_link(path: Path, to: Path) -> None:
    path.unlink()
    path.hardlink_to(to)


@pytest.mark.parametrize("put", [_link, _hard_link])
def test_slurms_user_does_not_empty_roots_files(
    place: Place, put: Callable[[Path, Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log lies in a directory of SlurmUser's; the worker is root."""
    monkeypatch.setattr(completion_log, "MAX_OWN_BYTES", 500)
    treasure = place.path.parent / "treasure"
    treasure.write_text(LINE.format(1, "treasure") * 3)
    place.path.touch()
    put(place.path, treasure)
    place.arrived()
    place.arrived()
    assert treasure.read_text() == LINE.format(1, "treasure") * 3


def test_exchanged_in_the_last_moment(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion_log, "MAX_OWN_BYTES", 500)
    treasure = place.path.parent / "treasure"
    treasure.write_text("root's")
    real = os.open

    def exchange(path: Path, flags: int, *rest: int, **more: int) -> int:
        if flags & os.O_WRONLY and path == place.path:
            _link(place.path, treasure)
        return real(path, flags, *rest, **more)

    place.write(1, 2, 3)
    with monkeypatch.context() as racing:
        racing.setattr(os, "open", exchange)
        assert place.job_ids() == [1, 2, 3]
    assert place.path.is_symlink(), "the race took place"
    assert treasure.read_text() == "root's"


def test_a_sites_log_beside_ours_is_not_emptied(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """/var/lib/slurm/jobs.log with state = "/var/lib/triage-state"."""
    monkeypatch.setattr(completion_log, "MAX_OWN_BYTES", 500)
    place.path = place.state.parent / "slurm/jobs.log"
    place.path.parent.mkdir()
    place.restart()
    place.write(1, 2, 3)
    assert place.job_ids() == [1, 2, 3]
    assert place.path.stat().st_size > 1000
