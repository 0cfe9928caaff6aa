"""Spool files: what the real hook scripts write is read back; anything else is an error, never a crash."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_triage.service.spool_event import MAX_EVENT_BYTES, BadEventError, Event, parse

HOOKS = Path(__file__).resolve().parents[2] / "hooks"
SHELLS = [shell for shell in ("dash", "bash", "busybox", "ksh", "mksh") if shutil.which(shell)]


class Hooks:
    """Our hook scripts with a spool and a configuration of their own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.spool = directory / "spool"
        for name in ("new", "tmp"):
            (self.spool / name).mkdir(parents=True)
        for script in HOOKS.iterdir():
            if script.is_file():
                text = script.read_text().replace("/etc/slurm-triage", str(directory))
                (directory / script.name).write_text(text)
                (directory / script.name).chmod(0o755)
        (directory / "hook.conf").write_text(f"# comment\nspool={self.spool}\nsnapshot=off\n")

    def run(self, *argv: str, shell: str = "sh", **env: str) -> list[Event]:
        """The events that one run of record-event leaves."""
        command = [shell, "sh"] if shell == "busybox" else [shell]
        subprocess.run([*command, str(self.directory / "record-event"), *argv], env=env, check=True, timeout=20)
        return self.take()

    def take(self) -> list[Event]:
        events = []
        for path in sorted((self.spool / "new").iterdir()):
            events.append(parse(path.read_bytes()))
            path.unlink()
        assert list((self.spool / "tmp").iterdir()) == []
        return events


@pytest.fixture
def hooks(tmp_path: Path) -> Hooks:
    return Hooks(tmp_path)


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_writes_the_same(hooks: Hooks, shell: str) -> None:
    name = '50% \\25\n$(touch /tmp/x)`x` "q" é \x7f'
    (event,) = hooks.run(
        "epilog-slurmctld", shell=shell, SLURM_JOB_ID="12", SLURM_JOB_NAME=name, SLURM_JOB_EXIT_CODE2="3:0"
    )
    assert (event.kind, event.job_id, event.is_start) == ("epilog-slurmctld", "12", False)
    assert event.env == {"SLURM_JOB_ID": "12", "SLURM_JOB_NAME": name, "SLURM_JOB_EXIT_CODE2": "3:0"}
    assert abs(event.time - time.time()) < 60
    (comp,) = hooks.run("jobcomp", shell=shell, JOBID="13", JOBSTATE="FAILED", GID="7")
    assert (comp.job_id, comp.env["JOBSTATE"], comp.env["GID"]) == ("13", "FAILED", "7")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=300))
def test_any_value_comes_back(hooks: Hooks, text: str) -> None:
    # $(...) in sh drops trailing newlines only from a command's output, not from a variable.
    (event,) = hooks.run("epilog-slurmctld", SLURM_JOB_ID="1", SLURM_JOB_COMMENT=text)
    assert event.env.get("SLURM_JOB_COMMENT", "") == text


def test_a_value_without_end_is_left_out(hooks: Hooks) -> None:
    (event,) = hooks.run("epilog-slurmctld", SLURM_JOB_ID="1", SLURM_JOB_COMMENT="x" * 100_000)
    assert event.env == {"SLURM_JOB_ID": "1"}


@pytest.mark.parametrize(
    "nodes, host, kinds",
    [
        ("n01", "n01", ["epilog"]),
        ("n[01-03],b4", "n01", ["epilog"]),
        ("n[01-03],b4", "n02", []),
        ("n[01-03],b[4-5]", "b4", []),
        ("n01,n[05-09]", "n01", ["epilog"]),
        ("n01,n[05-09]", "n05", []),
        ("n[3,5]", "n3", ["epilog"]),
        ("n[3,5]", "n5", []),
        ("n[1-2]-ib", "n2-ib", ["epilog"]),
        ("r[1-2]n[1-4]", "r2n4", ["epilog"]),
        ("", "n1", []),
    ],
)
def test_the_first_node_reports_the_end(hooks: Hooks, nodes: str, host: str, kinds: list[str]) -> None:
    events = hooks.run("epilog", SLURM_JOB_ID="5", SLURM_JOB_NODELIST=nodes, SLURMD_NODENAME=host)
    assert [event.kind for event in events] == kinds
    # Older names of the same variable.
    events = hooks.run("epilog", SLURM_JOBID="5", SLURM_NODELIST=nodes, SLURMD_NODENAME=host)
    assert [event.kind for event in events] == kinds


KERNEL = """[  100.000000] old: Out of memory: Killed process 1 (x)
[ 1000.250000] Memory cgroup out of memory: Killed process 4242 (python3) total-vm:1kB 5\\5c \x01é
[ 1000.300000] usb 1-1: new high-speed USB device
[ 1001.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=123, GPU has fallen off the bus.
no time here: EXT4-fs error (device sda1)
"""


