"""The hooks by themselves, in every shell that is some system's /bin/sh: hostile values, broken spools, nothing left."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.bench.hooks import JOBCOMP_ENV
from tests.slurm.hook_files import EVERY_HOOK, HOSTILE, JOBCOMP, NODE, Hooks, events_in


@pytest.mark.parametrize("guard", ["on", "off"])
@pytest.mark.parametrize("name", ["prolog-slurmctld", "epilog-slurmctld", "50-slurm-triage"])
def test_values_arrive_as_they_are(hooks: Hooks, name: str, guard: str) -> None:
    hooks.configure(f"guard={guard}")
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
    (event,) = events_in(own)
    assert (event.job_id, event.wish) == ("9", "off")


def test_long_values_hide_no_event(hooks: Hooks) -> None:
    """All of them as long as may be, of bytes that are written as three each, and as many kernel messages as come
    along."""
    lists = re.findall(r"^ *(?:keys|free)=['\"]([^'\"]+)", (hooks.directory / "record-event").read_text(), re.MULTILINE)
    keys = [word for words in lists for word in words.split() if word.isidentifier()]
    assert len(keys) > 50
    short = {**NODE, **JOBCOMP_ENV, "SLURM_JOBID": "7877", "SLURM_JOB_STATE": "FAILED"}
    for key in ("SLURM_JOB_NAME", "SLURM_JOB_COMMENT", "SLURM_JOB_WORK_DIR", "SLURM_JOB_STDOUT", "JOBNAME"):
        del short[key]
    hooks.kernel_says("".join(f"[ 5001.000123] Out of memory: {n} {'x' * 600}\n" for n in range(105)))
    for name in EVERY_HOOK:
        hooks.run(name, {**dict.fromkeys(keys, "é" * 4096), **short})
    events = hooks.carried()
    assert sorted(event.kind for event in events) == sorted(
        ("epilog", "epilog-slurmctld", "jobcomp", "mail", "prolog-slurmctld", "task-epilog")
    )
    assert {(event.job_id, event.env["SLURM_JOB_EXIT_CODE2"], event.env["SLURM_JOB_STATE"]) for event in events} == {
        ("7877", "137:0", "FAILED")
    }
    assert [len(event.kernel) for event in events if event.kind == "epilog"] == [105]


def test_hostile_environment(hooks: Hooks) -> None:
    """What a user can put into the environment of his own TaskEpilog, and more than Slurm gives to any other hook."""
    evil = hooks.directory / "evil"
    evil.mkdir()
    for command in ("date", "tail", "rm", "od", "dmesg", "grep", "sed", "timeout", "printf", "mkdir", "sleep"):
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
    hooks.kernel_says("[ 5001.000123] Out of memory: Killed process 2 (python3) total-vm:1kB\n")
    for name in ("50-slurm-triage", "task-epilog", "epilog-slurmctld"):
        hooks.run(name, environment)
    event = hooks.event("epilog")
    assert (event.host, len(event.kernel)) == ("chi2801", 1)
    assert hooks.event("epilog").env["SLURM_JOB_NAME"] == HOSTILE
    assert not list(hooks.directory.rglob("pwned"))


def test_a_mail_is_passed_on(hooks: Hooks) -> None:
    mailer = hooks.directory / "mailer"
    mailer.write_text(f'#!/bin/sh\n{{ for word; do echo "[$word]"; done; cat; }} >{hooks.directory}/mailed; exit 5\n')
    mailer.chmod(0o755)
    hooks.configure(f"mailer={mailer}")
    subject = "Slurm Job_id=7877 Name=$(touch pwned) Failed"
    command = [str(hooks.shell), str(hooks.directory / "mail"), "-s", subject, "alice"]
    subprocess.run(command, env={"SLURM_JOB_MAIL_TYPE": "Began"}, input=b"", check=True)
    assert hooks.events() == [], "the begin of a job is no end"
    subprocess.run(command, env={"SLURM_JOB_MAIL_TYPE": "Failed"}, input=b"body", check=True)
    assert (hooks.directory / "mailed").read_text() == f"[-s]\n[{subject}]\n[alice]\nbody"
    event = hooks.event("mail")
    assert (event.job_id, event.env["SUBJECT"]) == ("7877", subject)


# ---- broken spools --------------------------------------------------------------------------------------------------


def run_every_hook(hooks: Hooks) -> None:
    for name in EVERY_HOOK:
        hooks.run(name, {**NODE, **JOBCOMP_ENV})


@pytest.mark.parametrize("state", ["missing", "file", "dangling", "no helper", "no timeout", "pipe for settings"])
def test_a_broken_spool_is_nobodys_trouble(hooks: Hooks, state: str) -> None:
    spool = hooks.directory / "spool"
    if state in ("missing", "file", "dangling"):
        shutil.rmtree(spool)
    if state == "file":
        spool.write_text("")
    if state == "dangling":
        spool.symlink_to("/no/such/place")
    if state == "no helper":
        (hooks.directory / "record-event").unlink()
    if state == "no timeout":
        hooks.configure("guard=on")
        hooks.replace("record-event", "/usr/bin/timeout", "/no/such/timeout")
    if state == "pipe for settings":
        (hooks.directory / "hook.conf").unlink()
        os.mkfifo(hooks.directory / "hook.conf")
    run_every_hook(hooks)
    assert not spool.is_dir() or hooks.events() == []


@pytest.mark.parametrize(
    "text", ["exit 7 ( ;;", "exit 7", "return 3", "set -u; : $nothing", ". /no/such/file", "if", "("]
)
def test_a_broken_helper_is_nobodys_trouble(hooks: Hooks, text: str) -> None:
    """A shell that meets an error in a file that it sources ends at once, whatever the script says next."""
    (hooks.directory / "record-event").write_text(text + "\n")
    run_every_hook(hooks)


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_a_helper_that_may_not_be_read(hooks: Hooks) -> None:
    (hooks.directory / "record-event").chmod(0)
    for name in EVERY_HOOK:
        argv = ["setpriv", "--reuid=65534", "--clear-groups", str(hooks.shell), str(hooks.directory / name)]
        result = subprocess.run(argv, env={"PATH": os.environ["PATH"]}, capture_output=True, check=False)
        assert (result.returncode, result.stdout, result.stderr) == (0, b"", b""), name


def test_no_descriptor_is_open(hooks: Hooks) -> None:
    for name in EVERY_HOOK:
        command = f"exec <&- >&- 2>&-; {hooks.shell} {hooks.directory / name}"
        assert subprocess.run(["sh", "-c", command], env={**NODE, **JOBCOMP_ENV}, check=False).returncode == 0, name
    assert {event.kind for event in hooks.carried()} >= {"epilog", "epilog-slurmctld", "jobcomp", "prolog-slurmctld"}


@pytest.mark.parametrize("name", ["prolog-slurmctld", "epilog-slurmctld", "jobcomp", "mail", "task-epilog"])
def test_what_hangs_is_ended_and_holds_nothing(hooks: Hooks, name: str) -> None:
    """As on a file system that does not answer: nobody ever writes into the pipe that is read from."""
    if name != "task-epilog":  # which never trusts a spool
        hooks.configure("guard=on")
    hooks.replace("record-event", "-s KILL 5 ", "-s KILL 1 ")
    predict(hooks)
    (hooks.directory / "uptime").unlink()
    os.mkfifo(hooks.directory / "uptime")
    duration_s, held_s = hooks.run_with_pipe(name)
    assert 0.9 < duration_s < 10.0
    assert held_s < 0.9


def test_the_last_setting_needs_no_newline(hooks: Hooks) -> None:
    conf = hooks.directory / "hook.conf"
    (hooks.directory / "spool").rename(hooks.directory / "elsewhere")
    conf.write_text(f"{conf.read_text()}spool={hooks.directory}/elsewhere")
    hooks.run("jobcomp", JOBCOMP)
    assert [event.kind for event in events_in(hooks.directory / "elsewhere")] == ["jobcomp"]


def test_a_spool_behind_a_link_is_a_spool(hooks: Hooks) -> None:
    spool = hooks.directory / "spool"
    spool.rename(hooks.directory / "elsewhere")
    spool.symlink_to("elsewhere")
    hooks.run("jobcomp", JOBCOMP)
    assert hooks.event("jobcomp")


def predict(hooks: Hooks) -> None:
    """From now on, it is known how the file of an event will be called. A node's: test_node_hook.py."""
    hooks.replace("record-event", "$$", "4242")


