"""The epilog of the nodes by itself: Slurm does not wait for the spool, and what the kernel said comes along."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from slurm_triage.service.batch_file import events_by_name, parse_file
from slurm_triage.service.spool_event import KernelMessage
from tests.slurm.hook_files import HOSTILE, NODE, Hooks

EPILOG = "50-slurm-triage"

KERNEL = "".join(
    f"[{second:5d}.000123] {text}\n"
    for second, text in (
        (100, "Out of memory: Killed process 1 (too old)"),
        (5000, "usb 1-1: new device, of no interest"),
        (5001, "Out of memory: Killed process 2 (python3) total-vm:1kB"),
        (5002, "NVRM: Xid (PCI:0000:01:00): 79, pid=1, " + "x" * 700),
        (5003, "segfault at 0 by a\\x1b[31m\tname \xe9"),
    )
)


@pytest.mark.parametrize(
    "nodes, host, reports",
    [
        ("n01", "n01", True),
        ("n[01-03],b4", "n01", True),
        ("n[01-03],b4", "n02", False),
        ("n[01-03],b[4-5]", "b4", False),
        ("n01,n[05-09]", "n01", True),
        ("n01,n[05-09]", "n05", False),
        ("n[3,5]", "n3", True),
        ("n[3,5]", "n5", False),
        ("n[1-2]-ib", "n2-ib", True),
        ("r[1-2]n[1-4]", "r2n4", True),
        ("", "n1", False),
    ],
)
def test_the_first_node_reports_the_end(hooks: Hooks, nodes: str, host: str, reports: bool) -> None:
    # The second is the older name of the same variable.
    for name in ("SLURM_JOB_NODELIST", "SLURM_NODELIST"):
        hooks.run(EPILOG, {"SLURM_JOBID": "5", name: nodes, "SLURMD_NODENAME": host})
    assert [event.kind for event in hooks.carried()] == ["epilog", "epilog"] * reports


# ---- what the kernel said -------------------------------------------------------------------------------------------


def test_kernel_messages_come_with_the_event(hooks: Hooks) -> None:
    """All that matters of the buffer; the reader knows from when to when the job was here (test_own_messages.py)."""
    hooks.kernel_says(KERNEL)
    hooks.run(EPILOG, {**NODE, "SLURMD_NODENAME": "chi2802"})
    event = hooks.event("node")
    assert [message.text for message in event.kernel] == [
        "Out of memory: Killed process 1 (too old)",
        "Out of memory: Killed process 2 (python3) total-vm:1kB",
        ("NVRM: Xid (PCI:0000:01:00): 79, pid=1, " + "x" * 700)[: 600 - len("[ 5002.000123] ")],
        "segfault at 0 by a/x1b[31m?name ?",
    ]
    assert event.kernel[1].time == pytest.approx(time.time() - 10000 + 5001.000123, rel=0.0, abs=10.0)
    assert event.time == pytest.approx(time.time(), rel=0.0, abs=10.0)
    assert dict(event.env)["SLURM_JOB_NAME"] == HOSTILE, "escapes are whole in a node's event, too"
    assert [event.kind for event in hooks.carried()] == ["node"], "chi2802 is not the batch host"


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("watchdog: BUG: soft lockup - CPU#2 stuck for 22s! [solver:29632]", True),
        ("NMI watchdog: Watchdog detected hard LOCKUP on cpu 3", True),
        ("rcu: INFO: rcu_sched self-detected stall on CPU", True),
        ("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", True),
        ("beegfs: cp(2211): readfile (communication): Communication error. Node: beegfs-storage st02 [ID: 2]", True),
        ("beegfs: kworker/u8:2(91): NodeConn (acquire stream): Connected: beegfs-storage st02 [ID: 2]", False),
        ("NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.", False),
    ],
)
def test_what_is_worth_keeping(hooks: Hooks, said: str, kept: bool) -> None:
    hooks.kernel_says(f"[ 5001.000123] {said}\n")
    hooks.run(EPILOG, {**NODE, "SLURMD_NODENAME": "chi2802"})
    assert [message.text for event in hooks.carried() for message in event.kernel] == [said] * kept


def test_long_messages_are_cut(hooks: Hooks) -> None:
    hooks.kernel_says("".join(f"[{n:5d}.0] Out of memory: {n} {chr(92) * 5000}\n" for n in range(9000, 9300)))
    hooks.run(EPILOG, NODE)
    texts = [message.text for message in hooks.event("epilog").kernel]
    assert [text.split("/")[0] for text in texts] == [f"Out of memory: {n} " for n in range(9000, 9300)]
    assert {len(text) for text in texts} == {600 - len("[ 9200.0] ")}


def test_a_quiet_kernel_makes_no_event(hooks: Hooks) -> None:
    hooks.kernel_says(KERNEL.splitlines()[1] + "\n")
    hooks.run(EPILOG, {**NODE, "SLURMD_NODENAME": "chi2802"})
    assert hooks.carried() == []


def test_a_kernel_that_prints_no_times(hooks: Hooks) -> None:
    hooks.kernel_says("Out of memory: Killed process 12. [  1.0] later\n")
    hooks.run(EPILOG, NODE)
    assert hooks.event("epilog").kernel == (KernelMessage(None, "Out of memory: Killed process 12. [  1.0] later"),)


def test_snapshots_can_be_switched_off(hooks: Hooks) -> None:
    hooks.kernel_says(KERNEL)
    hooks.configure("snapshot=off")
    hooks.run(EPILOG, NODE)
    hooks.run(EPILOG, {**NODE, "SLURMD_NODENAME": "chi2802"})
    assert [(event.kind, event.kernel) for event in hooks.carried()] == [("epilog", ())]
    assert not (hooks.directory / "queue/chi2802").exists()


# ---- Slurm does not wait, and nothing stays behind ------------------------------------------------------------------


def test_slurm_does_not_wait_for_the_spool(hooks: Hooks) -> None:
    """What hangs there is ended, and holds nothing that Slurm would wait for."""
    (hooks.directory / "carry-events").write_text(f"echo $$ >{hooks.directory}/pid\necho started\nexec sleep 100\n")
    duration_s, held_s = hooks.run_with_pipe(EPILOG)
    assert duration_s + held_s < 4.5, "five seconds are the limit of what hangs"
    until = time.monotonic() + 15.0
    while not (pid_file := hooks.directory / "pid").exists() or Path(f"/proc/{pid_file.read_text().strip()}").exists():
        assert time.monotonic() < until, "what hangs is ended"
        time.sleep(0.05)


def test_events_survive_the_end_of_the_hooks_process_group(hooks: Hooks) -> None:
    """slurmd kills what is left of the hook's process group as soon as the hook is over."""
    hooks.kernel_says(KERNEL)
    hooks.replace("carry-events", "exec >/dev/null\n", "exec >/dev/null\nsleep 1\n")
    process = hooks.command(EPILOG, NODE)
    assert process.wait(20.0) == 0
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    assert hooks.events() == []
    assert [(event.kind, len(event.kernel)) for event in hooks.carried()] == [("epilog", 4)]