def fake_node(directory: Path, kernel: str) -> str:
    """Puts a text in the place of the kernel's ring buffer; the clock of that kernel stands at 2000 s."""
    (directory / "kernel.txt").write_text(kernel)
    text = (directory / "node-snapshot").read_text()
    text = text.replace("dmesg -S -s 65536 |", f"cat {directory}/kernel.txt |").replace(
        "/proc/uptime", f"{directory}/uptime"
    )
    (directory / "node-snapshot").write_text(text)
    (directory / "uptime").write_text("2000.00 1.0\n")
    (directory / "hook.conf").write_text(f"spool={directory}/spool\n")
    return text


@pytest.mark.parametrize("awk", [awk for awk in ("mawk", "gawk", "busybox", "original-awk") if shutil.which(awk)])
def test_the_kernels_messages_since_the_jobs_start(hooks: Hooks, awk: str) -> None:
    text = fake_node(hooks.directory, KERNEL)
    program = "busybox awk" if awk == "busybox" else awk
    (hooks.directory / "node-snapshot").write_text(text.replace("| awk ", f"| {program} "))
    start = str(int(time.time()) - 1100)  # the kernel's clock then: 900
    env = {"SLURM_JOB_ID": "5", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_START_TIME": start}
    (event,) = hooks.run("epilog", SLURMD_NODENAME="n2", **env)
    assert event.kind == "node"
    texts = [message.text for message in event.kernel]
    assert texts[0].startswith("Memory cgroup out of memory: Killed process 4242 (python3) total-vm:1kB 5/5c ?")
    assert texts[1:] == [
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=123, GPU has fallen off the bus.",
        "no time here: EXT4-fs error (device sda1)",
    ]
    assert [None if m.time is None else round(event.time - m.time, 2) for m in event.kernel] == [999.75, 999.0, None]


def test_without_a_start_the_last_two_days_count(hooks: Hooks) -> None:
    fake_node(hooks.directory, KERNEL)
    end, node = hooks.run("epilog", SLURM_JOB_ID="5", SLURM_JOB_NODELIST="n1", SLURMD_NODENAME="n1")
    assert (end.kind, len(end.kernel)) == ("epilog", 0)
    assert (node.kind, len(node.kernel)) == ("node", 4)


def test_a_quiet_kernel_makes_no_event(hooks: Hooks) -> None:
    fake_node(hooks.directory, KERNEL.splitlines()[2] + "\n")
    assert hooks.run("epilog", SLURM_JOB_ID="5", SLURM_JOB_NODELIST="n[1-2]", SLURMD_NODENAME="n2") == []


def test_the_snapshot_is_bounded(hooks: Hooks) -> None:
    fake_node(hooks.directory, "".join(f"[ {n}.5] Out of memory {n} {chr(92) * 5000}\n" for n in range(5000)))
    (event,) = hooks.run("epilog", SLURM_JOB_ID="5", SLURM_JOB_NODELIST="n[1-2]", SLURMD_NODENAME="n2")
    assert len(event.kernel) == 100
    assert event.kernel[-1].text.startswith("Out of memory 4999 ")
    assert max(len(message.text) for message in event.kernel) <= 600


def test_a_name_in_our_way_is_not_written_to(hooks: Hooks, tmp_path: Path) -> None:
    """Whoever guesses the temporary name can at most lose us the event."""
    script = tmp_path / "record-event"
    script.write_text(script.read_text().replace("name=$now.$host.$kind.$job.$$", "name=guessed"))
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (hooks.spool / "tmp/guessed").symlink_to(victim)
    subprocess.run(["sh", script, "jobcomp"], env={"JOBID": "1"}, check=False, timeout=20)
    assert victim.read_text() == "precious"
    assert list((hooks.spool / "new").iterdir()) == []


@pytest.mark.parametrize("kind", ["epilog-slurmctld", "prolog-slurmctld", "jobcomp", "task-epilog", "mail"])
def test_the_hooks_call_it_and_always_end_well(hooks: Hooks, kind: str) -> None:
    env = {"SLURM_JOB_ID": "9", "SLURM_PROCID": "0"}
    subprocess.run([hooks.directory / kind, "-s", "Slurm Job_id=9 Ended", "root"], env=env, check=True, timeout=20)
    (event,) = hooks.take()
    assert (event.kind, event.job_id) == (kind, "9")
    (hooks.directory / "record-event").write_text("exit 1 ( ;;")
    done = subprocess.run([hooks.directory / kind], env=env, check=True, timeout=20, capture_output=True)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_mail_is_passed_on(hooks: Hooks, tmp_path: Path) -> None:
    mailer = tmp_path / "mailer"
    mailer.write_text(f'#!/bin/sh\nprintf "%s|" "$@" > {tmp_path}/sent; cat >> {tmp_path}/sent; exit 5\n')
    mailer.chmod(0o755)
    with open(tmp_path / "hook.conf", "a") as conf:
        conf.write(f"mailer={mailer}\n")
    argv = [tmp_path / "mail", "-s", "Slurm Job_id=9 Name=a b Ended", "bob"]
    subprocess.run(argv, env={}, input=b"body", check=True, timeout=20)
    assert (tmp_path / "sent").read_text() == "-s|Slurm Job_id=9 Name=a b Ended|bob|body"
    assert [event.job_id for event in hooks.take()] == ["9"]


def test_the_begin_of_a_job_is_no_mail_event(hooks: Hooks) -> None:
    assert hooks.run("mail", "Slurm Job_id=9 Began", SLURM_JOB_MAIL_TYPE="Began") == []


def test_task_epilog_reports_once_and_into_the_users_own_spool(hooks: Hooks, tmp_path: Path) -> None:
    own = tmp_path / "state/slurm-triage/spool"
    for name in ("new", "tmp"):
        (own / name).mkdir(parents=True)
    (tmp_path / "hook.conf").write_text("spool=/no/such/spool\n")
    env = {"SLURM_JOB_ID": "9", "XDG_STATE_HOME": str(tmp_path / "state")}
    for more in ({"SLURM_PROCID": "1"}, {"SLURM_STEP_ID": "3"}):
        hooks.run("task-epilog", **env, **more)
    assert list((own / "new").iterdir()) == []
    hooks.run("task-epilog", **env, SLURM_PROCID="0")
    assert [parse(path.read_bytes()).job_id for path in (own / "new").iterdir()] == ["9"]


# ---- reading ------------------------------------------------------------------------------------------------------

GOOD = "slurm-triage-event=1\nkind=jobcomp\nhost=n1\ntime=1750000000\nJOBID=7\nend=1\n"


def test_good_event() -> None:
    event = parse(GOOD.encode())
    assert (event.kind, event.job_id, event.host, event.time) == ("jobcomp", "7", "n1", 1750000000.0)
    assert event.env == {"JOBID": "7"}
    assert event.wish is None


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda text: text.replace("end=1\n", ""), "not whole"),
        (lambda text: text[:-1], "not whole"),
        (lambda _: "", "not whole"),
        (lambda text: text.replace("event=1", "event=2"), "version 2"),
        (lambda text: text.replace("slurm-triage-event=1\n", ""), "version none"),
        (lambda text: text.replace("jobcomp", "rootkit"), "no kind"),
        (lambda text: text.replace("n1", "../../etc"), "no host"),
        (lambda text: text.replace("1750000000", "-5"), "no time"),
        (lambda text: text.replace("1750000000", "9" * 400), "no time"),
        (lambda text: text.replace("JOBID=7", "JOBID=0"), "no job"),
        (lambda text: text.replace("JOBID=7", "JOBID=7; rm -rf /"), "no job"),
        (lambda text: text.replace("JOBID=7", "JOBID=" + "7" * 11), "no job"),
        (lambda text: text.replace("JOBID=7", "no equals sign"), "not key=value"),
        (lambda text: text.replace("JOBID=7", "JOBID=7\r"), "not key=value"),
        (lambda text: text.replace("JOBID=7", "JOBID=7\x1b[2J"), "not key=value"),
        (lambda text: text.replace("JOBID=7", "JOBID=7\0"), "not key=value"),
        (lambda text: text.replace("JOBID=7", "JOBID=7é"), "not plain ASCII"),
        (lambda text: text.replace("JOBID=7", "X=1\n" * 300 + "JOBID=7"), "lines"),
        (lambda text: text.replace("JOBID=7", "X=" + "1" * MAX_EVENT_BYTES), "bytes"),
    ],
)
def test_bad_events_say_what_is_wrong(change: Callable[[str], str], message: str) -> None:
    with pytest.raises(BadEventError, match=message):
        parse(change(GOOD).encode())


def test_the_first_of_two_values_counts() -> None:
    assert parse(GOOD.replace("JOBID=7", "JOBID=7\nJOBID=8").encode()).job_id == "7"


def test_wish() -> None:
    for wish in ("on", "off", "watch"):
        assert parse(GOOD.replace("end=1", f"SPANK_SLURM_TRIAGE={wish}\nend=1").encode()).wish == wish
    assert parse(GOOD.replace("end=1", "SPANK_SLURM_TRIAGE=format-disk\nend=1").encode()).wish is None


@given(st.binary(max_size=2000))
def test_no_bytes_crash_the_reader(data: bytes) -> None:
    with pytest.raises(BadEventError):
        parse(data)


@given(st.lists(st.tuples(st.sampled_from(["kernel", "uptime", "time", "JOBID", "SLURM_JOB_ID", "x"]), st.text())))
def test_no_values_crash_the_reader(pairs: list[tuple[str, str]]) -> None:
    body = "".join(f"{key}={value}\n" for key, value in pairs)
    try:
        event = parse(GOOD.replace("end=1\n", body + "end=1\n").encode(errors="replace"))
    except BadEventError:
        return
    assert event.job_id == "7" or "SLURM_JOB_ID" in event.env
    assert os.sep not in event.host
