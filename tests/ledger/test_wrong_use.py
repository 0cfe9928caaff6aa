"""What users get wrong, and ledgers that are not as they should be: one sentence that helps, or a right answer."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_triage.cli.main import main
from slurm_triage.errors import LedgerError
from slurm_triage.ledger import index
from slurm_triage.ledger.append import open_writer
from slurm_triage.ledger.doctor import check_directory
from slurm_triage.ledger.query import by_job
from slurm_triage.ledger.segment import segments
from tests.ledger.test_cli import ledger as ledger
from tests.ledger.test_cli import recent

#: Root without its privileges: it may read only what the modes allow.
AS_ANYBODY = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner", sys.executable, "-m", "slurm_triage"]


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        (["list", "-M", "gamma"], 3, "the ledger has nothing of the cluster gamma, but of: alpha, beta"),
        (["nodes", "-M", "alpha,gamma"], 3, "nothing of the cluster gamma"),
        (["ledger", "verify", "-M", "gamma"], 3, "nothing of the cluster gamma"),
        (["list", "-s", "F,BROKEN"], 2, "unknown state 'BROKEN'; the states are: BOOT_FAIL, "),
        (["list", "-o", "JobID,Bogus"], 2, "unknown field 'Bogus'; the fields are: JobID, "),
        (["list", "-o", "JobID%x"], 2, "unknown field 'JobID%x'"),
        (["list", "-o", ",,"], 2, "no field is named"),
        (["list", "-S", "2026-13-01"], 2, "cannot read the time '2026-13-01'"),
        (["list", "-S", "now-3fortnights"], 2, "cannot read the unit"),
        (["nodes", "--exclude"], 2, "of several clusters: name one with -M (alpha, beta)"),
        (["nodes", "nowhere"], 3, "no job of the ledger ran on nowhere"),
    ],
)
@pytest.mark.usefixtures("ledger")
def test_one_sentence(args: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == status
    error = capsys.readouterr().err
    assert said in error
    assert error.startswith("slurm-triage: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize("args", [["list"], ["ledger", "verify"], ["ledger", "stats"]])
def test_the_part_of_one_cluster_is_no_ledger(
    ledger: Path, args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing would be found in it, and an empty answer looks as if all were well."""
    assert main([*args, "--ledger", str(ledger / "alpha")]) == 5
    assert "is only the part of one cluster" in capsys.readouterr().err


def test_two_clusters_in_one_table_are_told_apart(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    del ledger
    assert main(["list", "-j", "7001"]) == 0
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["Cluster", "JobID"]
    assert [row.split()[:2] for row in rows] == [["alpha", "7001"], ["beta", "7001"]]
    assert main(["list", "-j", "7002"]) == 0
    assert capsys.readouterr().out.startswith("JobID ")
    assert main(["nodes", "chi2801", "--json"]) == 0
    assert {row["cluster"] for row in json.loads(capsys.readouterr().out)["nodes"]} == {"alpha", "beta"}


@pytest.mark.parametrize("closed", ["", "alpha", "alpha/segment"])
@pytest.mark.parametrize(
    "args", [["list"], ["nodes"], ["ledger", "verify"], ["ledger", "export"], ["list", "-j", "7001"]]
)
def test_a_ledger_that_one_may_not_read(ledger: Path, closed: str, args: list[str]) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to give the ledger to somebody else")
    ledger.parent.chmod(0o755)
    for path in (ledger, *ledger.rglob("*")):
        os.chown(path, 65534, 65534)
        path.chmod(0o755 if path.is_dir() else 0o644)
    what = next((ledger / "alpha").glob("*.jsonl")) if closed.endswith("segment") else ledger / closed
    what.chmod(0o700 if what.is_dir() else 0o600)
    done = subprocess.run([*AS_ANYBODY, *args], capture_output=True, text=True)
    assert done.returncode == 5
    assert done.stderr.count("\n") == 1
    assert "may not read the ledger" in done.stderr or "Permission denied" in done.stderr


def test_a_job_can_be_asked_for_although_the_ledger_cannot(ledger: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to give the ledger to somebody else")
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    (outputs / "7001-JAX-m.log").write_text("0: RuntimeError: x\n")
    for path in (ledger, ledger / "alpha", *(ledger / "alpha").iterdir()):
        os.chown(path, 65534, 65534)
    (ledger / "alpha").chmod(0o700)
    env = {**os.environ, "SLURM_TRIAGE_OUTPUTS": str(outputs), "SLURM_TRIAGE_ACCOUNTING": "hook"}
    done = subprocess.run([*AS_ANYBODY, "7001", "--json"], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["job"]["id"] == "7001"
    assert "Permission denied" in done.stderr


def test_a_file_cannot_be_a_ledger(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match="Not a directory"):
        check_directory(tmp_path / "file")


@pytest.mark.parametrize("magic", [b"STIDX\x00\x00\x01", b"STIDX\x00\x00\x09"])
def test_an_index_of_another_version_is_made_again(ledger: Path, magic: bytes) -> None:
    """With a right checksum, so that only the version tells."""
    paths = sorted((ledger / "alpha").glob("*.idx"))
    for path in paths:
        raw = path.read_bytes()
        head = magic + raw[8 : index._HEAD.size]
        path.write_bytes(head + struct.pack("<I", index.crc32c(head)) + raw[index._HEAD.size + 4 :])
    assert [r.job_id for r in by_job([ledger], "7001", ["alpha"])] == ["7001"]
    assert all(index.read_head(segment) is not None for segment in segments(ledger / "alpha") if segment.seal)


def test_a_clock_that_goes_back_hides_nothing(tmp_path: Path) -> None:
    clock = [1_780_000_000.0]
    with open_writer(tmp_path, "alpha", clock=lambda: clock[0], segment_bytes=1500) as writer:
        for number in range(12):
            # Back by a month with every record.
            clock[0] -= 30 * 86400.0
            writer.append([recent(number, 1)])
    numbers = [segment.number for segment in segments(tmp_path / "alpha")]
    assert numbers == sorted(numbers)
    for number in range(12):
        assert [r.job_id for r in by_job([tmp_path], str(7000 + number))] == [str(7000 + number)]
    assert main(["ledger", "verify", "--ledger", str(tmp_path)]) == 0


def test_thousands_of_attempts_of_one_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_writer(tmp_path, "alpha", segment_bytes=1 << 18) as writer:
        writer.append(recent(1, 2, attempt=f"s{n}", restarts=n, start=float(n)) for n in range(5000))
    assert main(["list", "-j", "7001", "-P", "-n", "-o", "Restarts", "--ledger", str(tmp_path)]) == 0
    assert capsys.readouterr().out.split() == [str(n) for n in range(5000)]
