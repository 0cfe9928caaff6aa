"""Our hooks on a real cluster: what they report of each way a job can end, and that nothing they meet hurts Slurm."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from slurm_triage.slurm import hook_env
from tests.cluster.cluster import Cluster
from tests.cluster.config import NO_OP
from tests.cluster.processes import ClusterError
from tests.slurm.played import Played, install_hooks, read_spool

CONTROLLER_KINDS = ("epilog-slurmctld", "jobcomp")

#: Scenarios whose jobs got a node, so that there is an epilog.
STARTED = ("success", "exit-3", "batch-killed", "cancelled", "time-limit", "two-nodes", "output-name-too-long", "array")


def test_every_end_is_reported_by_the_controller(played: Played) -> None:
    for name, job_id in played.ids.items():
        kinds = {event.kind for event in played.events if event.job_id == job_id}
        assert "jobcomp" in kinds, name
        assert ("epilog-slurmctld" in kinds) == (name != "cancelled-pending"), name


def test_every_run_is_reported(played: Played) -> None:
    for name in ("requeued", "preempted"):
        for kind in (*CONTROLLER_KINDS, "epilog"):
            assert len(played.events_of(name, kind)) == 2, (name, kind)


def test_a_start_is_reported(played: Played) -> None:
    for name in STARTED:
        (start, *_) = played.events_of(name, "prolog-slurmctld")
        assert start.is_start
    assert played.events_of("cancelled-pending", "prolog-slurmctld") == []


def test_the_batch_host_reports_the_end_and_the_others_only_kernel_messages(played: Played) -> None:
    for name in STARTED:
        hosts = [event.host for event in played.events_of(name, "epilog")]
        assert hosts == ["node01"], name
    for event in played.events:
        assert event.kind != "node" or event.kernel, "a node without messages has nothing to report"


def test_the_exit_code_is_the_true_one(played: Played) -> None:
    for name, code, signal in (
        ("exit-3", 3, None),
        ("exit-137", 137, None),
        ("exit-200", 200, None),
        ("batch-killed", 0, 11),
        ("output-name-too-long", 0, 53),
    ):
        for kind in ("epilog", *CONTROLLER_KINDS):
            (event,) = played.events_of(name, kind)
            job = hook_env.job(event.env)
            assert (job.exit_code, job.exit_signal) == (code, signal), (name, kind)


def test_a_hostile_job_name_arrives_as_it_is(played: Played) -> None:
    for kind in CONTROLLER_KINDS:
        (event,) = played.events_of("hostile-name", kind)
        # Slurm itself turns double quotes into backticks in accounting, not here (22.05).
        assert (hook_env.job(event.env).name or "").replace("`", '"') == 'a|b;$(touch /tmp/x) "c"\nd é%j'
    assert not played.cluster.path("/tmp/x").exists()


def test_mail_is_an_end_event_too(played: Played) -> None:
    (event,) = played.events_of("exit-3", "mail")
    assert hook_env.job(event.env).state == "FAILED"


def test_the_users_own_task_epilog_reports(played: Played) -> None:
    (event,) = played.events_of("exit-3", "task-epilog")
    assert hook_env.job(event.env).user == "alice"


def test_the_kernels_out_of_memory_kills_are_in_the_snapshot(played: Played) -> None:
    if "oom-batch" in played.skipped:
        pytest.skip(played.skipped["oom-batch"])
    job_id = played.ids["oom-batch"]
    (event,) = played.events_of("oom-batch", "epilog")
    mine = [message for message in event.kernel if f"/job_{job_id}/" in message.text]
    assert any("oom-kill:" in message.text and "task=python3" in message.text for message in mine)
    killed = [message for message in event.kernel if "Killed process" in message.text]
    assert killed
    # Kernel clocks drift against the wall clock by less than a second a day.
    assert all(message.time is not None and abs(message.time - event.time) < 86400 for message in mine)


def test_no_node_was_drained_by_us(played: Played) -> None:
    assert played.cluster.drained() == {}


def test_no_user_ends_the_shell_of_a_hook(played: Played) -> None:
    """dash is over before a script's first line, with status 2, where OPTIND is no number or fewer than twelve files may
    be open. A user's environment and limits reach his own TaskEpilog, whose status counts for nothing, and no other."""
    cluster = played.cluster
    argv = ["prlimit", "--nofile=11:", "sbatch", "--parsable", "--mail-type=END,FAIL", "-o", "limited.out"]
    env = {"OPTIND": "none", "SPANK_OPTIND": "none"}
    script = "#!/bin/sh\nexit 0\n"
    job_id = cluster.run(argv, user="alice", cwd=cluster.home("alice"), env=env, stdin=script).stdout.strip()
    assert cluster.wait(job_id) == {job_id: "FAILED"}
    log = cluster.path(cluster.home("alice") / "limited.out").read_text()
    assert "OPTIND" in log or "Illegal number: none" in log, "the user's own shell has met it"
    wanted = {"epilog", "mail", "prolog-slurmctld", *CONTROLLER_KINDS}

    def kinds() -> set[str]:
        spool = cluster.dir / "triage-spool"
        return {event.kind for event in read_spool(spool) if event.job_id == job_id} - {"node"}

    with contextlib.suppress(ClusterError):
        cluster.wait_for("events of every hook", lambda: kinds() >= wanted, 30.0)
    assert kinds() == wanted, "all but TaskEpilog, which the user has made useless himself"
    assert cluster.drained() == {}