def test_a_link_in_the_way_is_not_followed(hooks: Hooks) -> None:
    """Names can be guessed: somebody who may write into the spool must not make root write elsewhere."""
    victim = hooks.directory / "victim"
    victim.write_text("precious")
    predict(hooks)
    for target in (victim, hooks.directory / "not-there-yet"):
        link = hooks.directory / "spool/new" / "10000.55.chi2801.epilog-slurmctld.7877.4242"
        link.symlink_to(target)
        hooks.run("epilog-slurmctld", NODE)
        assert not link.is_symlink(), "it is in nobody's way any more"
        link.unlink(missing_ok=True)
    assert victim.read_text() == "precious"
    assert not (hooks.directory / "not-there-yet").exists()


def test_a_pipe_in_the_way_keeps_nobody(hooks: Hooks) -> None:
    """A shell that opens it waits for ever, also under noclobber."""
    predict(hooks)
    pipe = hooks.directory / "spool/new/10000.55.chi2801.epilog-slurmctld.7877.4242"
    os.mkfifo(pipe)
    hooks.run("epilog-slurmctld", NODE)
    assert pipe.is_file()


@pytest.mark.parametrize("limit", ["-f 0", "-v 65536"])
def test_limits_are_nobodys_trouble(hooks: Hooks, limit: str) -> None:
    """Writing beyond the limit for files ends a process unless it says otherwise."""
    for name in EVERY_HOOK:
        command = f"ulimit {limit}; exec {hooks.shell} {hooks.directory / name}"
        result = subprocess.run(["sh", "-c", command], env={**NODE, **JOBCOMP_ENV}, capture_output=True, check=False)
        assert (result.returncode, result.stdout, result.stderr) == (0, b"", b""), name


