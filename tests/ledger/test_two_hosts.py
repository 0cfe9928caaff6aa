"""Two hosts and one ledger on a real network file system.

python -m tests.ledger.test_two_hosts [SECONDS] prints the race's figures.
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ledger.shared_file_system import Host, missing, together, two_hosts

MODULE = "tests.ledger.on_host"
pytestmark = [
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    # One file system for all of its tests.
    pytest.mark.xdist_group("two-hosts"),
]


@pytest.fixture(scope="module")
def hosts() -> Iterator[tuple[Host, Host]]:
    with two_hosts() as found:
        yield found


def new_ledger(host: Host) -> str:
    name = uuid.uuid4().hex
    done = host.run("tests.ledger.test_two_hosts", "mkdir", str(host.mount / name))
    assert done.returncode == 0, done.stderr
    return name


def say(process: subprocess.Popen[str], number: int) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{number}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def first_word(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def found(host: Host, name: str, *numbers: int) -> list[list[str]]:
    done = host.run(MODULE, "find", str(host.mount / name), *(str(7000 + n) for n in numbers))
    assert done.returncode == 0, done.stderr
    answer: list[list[str]] = json.loads(done.stdout)
    return answer


def race(hosts: tuple[Host, Host], seconds: float) -> dict[str, int]:
    name = new_ledger(hosts[0])
    contenders = [
        host.start(MODULE, "contend", str(host.mount / name), str(seconds), str(100 * number))
        for number, host in enumerate(hosts)
    ]
    outcomes = [json.loads(text) for text in together(contenders, seconds + 120)]
    sums = {key: sum(outcome[key] for outcome in outcomes) for key in outcomes[0]}
    verified = hosts[1].run("slurm_triage", "ledger", "verify", "--json", "--ledger", str(hosts[1].mount / name))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    (verdict,) = json.loads(verified.stdout)
    assert all(outcome["holds"] for outcome in outcomes), "both hosts must have had their turns"
    return {**sums, "lines": verdict["lines"], "lost": verdict["lost"]}


def test_eight_processes_on_two_hosts_never_write_at_once(hosts: tuple[Host, Host]) -> None:
    outcome = race(hosts, 5.0)
    assert outcome["overlaps"] == 0
    assert outcome["acknowledged"] == outcome["holds"] == outcome["lines"]
    assert outcome["lost"] == 0


def test_what_one_host_has_acknowledged_the_other_finds(hosts: tuple[Host, Host]) -> None:
    name = new_ledger(hosts[0])
    with hosts[0].start(MODULE, "hold", str(hosts[0].mount / name)) as writer:
        assert first_word(writer) == "writer"
        for number in range(5):
            assert say(writer, number) == f"acknowledged {number}"
            assert found(hosts[1], name, number) == [[str(7000 + number)]]
        assert writer.stdin is not None
        writer.stdin.close()


def test_a_writer_that_was_replaced_by_another_host_acknowledges_nothing_more(hosts: tuple[Host, Host]) -> None:
    name = new_ledger(hosts[0])
    old = hosts[0].start(MODULE, "hold", str(hosts[0].mount / name))
    assert first_word(old) == "writer"
    assert say(old, 1) == "acknowledged 1"
    refused = hosts[1].run(MODULE, "hold", str(hosts[1].mount / name))
    assert "on host-a" in refused.stdout
    assert "--break-claim" in refused.stdout
    # An administrator believes that host-a is gone, but its writer was only held up.
    assert hosts[1].run(MODULE, "break_claims", str(hosts[1].mount / name)).returncode == 0
    new = hosts[1].start(MODULE, "hold", str(hosts[1].mount / name))
    assert first_word(new) == "writer"
    assert say(new, 2) == "acknowledged 2"
    assert "another writer took over" in say(old, 3)
    assert say(new, 4) == "acknowledged 4"
    for process in (old, new):
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)
    assert found(hosts[0], name, 1, 2, 3, 4) == [["7001"], ["7002"], [], ["7004"]]
    verified = hosts[0].run("slurm_triage", "ledger", "verify", "--ledger", str(hosts[0].mount / name))
    assert verified.returncode == 0, verified.stdout


def test_doctor_tries_the_file_system_out(hosts: tuple[Host, Host]) -> None:
    done = hosts[0].run(MODULE, "doctor", str(hosts[0].mount))
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    assert checks["file system"]["result"] == "warning"
    assert "hard-link lock is used" in checks["file system"]["detail"]
    assert checks["lock (hard links)"]["result"] == "ok"
    assert "two hosts at once cannot be tried from one" in checks["lock (hard links)"]["detail"]
    assert not [check for check in checks.values() if check["result"] == "failed"]


def main() -> int:
    if sys.argv[1:2] == ["mkdir"]:
        Path(sys.argv[2]).mkdir()
        return 0
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    with two_hosts() as found_hosts:
        outcome = race(found_hosts, seconds)
    print(f"2 hosts with 4 processes each, MooseFS, {seconds:.0f} s: {outcome}")
    return 0 if outcome["overlaps"] == 0 and outcome["acknowledged"] == outcome["lines"] else 1


if __name__ == "__main__":
    sys.exit(main())