#: Runs a hook under another name beside it, and writes down for how long and with what status.
TIMED = """#!/bin/bash
began=$EPOCHREALTIME
@HOOK@
status=$?
ended=$EPOCHREALTIME
echo "$((10#${ended/./} - 10#${began/./})) $status" >>@TIMES@
exit $status
"""


@pytest.mark.usefixtures("spool")
@pytest.mark.parametrize("name", ["epilog.d/50-slurm-triage", *CONTROLLER_KINDS, "prolog-slurmctld"])
def test_what_slurm_waits_for_is_soon_over(
    played: Played, name: str, record_property: Callable[[str, object], None]
) -> None:
    """How long the hooks take where Slurm starts them; shown at the end of the run. tests/bench/hooks.py compares them
    with an empty script. The bound is what would be noticed: a hook that waits for anything."""
    cluster = played.cluster
    hook, inside = cluster.dir / "hooks" / name, f"{cluster.layout.inside}/hooks"
    real, times = f"timed-{hook.name}", cluster.dir / "hooks/times"
    text = TIMED.replace("@HOOK@", f"{inside}/{real}").replace("@TIMES@", f"{inside}/times")
    times.touch()
    times.chmod(0o666)
    cluster.set_hooks({real: hook, name: text})
    try:
        array = cluster.submit("bob", "exit 0", "-a", "1-20", "-o", "/dev/null", "--mem=10")
        cluster.wait(array)
        cluster.wait_for("times of all hooks", lambda: len(times.read_text().splitlines()) >= 20, 30.0)
        took, statuses = zip(*(map(int, line.split()) for line in times.read_text().splitlines()), strict=True)
    finally:
        install_hooks(cluster)
        times.unlink()
        (cluster.dir / "hooks" / real).unlink()
    assert set(statuses) == {0}
    milliseconds = sorted(us / 1000 for us in took)
    record_property(
        "hook",
        f"{hook.name} on Slurm {cluster.version}: median {milliseconds[10]:.1f} ms, most {milliseconds[-1]:.1f} ms",
    )
    assert milliseconds[10] < 500.0


# ---- broken in every way ------------------------------------------------------------------------------------------


@pytest.fixture
def spool(played: Played) -> Iterator[Path]:
    """The spool, emptied; hooks and spool are set up anew afterwards."""
    directory = played.cluster.dir / "triage-spool"
    for path in (directory / "new").iterdir():
        path.unlink()
    yield directory
    install_hooks(played.cluster)


def run_jobs(cluster: Cluster, user: str = "alice") -> dict[str, str]:
    """Jobs on every node at once; returns their states."""
    every = cluster.submit(user, "exit 0", "-N", str(len(cluster.layout.nodes)), "-o", "/dev/null")
    fails = cluster.submit(user, "exit 5", "-o", "/dev/null")
    states = cluster.wait(every, fails, timeout_s=60.0)
    cluster.wait_for("nodes idle after the jobs", lambda: set(cluster.node_states().values()) <= {"idle"}, 60.0)
    return {"every": states[every], "fails": states[fails]}


def on_all(cluster: Cluster, *argv: str) -> None:
    """Run a command where slurmctld and where each slurmd sees the file system."""
    cluster.run(argv)
    for node in cluster.layout.nodes:
        cluster.on_node(node, *argv)


def missing_spool(cluster: Cluster, spool: Path) -> None:
    del cluster
    spool.rename(spool.with_name("elsewhere"))


def spool_is_a_file(cluster: Cluster, spool: Path) -> None:
    missing_spool(cluster, spool)
    spool.write_text("not a directory")


def spool_is_a_dangling_link(cluster: Cluster, spool: Path) -> None:
    missing_spool(cluster, spool)
    spool.symlink_to("/no/such/place")


def wrong_owner(cluster: Cluster, spool: Path) -> None:
    for name in ("new", "tmp"):
        (spool / name).chmod(0o700)
    cluster.run(["chown", "-R", "bob:", f"{cluster.layout.inside}/triage-spool"])


def half_a_spool(cluster: Cluster, spool: Path) -> None:
    del cluster
    (spool / "tmp").rmdir()


def full_disk(cluster: Cluster, spool: Path) -> None:
    del spool
    inside = f"{cluster.layout.inside}/triage-spool"
    on_all(cluster, "mount", "-t", "tmpfs", "-o", "size=16k,mode=755", "tmpfs", inside)
    script = f"mkdir -m 1777 {inside}/new {inside}/tmp; head -c 16384 /dev/zero > {inside}/filler; true"
    on_all(cluster, "sh", "-c", script)