def test_functions_in_the_environment_are_not_called(hooks: Hooks) -> None:
    """bash takes functions from there, and calls them instead of programs and of most of what it has built in."""
    shells, programs = "printf read [ umask cd", "od date rm mkdir flock dmesg grep tail sed"
    words = (*shells.split(), *programs.split())
    functions = {f"BASH_FUNC_{word}%%": f"() {{ : >{hooks.directory}/pwned; }}" for word in words}
    hooks.kernel_says("Out of memory: Killed process 12\n")
    for name in EVERY_HOOK:
        hooks.run(name, {**NODE, **JOBCOMP_ENV, **functions})
    assert {event.kind for event in hooks.carried()} >= {"epilog", "mail", "jobcomp", "prolog-slurmctld"}
    assert not (hooks.directory / "pwned").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts, and files of others, need root")
@pytest.mark.parametrize("state", ["full", "read-only", "somebody else's"])
def test_a_spool_that_takes_nothing(hooks: Hooks, state: str) -> None:
    """In a mount name space of its own; the hooks run there as a user who owns nothing."""
    spool = hooks.directory / "spool"
    setup = {
        "full": f"chmod 777 {hooks.directory}; mount -t tmpfs -o size=4k tmpfs {spool}; mkdir -m 1777 {spool}/tmp {spool}/new; "
        f"cat /dev/zero 2>/dev/null >{spool}/filler; true",
        "read-only": f"mount --bind {spool} {spool}; mount -o remount,bind,ro {spool}",
        "somebody else's": f"chmod 700 {spool}/tmp {spool}/new",
    }[state]
    user = "" if state == "full" else "setpriv --reuid=65534 --regid=65534 --clear-groups "
    commands = "".join(f"{user}{hooks.shell} {hooks.directory / name} || exit 9\n" for name in EVERY_HOOK)
    script = f"{setup} 2>/dev/null\n{commands}sleep 1\nls {spool}/tmp {spool}/new"
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        env={**NODE, **JOBCOMP_ENV, "PATH": os.environ["PATH"], "HOME": "/nonexistent"},
        text=True,
        capture_output=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"{spool}/new:\n\n{spool}/tmp:\n"
