"""The hooks by themselves, in every shell that is some system's /bin/sh: hostile values, broken spools, nothing left."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_triage.service.spool_event import Event, KernelMessage, parse
from tests.bench.hooks import JOBCOMP_ENV, install

#: What /bin/sh is on Debian; on Alpine and in initramfs images; on the Red Hat family and SUSE.
SHELLS = ("dash", "busybox", "bash", *filter(shutil.which, ("ksh", "mksh")))

HOSTILE = "a|b;$(touch pwned)`touch pwned`\n\"c\" 'd' \\e é%s%j\t\x1b[31m *"
CONTROLLER = {
    "SLURM_JOB_ID": "7877",
    "SLURM_JOB_NAME": HOSTILE,
    "SLURM_JOB_USER": "alice",
    "SLURM_JOB_UID": "2001",
    "SLURM_JOB_COMMENT": "x" * 9000,
    "SLURM_JOB_WORK_DIR": "/home/alice/$(touch pwned)/ü",
    "SLURM_JOB_STDOUT": "-n %x\\n-%j.out",
    "SLURM_JOB_NODELIST": "chi[2801-2816]",
    "SLURM_JOB_EXIT_CODE2": "137:0",
}
NODE = {**CONTROLLER, "SLURMD_NODENAME": "chi2801", "SLURM_SCRIPT_CONTEXT": "epilog_slurmd"}
JOBCOMP = {**JOBCOMP_ENV, "JOBNAME": HOSTILE}

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


@dataclass(frozen=True)
class Hooks:
    """Hooks in ``directory``, all of them run by ``shell``."""

    directory: Path
    shell: Path

    def command(self, name: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Slurm runs hooks in a process group of their own, and kills that afterwards."""
        return subprocess.Popen(
            [self.shell, self.directory / name],
            env=env,
            cwd=self.directory / "cwd",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def run(self, name: str, env: Mapping[str, str]) -> None:
        """Whatever is broken: status 0, and not a word."""
        process = self.command(name, env)
        output, _ = process.communicate(timeout=20)
        assert (process.returncode, output) == (0, b"")
        assert list((self.directory / "cwd").iterdir()) == []

    def events(self) -> list[Event]:
        return [parse(path.read_bytes()) for path in sorted((self.directory / "spool/new").iterdir())]

    def event(self, kind: str) -> Event:
        """The only event of its kind. A node's comes when the hook is over already."""
        until = time.monotonic() + 10.0
        while not (found := [event for event in self.events() if event.kind == kind]):
            assert time.monotonic() < until, f"no {kind} event"
            time.sleep(0.02)
        (event,) = found
        return event

    def replace(self, name: str, old: str, new: str) -> None:
        path = self.directory / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def kernel_says(self, text: str) -> None:
        (self.directory / "kernel").write_bytes(text.encode("latin-1"))


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user may enter (pytest's own belong to the caller alone)."""
    directory = Path(tempfile.mkdtemp(prefix="slurm-triage-test-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(params=SHELLS)
def hooks(request: pytest.FixtureRequest, place: Path) -> Hooks:
    binary = shutil.which(request.param)
    if binary is None:
        pytest.skip(f"{request.param} is not installed")
    install(place)
    # Called as "sh", bash and busybox become POSIX shells.
    (place / "bin").mkdir()
    shell = place / "bin/sh"
    shell.symlink_to(binary)
    (place / "cwd").mkdir()
    for path in place.iterdir():
        if path.is_file():
            path.write_text(path.read_text().replace("/bin/sh", str(shell)))
    found = Hooks(place, shell)
    found.kernel_says("")
    found.replace("node-snapshot", "dmesg -S -s 65536", f"cat {place}/kernel")
    (place / "uptime").write_text("10000.55 1.00\n")
    found.replace("node-snapshot", "/proc/uptime", f"{place}/uptime")
    return found


@pytest.mark.parametrize("name", ["prolog-slurmctld", "epilog-slurmctld", "50-slurm-triage"])
def test_values_arrive_as_they_are(hooks: Hooks, name: str) -> None:
    hooks.run(name, NODE)
    event = hooks.event("epilog" if name.startswith("50") else name)
    assert event.job_id == "7877"
    assert event.host == "chi2801"
    assert abs(event.time - time.time()) < 60
    # A value of more than 8 KiB is left out.
    assert dict(event.env) == {key: NODE[key] for key in NODE if key not in ("SLURMD_NODENAME", "SLURM_JOB_COMMENT")}
    assert list((hooks.directory / "spool/tmp").iterdir()) == []


def test_values_of_jobcomp(hooks: Hooks) -> None:
    hooks.run("jobcomp", JOBCOMP)
    # bash has a UID of its own, and so cannot say.
    wanted = {key: value for key, value in JOBCOMP.items() if key != "UID" or hooks.shell.resolve().name != "bash"}
    assert dict(hooks.event("jobcomp").env) == wanted


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=300))
def test_any_value_comes_back(hooks: Hooks, text: str) -> None:
    # $(...) in sh drops trailing newlines only from a command's output, not from a variable.
    hooks.run("epilog-slurmctld", {"SLURM_JOB_ID": "1", "SLURM_JOB_COMMENT": text})
    assert hooks.event("epilog-slurmctld").env.get("SLURM_JOB_COMMENT", "") == text
    shutil.rmtree(hooks.directory / "spool/new")
    (hooks.directory / "spool/new").mkdir()


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
        hooks.run("50-slurm-triage", {"SLURM_JOBID": "5", name: nodes, "SLURMD_NODENAME": host})
    assert [event.kind for event in hooks.events()] == ["epilog", "epilog"] * reports


def test_the_users_own_spool(hooks: Hooks) -> None:
    """TaskEpilog runs for every task of every step; the first task of the batch script or of the first step reports."""
    own = hooks.directory / "state/slurm-triage/spool"
    for name in ("new", "tmp"):
        (own / name).mkdir(parents=True)
    (hooks.directory / "hook.conf").write_text("spool=/no/such/spool\n")
    env = {"SLURM_JOB_ID": "9", "XDG_STATE_HOME": str(hooks.directory / "state"), "SLURM_TRIAGE": "off"}
    for more in ({"SLURM_PROCID": "1"}, {"SLURM_STEP_ID": "3"}):
        hooks.run("task-epilog", {**env, **more})
    assert list((own / "new").iterdir()) == []
    hooks.run("task-epilog", {**env, "SLURM_PROCID": "0"})
    (event,) = [parse(path.read_bytes()) for path in (own / "new").iterdir()]
    assert (event.job_id, event.wish) == ("9", "off")


def test_hostile_environment(hooks: Hooks) -> None:
    """What a user can put into the environment of his own TaskEpilog, and more than Slurm gives to any other hook."""
    evil = hooks.directory / "evil"
    evil.mkdir()
    for command in ("date", "mv", "rm", "od", "dmesg", "grep", "tr", "timeout", "printf"):
        (evil / command).write_text(f"#!/bin/sh\ntouch {hooks.directory}/pwned\n")
        (evil / command).chmod(0o755)
    (evil / "rc").write_text(f"touch {hooks.directory}/pwned\n")
    environment = {
        **NODE,
        "PATH": str(evil),
        "IFS": "/0123456789=",
        "ENV": f"{evil}/rc",
        "BASH_ENV": f"{evil}/rc",
        "PS4": "$(touch pwned)",
        "CDPATH": "/",
        "LC_ALL": "C.UTF-8",
        "EPOCHSECONDS": "$(touch pwned)",
        "kind": "jobcomp",
        "spool": "/tmp",
        "here": str(evil),
        "now": "yesterday",
        "host": "x/../../y",
        **{f"BIG_{number}": "x" * 120_000 for number in range(9)},
    }
    hooks.kernel_says(KERNEL)
    for name in ("50-slurm-triage", "task-epilog", "epilog-slurmctld"):
        hooks.run(name, environment)
    assert hooks.event("node").host == "chi2801"
    assert hooks.event("epilog").env["SLURM_JOB_NAME"] == HOSTILE
    assert not list(hooks.directory.rglob("pwned"))


def test_a_mail_is_passed_on(hooks: Hooks) -> None:
    mailer = hooks.directory / "mailer"
    mailer.write_text(f'#!/bin/sh\n{{ for word; do echo "[$word]"; done; cat; }} >{hooks.directory}/mailed; exit 5\n')
    mailer.chmod(0o755)
    with open(hooks.directory / "hook.conf", "a") as conf:
        conf.write(f"mailer={mailer}\n")
    subject = "Slurm Job_id=7877 Name=$(touch pwned) Failed"
    command = [str(hooks.shell), str(hooks.directory / "mail"), "-s", subject, "alice"]
    subprocess.run(command, env={"SLURM_JOB_MAIL_TYPE": "Began"}, input=b"", check=True)
    assert hooks.events() == [], "the begin of a job is no end"
    subprocess.run(command, env={"SLURM_JOB_MAIL_TYPE": "Failed"}, input=b"body", check=True)
    assert (hooks.directory / "mailed").read_text() == f"[-s]\n[{subject}]\n[alice]\nbody"
    event = hooks.event("mail")
    assert (event.job_id, event.env["SUBJECT"]) == ("7877", subject)


# ---- what the kernel said -------------------------------------------------------------------------------------------


def test_kernel_messages_of_the_job(hooks: Hooks) -> None:
    hooks.kernel_says(KERNEL)
    started = str(int(time.time()) - 6000)
    hooks.run("50-slurm-triage", {**NODE, "SLURM_JOB_START_TIME": started, "SLURMD_NODENAME": "chi2802"})
    event = hooks.event("node")
    assert [message.text for message in event.kernel] == [
        "Out of memory: Killed process 2 (python3) total-vm:1kB",
        ("NVRM: Xid (PCI:0000:01:00): 79, pid=1, " + "x" * 700)[: 600 - len("[ 5002.000123] ")],
        "segfault at 0 by a/x1b[31m?name ?",
    ]
    assert event.kernel[0].time == pytest.approx(event.time - 10000.55 + 5001.000123)
    assert dict(event.env)["SLURM_JOB_NAME"] == HOSTILE, "escapes are whole in a node's event, too"
    assert [event.kind for event in hooks.events()] == ["node"], "chi2802 is not the batch host"


def test_at_most_the_last_hundred_messages(hooks: Hooks) -> None:
    hooks.kernel_says("".join(f"[{n:5d}.0] Out of memory: {n} {chr(92) * 5000}\n" for n in range(9000, 9300)))
    hooks.run("50-slurm-triage", NODE)
    texts = [message.text for message in hooks.event("node").kernel]
    assert [text.split("/")[0] for text in texts] == [f"Out of memory: {n} " for n in range(9200, 9300)]
    assert {len(text) for text in texts} == {600 - len("[ 9200.0] ")}


def test_a_quiet_kernel_makes_no_event(hooks: Hooks) -> None:
    hooks.kernel_says(KERNEL.splitlines()[1] + "\n")
    hooks.replace("node-snapshot", "newline=", f"trap 'echo >{hooks.directory}/done' EXIT\nnewline=")
    hooks.run("50-slurm-triage", {**NODE, "SLURMD_NODENAME": "chi2802"})
    until = time.monotonic() + 10.0
    while not (hooks.directory / "done").exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert hooks.events() == []


def test_a_kernel_that_prints_no_times(hooks: Hooks) -> None:
    hooks.kernel_says("Out of memory: Killed process 12. [  1.0] later\n")
    hooks.run("50-slurm-triage", NODE)
    assert hooks.event("node").kernel == (KernelMessage(None, "Out of memory: Killed process 12. [  1.0] later"),)


def test_snapshots_can_be_switched_off(hooks: Hooks) -> None:
    hooks.kernel_says(KERNEL)
    with open(hooks.directory / "hook.conf", "a") as conf:
        conf.write("snapshot=off\n")
    hooks.replace("node-snapshot", "newline=", f"echo run >{hooks.directory}/snapshot-ran\nnewline=")
    hooks.run("50-slurm-triage", NODE)
    time.sleep(0.3)
    assert [event.kind for event in hooks.events()] == ["epilog"]
    assert not (hooks.directory / "snapshot-ran").exists()


# ---- Slurm does not wait, and nothing stays behind ------------------------------------------------------------------


def run_with_pipe(hooks: Hooks, name: str) -> tuple[float, float]:
    """Seconds until the hook is over, and from then on until nobody holds a descriptor that it inherited."""
    read, write = os.pipe()
    started = time.monotonic()
    process = subprocess.Popen(
        [hooks.shell, hooks.directory / name],
        env=NODE,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=write,
        stderr=write,
        close_fds=False,
        preexec_fn=lambda: os.dup2(write, 9) and None,
    )
    os.close(write)
    assert process.wait(20.0) == 0
    over = time.monotonic()
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == b""
    return over - started, time.monotonic() - over


@pytest.mark.parametrize("name", ["epilog-slurmctld", "50-slurm-triage"])
def test_what_hangs_is_killed_and_holds_nothing(hooks: Hooks, name: str) -> None:
    """As on a file system that does not answer: nobody ever writes into this pipe."""
    (hooks.directory / "hook.conf").unlink()
    os.mkfifo(hooks.directory / "hook.conf")
    hooks.replace(name, "-s KILL 5 ", "-s KILL 1 ")
    duration_s, held_s = run_with_pipe(hooks, name)
    assert 0.9 < duration_s < 10.0
    assert held_s < 0.9


def test_slurm_does_not_wait_for_the_kernels_messages(hooks: Hooks) -> None:
    (hooks.directory / "node-snapshot").write_text(f"echo $$ >{hooks.directory}/pid\nexec sleep 100\n")
    duration_s, held_s = run_with_pipe(hooks, "50-slurm-triage")
    assert hooks.event("epilog").job_id == "7877"
    assert duration_s + held_s < 4.5, "five seconds are the limit of what hangs"
    until = time.monotonic() + 15.0
    while not (pid_file := hooks.directory / "pid").exists() or Path(f"/proc/{pid_file.read_text().strip()}").exists():
        assert time.monotonic() < until, "what hangs is ended"
        time.sleep(0.05)


def test_the_snapshot_survives_the_end_of_the_hooks_process_group(hooks: Hooks) -> None:
    """slurmd kills what is left of the hook's process group as soon as the hook is over."""
    hooks.kernel_says(KERNEL)
    hooks.replace("node-snapshot", "newline=", "sleep 0.5\nnewline=")
    process = hooks.command("50-slurm-triage", NODE)
    assert process.wait(20.0) == 0
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    assert not [event for event in hooks.events() if event.kind == "node"]
    assert hooks.event("node").kernel


def test_in_the_jobs_own_cgroup_slurm_waits(hooks: Hooks) -> None:
    """PrologFlags=RunInJob: what the epilog leaves behind in that cgroup is killed."""
    hooks.kernel_says(KERNEL)
    (hooks.directory / "cgroup").write_text(
        "0::/system.slice/slurmstepd.scope/job_7877/step_extern/user/task_special\n"
    )
    hooks.replace("record-event", "/proc/self/cgroup", f"{hooks.directory}/cgroup")
    hooks.run("50-slurm-triage", NODE)
    assert [event.kind for event in hooks.events()] == ["epilog", "node"]


# ---- broken spools --------------------------------------------------------------------------------------------------

EVERY_HOOK = ("prolog-slurmctld", "epilog-slurmctld", "jobcomp", "mail", "task-epilog", "50-slurm-triage")


def run_every_hook(hooks: Hooks) -> None:
    for name in EVERY_HOOK:
        hooks.run(name, {**NODE, **JOBCOMP_ENV})


@pytest.mark.parametrize("state", ["missing", "file", "dangling", "no tmp", "tmp is a file", "no helper", "no timeout"])
def test_a_broken_spool_is_nobodys_trouble(hooks: Hooks, state: str) -> None:
    spool = hooks.directory / "spool"
    if state in ("missing", "file", "dangling"):
        shutil.rmtree(spool)
    if state == "file":
        spool.write_text("")
    if state == "dangling":
        spool.symlink_to("/no/such/place")
    if state in ("no tmp", "tmp is a file"):
        (spool / "tmp").rmdir()
    if state == "tmp is a file":
        (spool / "tmp").write_text("")
    if state == "no helper":
        (hooks.directory / "record-event").unlink()
    if state == "no timeout":
        for name in EVERY_HOOK:
            hooks.replace(name, "/usr/bin/timeout", "/no/such/timeout")
    run_every_hook(hooks)
    assert not spool.is_dir() or hooks.events() == []


def test_a_spool_behind_a_link_is_a_spool(hooks: Hooks) -> None:
    spool = hooks.directory / "spool"
    spool.rename(hooks.directory / "elsewhere")
    spool.symlink_to("elsewhere")
    hooks.run("jobcomp", JOBCOMP)
    assert hooks.event("jobcomp")


def test_a_link_in_the_way_is_not_followed(hooks: Hooks) -> None:
    """Names in tmp/ can be guessed: somebody who may write there must not make root write elsewhere."""
    victim = hooks.directory / "victim"
    victim.write_text("precious")
    hooks.replace("record-event", "$$", "4242")
    hooks.replace("record-event", "now=${EPOCHSECONDS-}", "now=1750000000")
    name = "1750000000.chi2801.epilog-slurmctld.7877.4242"
    for target in (victim, hooks.directory / "not-there-yet"):
        link = hooks.directory / "spool/tmp" / name
        link.symlink_to(target)
        hooks.run("epilog-slurmctld", NODE)
        link.unlink(missing_ok=True)
    assert victim.read_text() == "precious"
    assert not (hooks.directory / "not-there-yet").exists()
    assert hooks.events() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts, and files of others, need root")
@pytest.mark.parametrize("state", ["full", "read-only", "somebody else's"])
def test_a_spool_that_takes_nothing(hooks: Hooks, state: str) -> None:
    """In a mount name space of its own; the hooks run there as a user who owns nothing."""
    spool = hooks.directory / "spool"
    setup = {
        "full": f"mount -t tmpfs -o size=4k tmpfs {spool}; mkdir -m 1777 {spool}/tmp {spool}/new; "
        f"cat /dev/zero 2>/dev/null >{spool}/filler; true",
        "read-only": f"mount --bind {spool} {spool}; mount -o remount,bind,ro {spool}",
        "somebody else's": f"chmod 700 {spool}/tmp {spool}/new",
    }[state]
    user = "" if state == "full" else "setpriv --reuid=65534 --regid=65534 --clear-groups "
    commands = "".join(f"{user}{hooks.shell} {hooks.directory / name} || exit 9\n" for name in EVERY_HOOK)
    script = f"{setup} 2>/dev/null\n{commands}sleep 0.5\nls {spool}/tmp {spool}/new"
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        env={**NODE, **JOBCOMP_ENV, "PATH": os.environ["PATH"], "HOME": "/nonexistent"},
        text=True,
        capture_output=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"{spool}/new:\n\n{spool}/tmp:\n"