def test_what_ends_together_is_carried_together(hooks: Hooks) -> None:
    """One reading of the kernel's messages for all, one file with them."""
    hooks.kernel_says(KERNEL)
    hooks.replace("record-event", "seconds=0\n", "seconds=3\n")
    hooks.replace("carry-events", "count=0\n", f"echo $$ >>{hooks.directory}/carriers\ncount=0\n")
    processes = [hooks.command(EPILOG, {**NODE, "SLURM_JOB_ID": str(job)}) for job in range(1, 21)]
    assert [process.wait(20.0) for process in processes] == [0] * 20
    events = hooks.carried()
    assert sorted(int(event.job_id) for event in events) == list(range(1, 21))
    assert {(event.kind, len(event.kernel)) for event in events} == {("epilog", 4)}
    # Those that looked before the first had written that it is on its way start one as well.
    carriers = len((hooks.directory / "carriers").read_text().split())
    assert carriers < 10
    assert len(list((hooks.directory / "spool/new").iterdir())) <= carriers


def test_a_spool_that_was_away(hooks: Hooks) -> None:
    """What could not be carried comes with the next job's end, with the time of its own."""
    spool, gone = hooks.directory / "spool", hooks.directory / "gone"
    hooks.replace("carry-events", '[ -d "$spool/new" ] || exit 0', f'[ -d "$spool/new" ] || {{ : >{gone}; exit 0; }}')
    spool.rename(hooks.directory / "elsewhere")
    hooks.run(EPILOG, NODE)
    until = time.monotonic() + 10.0
    while not gone.exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    (hooks.directory / "uptime").write_text("10002.55 1.00\n")
    (hooks.directory / "elsewhere").rename(spool)
    hooks.run(EPILOG, {**NODE, "SLURM_JOB_ID": "7878"})
    first, second = hooks.carried()
    assert [first.job_id, second.job_id] == ["7877", "7878"]
    assert second.time - first.time == 2.0


