"""Whatever comes, goes, fails and is killed: the spool's books agree with a plain list of what is outstanding."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from slurm_triage.service import spool
from slurm_triage.service.spool import Arrived, Spool
from slurm_triage.service.spool_event import COMPLETION_KIND
from tests.service.test_spool_batches import batch, event

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has files of others")

KINDS = ("epilog", COMPLETION_KIND, "rootkit")
EVENTS = st.lists(st.tuples(st.integers(1, 4), st.sampled_from(KINDS)), min_size=1, max_size=6)
FILES = st.integers(0, 14)


class Books(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.stack = ExitStack()
        self.directory = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        for name, value in (("MAX_OF_USER", 5), ("MAX_OF_JOB", 2), ("READ_S", 60.0), ("READ_ALL_S", 60.0)):
            self.stack.enter_context(mock.patch.object(spool, name, value))
        for name in ("new", "tmp", "bad"):
            (self.directory / name).mkdir()
        self.read_only = False
        self.crash()

    @rule()
    def crash(self) -> None:
        self.reader, self.outstanding = Spool(self.directory, frozenset({0})), dict[str, Arrived]()

    @rule(number=FILES, uid=st.sampled_from([0, 1111, 2222]), events=EVENTS)
    def write(self, number: int, uid: int, events: list[tuple[int, str]]) -> None:
        if uid == 0 and len({kind == COMPLETION_KIND for _, kind in events}) == 2:
            # A node's events and lines of the log never come in one file.
            return
        path = self.directory / f"new/f{number:02d}"
        if path.exists() or path.name in self.reader.known:
            return
        path.write_bytes(batch(*(event(job_id, kind=kind) for job_id, kind in events)))
        path.chmod(0o644)
        os.chown(path, uid, uid)

    @rule(number=FILES)
    def its_owner_removes_it(self, number: int) -> None:
        (self.directory / f"new/f{number:02d}").unlink(missing_ok=True)

    @rule()
    def read(self) -> None:
        for one in self.reader.arrivals():
            assert one.name not in self.outstanding, "it comes once"
            self.outstanding[one.name] = one

    @rule(which=st.lists(st.integers(0, 200), max_size=6))
    def deal_with(self, which: list[int]) -> None:
        names = {list(self.outstanding)[number % len(self.outstanding)] for number in which if self.outstanding}
        self.remove(names)
        for name in names:
            del self.outstanding[name]

    def remove(self, names: set[str]) -> None:
        failing = mock.patch.object(Path, "unlink", side_effect=OSError(30, "read-only"))
        with failing if self.read_only else ExitStack():
            self.reader.remove(names)

    @rule(read_only=st.booleans())
    def remount(self, read_only: bool) -> None:
        self.read_only = read_only

    @invariant()
    def the_books_agree(self) -> None:
        reader = self.reader
        # What is dealt with and could not be removed still counts.
        assert set(reader._untrusted) - set(self.outstanding) <= reader.unremoved
        counted = Counter(uid for uid, _ in reader._untrusted.values())
        assert {name for name, one in self.outstanding.items() if not one.trusted} <= set(reader._untrusted)
        assert counted == reader._of_user
        assert Counter(reader._untrusted.values()) == reader._of_job
        assert max(reader._of_job.values(), default=0) <= 2
        for file, parts in reader._parts.items():
            assert parts
            assert file in reader.known
            assert parts <= set(self.outstanding)
        for uid, held in reader._unread.items():
            assert held
            assert set(held) <= reader.known
            assert uid in reader._of_user, "somebody must be there to make room"
        assert reader.waiting >= 0

    def teardown(self) -> None:
        self.read_only = False
        for _ in range(100):
            self.remove(set(self.outstanding))
            self.outstanding.clear()
            self.read()
            if not self.outstanding and not os.listdir(self.directory / "new"):  # noqa: PTH208
                break
        assert os.listdir(self.directory / "new") == []  # noqa: PTH208
        reader = self.reader
        inner = (reader._untrusted, reader._of_user, reader._of_job, reader._unread, reader._parts)
        assert not any(map(len, (reader.known, reader.unremoved, *inner)))
        self.stack.close()


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