def read_only(cluster: Cluster, spool: Path) -> None:
    del spool
    inside = f"{cluster.layout.inside}/triage-spool"
    on_all(cluster, "mount", "--bind", inside, inside)
    on_all(cluster, "mount", "-o", "remount,bind,ro", inside)


def no_configuration(cluster: Cluster, spool: Path) -> None:
    missing_spool(cluster, spool)
    (cluster.dir / "etc/hook.conf").unlink()


def garbage_configuration(cluster: Cluster, spool: Path) -> None:
    del spool
    (cluster.dir / "etc/hook.conf").write_bytes(b"\x00\xff$(touch /tmp/pwned)\nspool=$(exit 3)`exit 4`\nspool\n=\n")


def hanging_configuration(cluster: Cluster, spool: Path) -> None:
    """Nobody ever writes into this pipe: whoever reads it waits, as on a hung file system."""
    del spool
    (cluster.dir / "etc/hook.conf").unlink()
    cluster.run(["mkfifo", "-m", "644", f"{cluster.layout.inside}/etc/hook.conf"])


def helper_is_missing(cluster: Cluster, spool: Path) -> None:
    del spool
    (cluster.dir / "hooks/record-event").unlink()


def helper_is_broken(cluster: Cluster, spool: Path) -> None:
    del spool
    (cluster.dir / "hooks/record-event").write_text("exit 7 ( ;;")


def carrier_hangs(cluster: Cluster, spool: Path) -> None:
    del spool
    (cluster.dir / "hooks/carry-events").write_text("echo started\nexec sleep 100\n")


@pytest.mark.parametrize(
    "break_it, reported",
    [
        (missing_spool, False),
        (spool_is_a_file, False),
        (spool_is_a_dangling_link, False),
        (wrong_owner, None),
        (half_a_spool, True),
        (full_disk, False),
        (read_only, False),
        (no_configuration, False),
        (garbage_configuration, False),
        (hanging_configuration, False),
        (helper_is_missing, False),
        (helper_is_broken, False),
        (carrier_hangs, True),
    ],
)
def test_nothing_broken_hurts_slurm(
    played: Played, spool: Path, break_it: Callable[[Cluster, Path], None], reported: bool | None
) -> None:
    cluster = played.cluster
    break_it(cluster, spool)
    try:
        assert run_jobs(cluster) == {"every": "COMPLETED", "fails": "FAILED"}
        assert cluster.drained() == {}
    finally:
        undo(cluster, spool)
    if reported is not None:
        # What the nodes have queued comes when the spool is back.
        assert any(event.kind in CONTROLLER_KINDS for event in read_spool(spool)) == reported


def undo(cluster: Cluster, spool: Path) -> None:
    inside = f"{cluster.layout.inside}/triage-spool"
    for node in cluster.layout.nodes:
        cluster.on_node(node, "umount", inside, check=False)
    cluster.run(["umount", inside], check=False)
    elsewhere = spool.with_name("elsewhere")
    if elsewhere.exists():
        if spool.is_symlink() or spool.is_file():
            spool.unlink()
        elsewhere.rename(spool)
    (cluster.dir / "etc/hook.conf").unlink(missing_ok=True)
    cluster.run(["chown", "-R", "root:", inside])
    install_hooks(cluster)


def test_a_site_script_that_fails_drains_and_is_not_ours(played: Played) -> None:
    """The test above can fail: this is what a bad epilog does."""
    cluster = played.cluster
    cluster.set_hooks({"epilog.d/40-bad": "#!/bin/sh\nexit 1\n"})
    job_id = cluster.submit("alice", "true", "-w", "node02", "-o", "/dev/null")
    cluster.wait(job_id)
    cluster.wait_for("node drained", lambda: "node02" in cluster.drained(), 30.0)
    cluster.set_hooks({"epilog.d/40-bad": NO_OP})
    cluster.resume("node02")
    cluster.wait_for("all nodes idle", cluster.all_idle, 30.0)


def test_events_are_whole_whatever_happens_at_once(played: Played, spool: Path) -> None:
    """Many jobs ending together: one event per hook and job, no temporary file left."""
    cluster = played.cluster
    array = cluster.submit("bob", "exit 0", "-a", "1-40", "-o", "/dev/null", "--mem=10")
    cluster.wait(array)
    cluster.wait_for("all nodes idle", cluster.all_idle, 60.0)
    ids = sorted(cluster.sacct("-nPX", "-j", array, "-o", "jobidraw").split())
    assert len(ids) == 40

    def of(kind: str) -> list[str]:
        # Other jobs' events may come late.
        return sorted(event.job_id for event in read_spool(spool) if event.kind == kind and event.job_id in ids)

    def all_there(kind: str) -> bool:
        return len(of(kind)) >= 40

    for kind in ("epilog", *CONTROLLER_KINDS, "prolog-slurmctld"):
        # slurmctld calls jobcomp's script one job after the other.
        cluster.wait_for(f"40 {kind} events", partial(all_there, kind), 90.0)
        assert of(kind) == ids
    assert list((spool / "tmp").iterdir()) == []