def test_nobody_can_guess_the_name_of_a_file(hooks: Hooks) -> None:
    """What is put in its way beforehand, a link or a pipe, would be written to, or keep its writer."""
    for job in range(1, 4):
        hooks.run(EPILOG, {**NODE, "SLURM_JOB_ID": str(job)})
        hooks.carried()
    names = [path.name for path in (hooks.directory / "spool/new").iterdir()]
    assert len(names) == len({name.rpartition(".")[2] for name in names}) == 3
    for name in names:
        assert re.fullmatch(r"10000\.55\.chi2801\.batch\.1\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", name)
        assert events_by_name(name) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="a mount needs root")
def test_a_full_spool_keeps_the_events_in_the_queue(hooks: Hooks) -> None:
    """Room for some of a batch is room for none of it, and comes back."""
    queue, spool = hooks.directory / "queue/chi2801", hooks.directory / "spool"
    queue.mkdir(parents=True)
    hooks.kernel_says(KERNEL)
    for job in range(1, 91):
        (queue / f"10000.{job}.chi2801.epilog.{job}.1").write_text(
            f"slurm-triage-event=1\nkind=epilog\nhost=chi2801\nSLURM_JOB_ID={job}\nSLURM_JOB_NAME={'x' * 900}\nend=1\n"
        )
    carry = f"{hooks.shell} {hooks.directory}/carry-events 0 {queue} {spool} on"
    script = (
        f"mount -t tmpfs -o size=64k tmpfs {spool}; mkdir {spool}/new; {carry}; ls {spool}/new; ls {queue} | wc -l; "
        f"mount -o remount,size=1m {spool}; {carry}; ls {queue}; cp -r {spool}/new {hooks.directory}/copy"
    )
    result = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["started", "91", "started", "lock"]
    (hooks.directory / "copy").rename(hooks.directory / "spool/new/copied")
    (file,) = (hooks.directory / "spool/new/copied").iterdir()
    assert len(parse_file(file.read_bytes()).events) == 90


@pytest.mark.parametrize("name", [" i/oerror.node/", "zzz.node/", "x.node", "end=1", "slurm-triage-event=1"])
def test_what_the_kernel_says_last_changes_nothing(hooks: Hooks, name: str) -> None:
    """A user chooses the name of his program, which the kernel tells."""
    hooks.kernel_says(f"{KERNEL}[ 5004.000123] traps: segfault at 0 ip 0 sp 0 error 4 in{name}\n")
    hooks.run(EPILOG, NODE)
    hooks.run(EPILOG, {**NODE, "SLURMD_NODENAME": "chi2802"})
    assert sorted((event.kind, len(event.kernel)) for event in hooks.carried()) == [("epilog", 5), ("node", 5)]


def test_an_event_without_a_last_newline_takes_no_other_with_it(hooks: Hooks) -> None:
    queue = hooks.directory / "queue/chi2801"
    queue.mkdir(parents=True)
    for job in (1, 2, 3):
        (queue / f"9999.{job}.chi2801.epilog.{job}.1").write_text(
            f"slurm-triage-event=1\nkind=epilog\nhost=chi2801\nSLURM_JOB_ID={job}\nend=1" + "\n" * (job != 2)
        )
    hooks.run(EPILOG, NODE)
    assert sorted(event.job_id for event in hooks.carried()) == ["1", "2", "3", "7877"]


def test_a_kernel_with_nothing_but_short_lines(hooks: Hooks) -> None:
    """64 KiB of the shortest that matter are more lines than a header may have."""
    hooks.kernel_says("".join(f"machine check{chr(97 + n % 26)}\n" for n in range(5900)))
    hooks.run(EPILOG, NODE)
    assert len(hooks.event("epilog").kernel) == 4000


def test_long_events_are_carried_in_time(hooks: Hooks) -> None:
    """Who carries them is ended after five seconds, and the next one would begin with the same ones."""
    hooks.kernel_says("Out of memory: Killed process 12\n")
    queue = hooks.directory / "queue/chi2801"
    queue.mkdir(parents=True)
    for job in range(100):
        (queue / f"1.{job}.chi2801.epilog.{job + 1}.1").write_text(
            f"slurm-triage-event=1\nkind=epilog\nhost=chi2801\nSLURM_JOB_ID={job + 1}\n"
            f"SLURM_JOB_COMMENT={chr(92)}41{'x' * 190_000}\nend=1\n"
        )
    hooks.run(EPILOG, NODE)
    assert len([event for event in hooks.carried() if event.kernel]) == 101


def test_an_event_that_is_being_written_is_left_to_its_epilog(hooks: Hooks) -> None:
    queue = hooks.directory / "queue/chi2801"
    queue.mkdir(parents=True)
    half, dead = queue / "9999.00.chi2801.epilog.1.1", queue / "9900.00.chi2801.epilog.2.1"
    dead.write_text("slurm-triage-event=1\nkind=epilog\nhost=chi2801\n")
    half.write_text("slurm-triage-event=1\nkind=epilog\nhost=chi2801\nSLURM_JOB_ID=1\n")
    hooks.run(EPILOG, NODE)
    until = time.monotonic() + 10.0
    while any(queue.glob("*.7877.*")):
        assert time.monotonic() < until
        time.sleep(0.02)
    assert half.exists()
    assert not dead.exists(), "no epilog takes a minute for a few lines"
    half.write_text(half.read_text() + "end=1\n")
    hooks.run(EPILOG, {**NODE, "SLURM_JOB_ID": "7878"})
    assert sorted(event.job_id for event in hooks.carried()) == ["1", "7877", "7878"]


def test_who_is_ended_in_between_loses_nothing(hooks: Hooks) -> None:
    """What has arrived before comes again, whole; what is carried does not wait for the rest."""
    hooks.kernel_says(KERNEL)
    queue = hooks.directory / "queue/chi2801"
    queue.mkdir(parents=True)
    for job in range(1, 251):
        (queue / f"1.{job}.chi2801.epilog.{job}.1").write_text(
            f"slurm-triage-event=1\nkind=epilog\nhost=chi2801\nSLURM_JOB_ID={job}\nend=1\n"
        )
    killed = hooks.directory / "killed"
    # After the second batch has arrived, before it is removed.
    end = f"    [ $count -lt 200 ] || [ -e {killed} ] || {{ : >{killed}; kill -9 $$; }}\n"
    hooks.replace("carry-events", '    rm -f -- "$@"\n', f'{end}    rm -f -- "$@"\n')
    hooks.run(EPILOG, NODE)
    until = time.monotonic() + 10.0
    while not killed.exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    waiting = len(list(queue.glob("*.epilog.*.1")))
    assert waiting == 150, "the first batch is carried"
    hooks.run(EPILOG, {**NODE, "SLURM_JOB_ID": "7878"})
    events = hooks.carried()
    assert {int(event.job_id) for event in events} == {*range(1, 251), 7877, 7878}
    assert len(events) == 252 + 100, "one batch came twice"
    assert all(len(event.kernel) == 4 for event in events)


def test_a_queue_that_only_grows_is_emptied(hooks: Hooks) -> None:
    queue = hooks.directory / "queue/chi2801"
    queue.mkdir(parents=True)
    for number in range(10_000):
        (queue / f"1.{number}.chi2801.epilog.1.1").touch()
    hooks.run(EPILOG, NODE)
    assert hooks.carried() == []


@pytest.mark.parametrize("text", ["", "soon", "99999999", "-5", "1 2"])
def test_a_damaged_note_of_the_next_reading(hooks: Hooks, text: str) -> None:
    queue = hooks.directory / "queue/chi2801"
    queue.mkdir(parents=True)
    (queue / "next").write_text(text)
    hooks.run(EPILOG, NODE)
    assert [event.kind for event in hooks.carried()] == ["epilog"]


def test_in_the_jobs_own_cgroup_slurm_waits(hooks: Hooks) -> None:
    """PrologFlags=RunInJob: what the epilog leaves behind in that cgroup is killed."""
    hooks.kernel_says(KERNEL)
    (hooks.directory / "cgroup").write_text(
        "0::/system.slice/slurmstepd.scope/job_7877/step_extern/user/task_special\n"
    )
    hooks.replace("record-event", "/proc/self/cgroup", f"{hooks.directory}/cgroup")
    hooks.run(EPILOG, NODE)
    assert [(event.kind, len(event.kernel)) for event in hooks.events()] == [("epilog", 4)]
